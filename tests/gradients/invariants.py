"""What holds for the clipped sum of every model, whichever rules it takes."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.gradients.looped_reference import example_rows, loss_function, relative_error
from tfdpnorm.gradients import book_keeping
from tfdpnorm.keras_compat.layers import seed_states
from tfdpnorm.keras_compat.variables import trainable_variables

SMALL_CLIP = 0.01


def head(x):
    """[rows, 2], in float32 where layers compute in half precision."""
    dtype = "float64" if keras.backend.floatx() == "float64" else "float32"
    return keras.layers.Dense(2, dtype=dtype)(keras.layers.Flatten()(x))


def model_over(shape, *layers, dtype=None):
    """A functional model of two outputs: the layers one after the other, and a head."""
    inputs = x = keras.Input(shape, dtype=dtype)
    for layer in layers:
        x = layer(x)
    return keras.Model(inputs, head(x))


def side_by_side(*cases):
    """A model of two outputs over what all layers give: pairs of a shape of inputs and a layer."""
    inputs = {shape: keras.Input(shape) for shape, _ in cases}
    parts = [keras.layers.Flatten()(layer(inputs[shape])) for shape, layer in cases]
    inputs = list(inputs.values())
    x = keras.layers.Concatenate()(parts) if len(parts) > 1 else parts[0]
    return keras.Model(inputs if len(inputs) > 1 else inputs[0], head(x))


def norm_of(gradients):
    """The norm of all gradients together, in float64."""
    return np.sqrt(sum(np.square(g.numpy().astype(np.float64)).sum() for g in gradients))


def gradients_of(model, rows, clip=0.1, loss_fn=None):
    """The clipped sum of a model's own loss, by book-keeping."""
    loss_fn = loss_fn or loss_function(model)
    return book_keeping(model, loss_fn, rows, model.trainable_variables, clip).gradients


def begin_draws(model, seed):
    """Lets what the layers of a model draw begin anew."""
    tf.random.set_seed(seed)
    for number, state in enumerate(seed_states(model)):
        state.assign([seed, 1000 * number])


def assert_clipped_to_the_norm(model, seeds=(0,), clip=SMALL_CLIP, rel=1e-5):
    """The gradient of a single example is shortened to the clipping norm and no further."""
    loss_fn = loss_function(model)
    for seed in seeds:
        gradients = gradients_of(model, example_rows(model, 1, seed), clip, loss_fn)
        assert norm_of(gradients) <= clip * (1 + max(1e-6, rel if rel <= 1e-5 else 0))
        assert norm_of(gradients) <= clip * (1 + 1e-6)
        assert norm_of(gradients) == pytest.approx(clip, rel=rel)


def assert_one_mask_for_norm_and_sum(model, seeds=(0,)):
    """Under random masks: the gradient is a plain tape's with the same mask, clipped to norm C."""
    loss_fn = loss_function(model)
    rows = example_rows(model, 1)
    for seed in seeds:
        begin_draws(model, seed)
        whole = gradients_of(model, rows, 1e6, loss_fn)
        begin_draws(model, seed)
        with tf.GradientTape() as tape:
            loss = loss_fn(*rows[:3])[0][0]
        expected = [g.numpy() for g in tape.gradient(loss, trainable_variables(model))]
        assert relative_error([g.numpy() for g in whole], expected) < 1e-5
        for _ in range(2):
            clipped = gradients_of(model, rows, SMALL_CLIP, loss_fn)
            assert norm_of(clipped) == pytest.approx(SMALL_CLIP, rel=1e-5)


def assert_nonfinite_row_counts_as_zero(model, value=np.nan, of_targets=False):
    """A row with one number that is not finite is counted, and adds nothing to the sum."""
    loss_fn = loss_function(model)
    x, y, weight, mask = example_rows(model, 4)
    variables = model.trainable_variables
    without = tf.tensor_scatter_nd_update(mask, [[1]], [0.0])
    expected = book_keeping(model, loss_fn, (x, y, weight, without), variables, 1.0)
    spoilt = y if of_targets else x
    first = [[1] + [0] * (spoilt.shape.rank - 1)]
    spoilt = tf.tensor_scatter_nd_update(spoilt, first, [value])
    x, y = (x, spoilt) if of_targets else (spoilt, y)
    found = book_keeping(model, loss_fn, (x, y, weight, mask), variables, 1.0)
    assert (int(expected.nonfinite), int(found.nonfinite)) == (0, 1)
    assert norm_of(expected.gradients) > 0
    for actual, wanted in zip(found.gradients, expected.gradients, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-7)


def assert_graph_equals_eager(model, rows=None, inputs=None, targets=None):
    """The sum in a graph that does not know the number of rows is that of eager mode.

    Args:
        model: The model.
        rows: (x, y, sample_weight, mask), or None for random ones.
        inputs: Shape of x as the graph knows it, with None for unknown sizes.
        targets: Likewise, of y.
    """
    rows = rows or example_rows(model, 4)
    loss_fn = loss_function(model)
    eager = gradients_of(model, rows, 0.1, loss_fn)
    specs = [tf.TensorSpec([None, *t.shape[1:]], t.dtype) for t in tf.nest.flatten(rows)]
    if inputs is not None:
        specs[0] = tf.TensorSpec(inputs, specs[0].dtype)
    if targets is not None:
        specs[1] = tf.TensorSpec(targets, specs[1].dtype)

    @tf.function(input_signature=[tf.nest.pack_sequence_as(rows, specs)], autograph=False)
    def traced(rows):
        return gradients_of(model, rows, 0.1, loss_fn)

    for actual, wanted in zip(traced(rows), eager, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-6)
