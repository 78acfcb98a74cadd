"""Synthetic examples for a randomized check, made from shapes and types alone."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.models import specs_of_call, sublayers, symbolic_inputs

OUTLIER = 1000.0
_UNKNOWN_SIZE = 32
_WORDS = ("a", "of", "the", "word", "other", "some", "more", "text")


class SyntheticExamples(NamedTuple):
    """Three values for each of n examples.

    Attributes:
        base: Structure of arrays [n, ...].
        other: The same for ordinary examples that differ from `base`.
        outlier: The same for examples far from all others.
    """

    base: Any
    other: Any
    outlier: Any

    @property
    def count(self):
        """n."""
        return len(tf.nest.flatten(self.base)[0])

    def joined_with(self, others):
        """Pairs of these and other `SyntheticExamples`, for functions of two structures."""
        return SyntheticExamples(*zip(self, others, strict=True))


def chosen(mask, ours, theirs):
    """Examples of `ours` where `mask` [n] is true, of `theirs` elsewhere."""
    return tf.nest.map_structure(
        lambda a, b: np.where(np.reshape(mask, [-1] + [1] * (np.ndim(a) - 1)), a, b), ours, theirs
    )


def splits(count):
    """Yields masks [count] that separate each pair of examples, in both roles.

    They are the binary digits of the examples' numbers and their complements.
    """
    numbers = np.arange(count)
    for digit in range(max(1, int(count - 1).bit_length())):
        mask = (numbers >> digit) & 1 == 0
        yield from (mask, ~mask)


def synthetic_examples(specs, count, *, bound=2, labels=False, seed=0):
    """Makes examples without looking at data.

    Args:
        specs: Structure of `tf.TensorSpec` [None, ...]. Unknown sizes become 32.
        count: n.
        bound: Integers are in [0, bound); those of a byte are in [0, 256) if `bound` is 2.
        labels: Whether floats are 0 or 1, as labels are, instead of normal numbers.
        seed: Of NumPy's generator.

    Returns:
        `SyntheticExamples`.

    Raises:
        ValueError: for a spec of unknown rank, or of a type that holds neither numbers nor words.
    """
    rng = np.random.default_rng(seed)
    flat = [_leaf(spec, count, bound, labels, rng) for spec in tf.nest.flatten(specs)]
    parts = zip(*flat, strict=True)
    return SyntheticExamples(*(tf.nest.pack_sequence_as(specs, part) for part in parts))


def _leaf(spec, count, bound, labels, rng):
    if not spec.shape.rank:
        raise ValueError(
            f"Expected inputs of known rank with an axis of examples, got shape {spec.shape}. Give "
            "the shape to keras.Input."
        )
    shape = (count, *(_UNKNOWN_SIZE if size is None else size for size in spec.shape[1:]))
    kind = spec.dtype
    if kind.is_bool:
        base = rng.random(shape) < 0.5
        return base, ~base, np.ones(shape, bool)
    if kind == tf.string:
        base, other = (rng.choice(_WORDS, shape).astype(object) for _ in range(2))
        return base, other, np.full(shape, "outlier", object)
    dtype = kind.as_numpy_dtype
    if kind.is_integer or (labels and kind.is_floating):
        bound = 256 if kind.is_integer and kind.size == 1 and bound == 2 else bound
        bound = min(bound, int(kind.max) + 1)
        base = rng.integers(bound, size=shape)
        # Never the same id, which would leave the example unchanged.
        other = (base + rng.integers(1, max(bound, 2), size=shape)) % bound
        return tuple(a.astype(dtype) for a in (base, other, np.full(shape, bound - 1)))
    if not (kind.is_floating or kind.is_complex):
        raise ValueError(
            f"Expected inputs of numbers or texts, got {kind}. Convert other types in the input "
            "pipeline, before the model."
        )
    base, other, far = (rng.normal(size=shape) for _ in range(3))
    return tuple(a.astype(dtype) for a in (base, other, OUTLIER * far))


def integer_bound(model, default=2):
    """Smallest number of ids that the embeddings inside `model` know; `default` without any."""
    sizes = [layer.input_dim for layer in _inside(model, keras.layers.Embedding)]
    sizes += [layer.num_tokens for layer in _inside(model, keras.layers.CategoryEncoding)]
    return min((s for s in sizes if s is not None), default=default)


def input_specs(model):
    """Structure of specs that `model` takes; None if it is not known yet.

    Functional and Sequential models know it once they are built, others once they were called.
    """
    inputs = symbolic_inputs(model)
    if inputs is not None:
        return tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape, tf.as_dtype(t.dtype)), inputs)
    spec = specs_of_call(model) if model.built else None
    return None if spec is None else spec[0][0]


def _inside(model, kind):
    return [layer for layer in (model, *sublayers(model)) if isinstance(layer, kind)]
