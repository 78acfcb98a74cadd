"""The rules of dense layers and EinsumDense."""

import string

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.dtypes import widened
from tfdpnorm.gradients.contributions.contribution import (
    BlockOuterSum,
    OuterSum,
    bias_gradients,
    flat_positions,
    summed_to,
)
from tfdpnorm.gradients.rules.registry import BeforeActivationRule, register_rule
from tfdpnorm.keras_compat.layers import rank_of_output


@register_rule(keras.layers.Dense)
class DenseRule(BeforeActivationRule):
    """z = a W + bias: the kernel's gradient is sum_t a_t b_t^T, the bias's sum_t b_t."""

    def contributions(self, layer, remembered, gradients):
        a, b = remembered, gradients[0]
        if a.shape.rank > 2:
            a, b = flat_positions(a), flat_positions(b)
        found = [(layer.kernel, OuterSum(a, b, layer.kernel.shape))]
        if layer.use_bias:
            found.append((layer.bias, bias_gradients(b)))
        return found


@register_rule(keras.layers.EinsumDense)
class EinsumDenseRule(BeforeActivationRule):
    """A dense layer once axes are sorted: its positions, inputs d, outputs p and blocks.

    Of the weight's letters, those in the input only are summed over (d), those in the output only
    are new (p), and those in both choose a block of weights: 'abc,bcd->abd' has weights of its own
    for each b.
    """

    def applies(self, layer):
        given, _, made = _operands(layer.equation.replace("...", ""))
        letters = _letters(layer.equation, len(given) + rank_of_output(layer) - len(made))
        # A letter twice in one operand is the diagonal of a tensor.
        return _rows_stay(letters) and all(len(set(x)) == len(x) for x in letters)

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        if not _rows_stay(_letters(layer.equation, inputs.shape.rank)):
            raise ValueError(
                f"Expected an equation that keeps rows apart in layer {layer.name!r}, got "
                f"{layer.equation!r} for an input of shape {tuple(inputs.shape)}."
            )
        return super().forward(layer, call, watch, inputs, *args, **kwargs)

    def contributions(self, layer, remembered, gradients):
        (b,) = gradients
        letters = _letters(layer.equation, remembered.shape.rank)
        kernel = layer.kernel
        found = [(kernel, einsum_gradients(letters, remembered, b, kernel.shape))]
        if layer.bias is not None:
            found.append((layer.bias, summed_to(b, layer.bias.shape)))
        return found


def einsum_gradients(letters, inputs, b, shape):
    """The contribution of a weight of `shape`; `letters` are those of input, weight and output."""
    given, weight, made = letters
    sizes = dict(zip(weight, shape, strict=True))
    row = given[0]
    blocks = "".join(x for x in weight if x in given and x in made)
    d = "".join(x for x in weight if x in given and x not in made)
    p = "".join(x for x in weight if x not in given)
    positions = "".join(x for x in made if x in given and x not in blocks + row)
    if not blocks and weight in (d + p, p + d):
        axes = [row, positions] if positions else [row]
        a = _sorted(inputs, given, [*axes, d], sizes)
        b = _sorted(b, made, [*axes, p], sizes)
        return OuterSum(*((a, b) if weight == d + p else (b, a)), shape)
    a = _sorted(inputs, given, [row, blocks, positions, d], sizes)
    b = _sorted(b, made, [row, blocks, positions, p], sizes)
    letters = blocks + d + p
    order = [letters.index(x) for x in weight]
    return BlockOuterSum(a, b, [sizes[x] for x in letters], order, shape)


def _operands(equation):
    """The letters of input, weight and output."""
    operands, made = equation.split("->")
    return (*operands.split(","), made)


def _letters(equation, rank):
    """The letters of input, weight and output, '...' replaced, for inputs of `rank`."""
    count = rank - len(_operands(equation)[0].replace("...", ""))
    unused = [x for x in string.ascii_letters if x not in equation]
    return [x.replace("...", "".join(unused[:count])) for x in _operands(equation)]


def _rows_stay(letters):
    """Whether the first axis of the input is the first of the output, and not one of the weight."""
    given, weight, made = letters
    return given[0] == made[0] and given[0] not in weight


def _sorted(x, letters, groups, sizes):
    """`x`, with an axis for each of `letters`, with one for each string in `groups` instead.

    Letters in no group are summed over. `sizes` are those of the weight's letters; others are read
    from `x`.
    """
    x = widened(x)
    target = "".join(groups)
    if letters != target:
        x = tf.einsum(f"{letters}->{target}", x)
    found = dict(zip(target, x.shape, strict=True)) | sizes
    shape = []
    for group in groups:
        size = tf.TensorShape([found[letter] for letter in group]).num_elements()
        if size is None:
            axes = [target.index(letter) for letter in group]
            size = tf.reduce_prod(tf.gather(tf.shape(x), axes))
        shape.append(size)
    return tf.reshape(x, shape)
