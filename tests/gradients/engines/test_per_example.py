"""The clipped sum by vectorised gradients, against a Python loop over single examples."""

import warnings

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.gradients import Clipping, per_example
from tfdpnorm.gradients.map_rows import map_rows
from tfdpnorm.keras_compat.variables import raw, trainable_variables
from tfdpnorm.layers import (
    PublicBatchNormalization,
    PublicStatistics,
    joint_pass,
    record_pass,
    use_pass,
)


def dense():
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])


def conv_group():
    return keras.Sequential(
        [
            keras.Input((5, 5, 2)),
            keras.layers.Conv2D(4, 3, activation="tanh"),
            keras.layers.GroupNormalization(2),
            keras.layers.Flatten(),
            keras.layers.Dense(2),
        ]
    )


def public_batch():
    return keras.Sequential(
        [
            keras.Input((4, 3)),
            keras.layers.Conv1D(3, 2),
            PublicBatchNormalization(scale=False),
            keras.layers.Flatten(),
            keras.layers.Dense(2),
            PublicBatchNormalization(),
        ]
    )


def embedding():
    return keras.Sequential(
        [
            keras.Input((4,), dtype="int32"),
            keras.layers.Embedding(6, 3, mask_zero=True),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(2),
        ]
    )


def unrolled_lstm():
    return keras.Sequential(
        [keras.Input((3, 2)), keras.layers.LSTM(2, unroll=True), keras.layers.Dense(2)]
    )


VECTORISED = [dense, conv_group, public_batch, embedding, unrolled_lstm]


class Case:
    """A model, its loss, and rows for it."""

    def __init__(self, make, seed=0):
        self.rng = np.random.default_rng(seed)
        keras.utils.set_random_seed(seed)
        self.model = make()
        self.statistics = PublicStatistics()
        with record_pass(self.statistics):
            self.model(self.inputs(6))
        self.variables = trainable_variables(self.model)
        # As private training does: untrained gammas, which the pull-back needs.
        norms = [x for x in self.model.layers if isinstance(x, PublicBatchNormalization)]
        self.variables += raw([norm.gamma for norm in norms if not norm.scale])

    def inputs(self, count):
        shape, dtype = self.model.input_shape[1:], tf.as_dtype(self.model.inputs[0].dtype)
        if dtype.is_integer:
            return self.rng.integers(0, 6, (count, *shape)).astype(dtype.as_numpy_dtype)
        return self.rng.normal(0.0, 2.0, (count, *shape)).astype("float32")

    def loss_fn(self, x, y, sample_weight):
        with use_pass(self.statistics):
            predictions = self.model(x, training=True)
        return tf.reduce_sum(tf.square(predictions - y), -1) * sample_weight, predictions

    def rows(self, count):
        mask = np.ones(count, "float32")
        mask[1::3] = 0.0
        weights = self.rng.uniform(0.5, 2.0, count).astype("float32")
        targets = self.rng.normal(size=(count, 2)).astype("float32")
        return self.inputs(count), targets, weights, mask

    def loop(self, rows, clip):
        """Clipped sum and losses, example after example, with a plain tape and NumPy."""
        sums = [np.zeros(v.shape) for v in self.variables]
        losses = []
        for i in range(len(rows[0])):
            x, y, weight, mask = (tf.constant(part[i : i + 1]) for part in rows)
            with tf.GradientTape() as tape:
                tape.watch(self.variables)
                loss = self.loss_fn(x, y, weight)[0]
            gradients = [
                tf.convert_to_tensor(g).numpy().astype("float64")
                for g in tape.gradient(loss, self.variables)
            ]
            losses.append(float(loss[0]))
            norm = np.sqrt(sum(np.sum(g**2) for g in gradients))
            for total, gradient in zip(sums, gradients, strict=True):
                total += gradient * float(mask[0]) * min(1.0, clip / norm)
        return sums, losses


def check(case, rows, clip, result):
    sums, losses = case.loop(rows, clip)
    scale = max([np.abs(total).max() for total in sums] + [1e-3])
    for variable, total, gradient in zip(case.variables, sums, result.gradients, strict=True):
        assert gradient.shape == variable.shape
        np.testing.assert_allclose(gradient, total, atol=2e-5 * scale, err_msg=variable.name)
    np.testing.assert_allclose(result.losses, losses, rtol=1e-4, atol=1e-5)
    assert result.losses.shape == (len(rows[0]),)
    assert result.predictions.shape == (len(rows[0]), 2)
    assert int(result.nonfinite) == 0


def tensors(rows):
    return tuple(tf.constant(part) for part in rows)


@each("make", VECTORISED)
def test_is_the_sum_over_single_examples(make):
    """In a graph that does not know how many there are, and for one model in eager mode too."""
    case = Case(make)
    parts = case.rows(2)
    specs = [tf.TensorSpec([None, *part.shape[1:]], part.dtype) for part in parts]

    @tf.function(input_signature=[specs], autograph=False)
    def summed(rows):
        return per_example(case.loss_fn, tuple(rows), case.variables, 3.0)

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # These models need no loop.
        for count in (0, 1, 4):
            rows = case.rows(count)
            check(case, rows, 3.0, summed(list(tensors(rows))))
        if make is dense:
            for count in (0, 2):
                rows = case.rows(count)
                found = per_example(case.loss_fn, tensors(rows), case.variables, 3.0)
                check(case, rows, 3.0, found)


def test_an_error_of_the_loss_is_no_matter_of_vectorisation():
    def loss_fn(x, y, sample_weight):
        raise ValueError("this loss is no loss")

    variable = tf.Variable(1.0)
    rows = (tf.ones([3, 1]), tf.ones([3]), tf.ones([3]), tf.ones([3]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="this loss is no loss"):
            per_example(loss_fn, rows, [variable], 1.0)


def quadratic(weight):
    """Loss weight * x, whose gradient by the weight is x."""

    def loss_fn(x, y, sample_weight):
        losses = tf.linalg.matvec(x, weight) * sample_weight
        return losses, losses

    return loss_fn


def test_weights_come_before_the_clip_and_the_mask_after():
    weight = tf.Variable([1.0, 1.0])
    x = tf.constant([[3.0, 4.0], [0.1, 0.0], [30.0, 40.0]])
    rows = (x, x, tf.constant([0.1, 5.0, 1.0]), tf.constant([1.0, 1.0, 0.0]))
    result = per_example(quadratic(weight), rows, [weight], 1.0)
    # 0.1 * (3, 4) is within the clip; the third row is padding, but its loss is told.
    np.testing.assert_allclose(result.gradients[0], [0.3 + 0.5, 0.4], rtol=1e-6)
    np.testing.assert_allclose(result.losses, [0.7, 0.5, 70.0], rtol=1e-6)


def test_nonfinite_rows_are_dropped_and_counted():
    weight = tf.Variable([1.0, 1.0])
    x = tf.constant([[3.0, 4.0], [np.nan, 1.0], [np.inf, 0.0], [np.nan, np.nan]])
    rows = (x, x, tf.ones([4]), tf.constant([1.0, 1.0, 1.0, 0.0]))
    result = per_example(quadratic(weight), rows, [weight], 1.0)
    np.testing.assert_allclose(result.gradients[0], [0.6, 0.8], rtol=1e-5)
    assert int(result.nonfinite) == 2


def test_structures_of_inputs_and_predictions():
    weight = tf.Variable([2.0])

    def loss_fn(x, y, sample_weight):
        product = x["a"] * x["b"][0] * weight
        losses = tf.reduce_sum(product - y[0], -1) * sample_weight
        return losses, {"product": product, "double": (2.0 * product,)}

    a, b = tf.constant([[1.0], [2.0]]), tf.constant([[3.0], [4.0]])
    rows = ({"a": a, "b": (b,)}, [a], tf.ones([2]), tf.ones([2]))
    result = per_example(loss_fn, rows, [weight], np.inf)
    np.testing.assert_allclose(result.gradients[0], [11.0])
    np.testing.assert_allclose(result.predictions["product"], [[6.0], [16.0]])
    np.testing.assert_allclose(result.predictions["double"][0], [[12.0], [32.0]])


@each("rows_mix, count", [(False, 0), (False, 3), (True, 0), (True, 3)])
def test_unconnected_variables_are_named(rows_mix, count):
    weight = tf.Variable([1.0, 1.0], name="used")
    left, right = tf.Variable(1.0, name="left_out"), tf.Variable([1.0], name="left_too")
    rows = (tf.ones([count, 2]), tf.ones([count]), tf.ones([count]), tf.ones([count]))
    with pytest.raises(ValueError, match="left_out.*left_too") as caught:
        per_example(quadratic(weight), rows, [left, weight, right], 1.0, rows_mix=rows_mix)
    assert "used" not in str(caught.value)


def test_the_loss_scale_cancels():
    loss_scale = 2.0**15
    case = Case(conv_group)
    rows = tensors(case.rows(3))
    for clip in (0.7, 1e3):  # all gradients longer, and all shorter
        plain = per_example(case.loss_fn, rows, case.variables, clip)
        clipping = Clipping(clip, loss_scale=loss_scale)
        scaled = per_example(case.loss_fn, rows, case.variables, clipping)
        np.testing.assert_allclose(plain.losses, scaled.losses, rtol=1e-6)
        for one, other in zip(plain.gradients, scaled.gradients, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_the_loss_scale_saves_small_gradients_in_half_precision():
    layer = keras.layers.Dense(1, use_bias=False, dtype="mixed_float16")
    layer.build((None, 4))

    def loss_fn(x, y, sample_weight):
        predictions = tf.cast(layer(x), tf.float32)
        return tf.squeeze(predictions, -1) * 1e-9 * sample_weight, predictions

    x = tf.constant([[1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0]])
    rows = (x, x, tf.ones([2]), tf.ones([2]))
    lost = per_example(loss_fn, rows, layer.trainable_variables, np.inf)
    assert not np.any(lost.gradients[0])
    saved = per_example(
        loss_fn, rows, layer.trainable_variables, Clipping(np.inf, loss_scale=2.0**15)
    )
    assert saved.gradients[0].dtype == tf.float32
    np.testing.assert_allclose(saved.gradients[0], np.full((4, 1), 5e-9), rtol=2e-2)


def test_float64_gradients_stay_float64():
    weight = tf.Variable([1.0, 1.0], dtype=tf.float64)
    x = tf.constant([[3.0, 4.0], [1e-9, 0.0]], tf.float64)
    rows = (x, x, tf.ones([2], tf.float64), tf.ones([2]))
    result = per_example(quadratic(weight), rows, [weight], 1.0)
    assert result.gradients[0].dtype == tf.float64
    np.testing.assert_allclose(result.gradients[0], [0.6 + 1e-9, 0.8], rtol=1e-14)


@each("count", [0, 1, 4])
def test_rows_that_mix(count):
    """Mode "lot": rows of the Jacobian of the whole batch, each clipped."""
    rng = np.random.default_rng(3)
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(2), PublicBatchNormalization(statistics="lot")]
    )
    public = rng.normal(size=(3, 3)).astype("float32")

    def loss_fn(x, y, sample_weight):
        with joint_pass():
            predictions = model(tf.concat([x, public], 0))[:count]
        return tf.reduce_sum(tf.square(predictions - y), -1) * sample_weight, predictions

    x = tf.constant(rng.normal(size=(count, 3)), tf.float32)
    y = tf.constant(rng.normal(size=(count, 2)), tf.float32)
    mask = np.ones(count, "float32")
    mask[1:2] = 0.0
    rows = (x, y, tf.ones([count]), tf.constant(mask))
    variables = model.trainable_variables
    result = per_example(loss_fn, rows, variables, 0.5, rows_mix=True)
    expected = [np.zeros(v.shape) for v in variables]
    for i in range(count):
        with tf.GradientTape() as tape:
            loss = loss_fn(*rows[:3])[0][i]
        gradients = [g.numpy().astype("float64") for g in tape.gradient(loss, variables)]
        norm = np.sqrt(sum(np.sum(g**2) for g in gradients))
        for total, gradient in zip(expected, gradients, strict=True):
            total += gradient * mask[i] * min(1.0, 0.5 / norm)
    for gradient, total in zip(result.gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, total, atol=1e-5)
    assert result.losses.shape == (count,)


@each("error", [AttributeError, AssertionError, KeyError, ValueError])
def test_failed_vectorisation_leaves_no_operation_in_the_graph(monkeypatch, error):
    """TensorFlow's converters raise anything; what they have made so far must not run."""
    made_by_failing = tf.Variable(0.0)

    def failing(one, rows):
        made_by_failing.assign_add(1.0)
        raise error("no converter")

    rows = (tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.ones([2]))
    with monkeypatch.context() as patch, pytest.warns(UserWarning, match=f"{error.__name__}"):
        patch.setattr(tf, "vectorized_map", failing)
        found = tf.function(
            lambda *rows: map_rows(lambda row: 2.0 * row[0], rows), autograph=False
        )(*rows)
    np.testing.assert_array_equal(found, 2.0 * rows[0])
    assert made_by_failing.numpy() == 0.0


def test_rows_of_several_shapes_are_taken_one_after_the_other():
    """Vectorised they would fail as they run: no converter knows how long each row will be."""
    rows = (tf.constant([[1.0, -2.0, 3.0], [-4.0, -5.0, 6.0]]), tf.ones([2]))

    def one(row):
        return tf.reduce_sum(tf.square(tf.gather_nd(row[0], tf.where(row[0] > 0))))

    with pytest.warns(UserWarning, match="one row at a time.*Where may have another shape"):
        found = tf.function(lambda *rows: map_rows(one, rows), autograph=False)(*rows)
    np.testing.assert_array_equal(found, [10.0, 36.0])


def _summed(row):
    """By an operation that no case of `tests/keras_compat/converters` compares with a loop."""
    return tf.sparse.segment_sum(row, [0, 1, 2], [0, 0, 1])


_HOLDERS = {
    "called": lambda row: tf.function(_summed)(row),
    "in a branch": lambda row: tf.cond(row[0] > 0, lambda: _summed(row), lambda: 2.0 * row[:2]),
    "in a loop": lambda row: tf.while_loop(
        lambda i, x: i < 1,
        lambda i, x: (i + 1, tf.ensure_shape(tf.concat([_summed(x), x[:1]], 0), [3])),
        (0, row),
    )[1],
    "by itself": _summed,
}


@each("holder", _HOLDERS)
def test_operations_without_a_case_are_not_vectorised(holder):
    rows = (tf.constant([[1.0, 2.0, 4.0], [-3.0, 5.0, 7.0]]), tf.ones([2]))

    def one(row):
        return _HOLDERS[holder](row[0])

    with pytest.warns(UserWarning, match="one row at a time.*SparseSegmentSum"):
        found = tf.function(lambda *rows: map_rows(one, rows), autograph=False)(*rows)
    np.testing.assert_array_equal(found, [one([row]) for row in rows[0]])


def test_jacobians_of_operations_without_a_case_are_not_vectorised():
    w = tf.Variable([1.0, -2.0, 3.0])
    rows = (tf.constant([[1.0, 2.0], [3.0, -4.0]]), tf.zeros([2]), tf.ones([2]), tf.ones([2]))

    def loss_fn(x, y, sample_weight):
        losses = tf.linalg.matvec(x, _summed(w))
        return losses, losses

    with pytest.warns(UserWarning, match="one row at a time.*SparseSegmentSumGrad"):
        found = per_example(loss_fn, rows, [w], 100.0, rows_mix=True)
    np.testing.assert_allclose(found.gradients[0], [4.0, 4.0, -2.0])


def test_padding_keeps_its_constant():
    w = tf.Variable([0.5])
    rows = (tf.constant([[1.0], [3.0]]), tf.zeros([2]), tf.ones([2]), tf.ones([2]))

    def loss_fn(x, y, sample_weight):
        padded = tf.pad(x * w, [[0, 0], [1, 2]], constant_values=2.0)
        losses = tf.reduce_prod(padded, 1)
        return losses, losses

    found = per_example(loss_fn, rows, [w], 100.0)
    np.testing.assert_allclose(found.losses, [4.0, 12.0])
    np.testing.assert_allclose(found.gradients[0], [32.0])
