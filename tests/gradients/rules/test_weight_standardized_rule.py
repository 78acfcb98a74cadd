"""The rule of weight-standardised convolutions, in each of its forms."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.gradients.invariants import side_by_side
from tests.gradients.looped_reference import (
    assert_equals_the_loop,
    double_precision,
    example_rows,
    looped_sum,
    loss_function,
    relative_error,
)
from tfdpnorm.gradients import book_keeping
from tfdpnorm.gradients.contributions.row_sums import LONGER
from tfdpnorm.gradients.rules.weight_standardized import StandardizedConvolutionSum
from tfdpnorm.layers import WeightStandardizedConv2D

# Gram matrices give norms that are larger by what rounding may have taken away.


def model_of(input_shape, *layers, dtype="float32"):
    keras.utils.set_random_seed(11)
    inputs = keras.Input(input_shape, dtype=dtype)
    x = inputs
    for layer in layers:
        x = layer(x)
    return keras.Model(inputs, keras.layers.Dense(2, dtype=dtype)(keras.layers.Flatten()(x)))


def test_equals_the_loop(form):
    """Also of a gain of zero, of kernels of little variance, and in two calls."""
    with double_precision():
        keras.utils.set_random_seed(11)
        of = [
            WeightStandardizedConv2D(4, 3, **options)
            for options in (
                {"padding": "same", "activation": "relu"},
                {"strides": 2, "padding": "same"},
                {"strides": (2, 1), "use_bias": False},
                {"dilation_rate": 2},
                {"weight_epsilon": 0.5},
            )
        ]
        twice = WeightStandardizedConv2D(3, 3, padding="same")
        pair = keras.Sequential([twice, twice])
        model = side_by_side(*(((6, 5, 3), layer) for layer in (*of, pair)))
        for layer in of:
            layer.gain.assign(np.linspace(-0.5, 2.0, 4))
            if layer.use_bias:
                layer.bias.assign(np.linspace(-1.0, 1.0, 4))
        of[0].gain.assign([1.0, 0.0, -1.0, 1e-6])
        of[-1].kernel.assign(of[-1].kernel * np.array([1e-2, 10.0, 1.0, 1.0]))
        assert_equals_the_loop(model, counts=(0, 1, 3), tolerance=1e-9)


def test_constant_images_do_not_make_the_norm_negative(form):
    """Then nearly all of the gradient lies along the direction that is taken out."""
    layer = WeightStandardizedConv2D(3, 3)
    model = model_of((6, 6, 1), layer)
    model.layers[-1].set_weights([1e3 * w for w in model.layers[-1].get_weights()])
    rows = (tf.ones([2, 6, 6, 1]), tf.zeros([2, 2]), tf.ones(2), tf.ones(2))
    variables = [layer.kernel]
    for variable in (layer.gain, layer.bias, *model.layers[-1].trainable_variables):
        variable._trainable = False
    result = book_keeping(model, loss_function(model), rows, variables, 1.0)
    norm = np.sqrt(np.square(result.gradients[0].numpy()).sum())
    assert norm <= 2.0 * (1 + 1e-6)
    assert int(result.nonfinite) == 0


def test_a_bias_takes_no_digits_from_the_gradient_by_the_gain(form):
    """The norm of the kernel's gradient depends on it, too."""
    layer = WeightStandardizedConv2D(3, 3)
    model = model_of((12, 12, 2), layer)
    layer.bias.assign([90.0, -90.0, 80.0])
    loss_fn, rows = loss_function(model), example_rows(model, 4)
    variables = model.trainable_variables
    place = [v is layer.gain for v in variables].index(True)
    found = book_keeping(model, loss_fn, rows, variables, 1e9).gradients[place].numpy()
    expected = looped_sum(loss_fn, rows, variables, 1e9)[place]
    assert relative_error([found], [expected]) < 2e-6


def test_summands_are_at_most_four_clipping_norms_long(form, monkeypatch):
    """Though nearly nothing is left of it: rounding of the sum is paid for up to there."""
    layer = WeightStandardizedConv2D(3, 3)
    model = model_of((6, 6, 1), layer)
    model.layers[-1].set_weights([1e3 * w for w in model.layers[-1].get_weights()])
    added_up, finished = [], StandardizedConvolutionSum._finished

    def seen(self, total):
        scaled = total.numpy() * self._standardization.scale.numpy()
        added_up.append((total.dtype, np.linalg.norm(scaled)))
        return finished(self, total)

    monkeypatch.setattr(StandardizedConvolutionSum, "_finished", seen)
    rows = (1 + 1e-3 * tf.random.normal([1, 6, 6, 1]), tf.zeros([1, 2]), tf.ones(1), tf.ones(1))
    book_keeping(model, loss_function(model), rows, [layer.kernel], 0.5)
    ((dtype, norm),) = added_up
    assert norm <= LONGER * 0.5 * (1 + 1e-6)
    assert norm > 0.5  # or this would say nothing
    assert dtype == tf.float64


@each("gain", [1.0, 20.0])
def test_patches_that_cancel_do_not_lengthen_a_row(gain):
    """What the gain gets rounds otherwise than the gradient of the kernel."""
    keras.utils.set_random_seed(0)
    layer = WeightStandardizedConv2D(1, 3, use_bias=False)
    model = keras.Sequential([keras.Input((24, 24, 1)), layer])
    layer.gain.assign([gain])
    rng, clip, most = np.random.default_rng(0), 1e-3, 0.0

    def loss_fn(x, y, weight):
        predictions = model(x, training=True)
        return tf.reduce_sum(predictions, [1, 2, 3]) * weight, predictions

    @tf.function(autograph=False)
    def clipped(x):
        rows = x, tf.zeros([1]), tf.ones([1]), tf.ones([1])
        return book_keeping(model, loss_fn, rows, model.trainable_variables, clip).gradients

    for _ in range(300):
        large, part = rng.integers(3 * 2**20, 2**22), rng.integers(2**20, 2**21)
        x = np.zeros((1, 24, 24, 1), np.float32)
        x[0, 4, 4], x[0, 8, 12], x[0, 14, 6] = large, -part, part - large
        x[0, 0, 0] = rng.choice([-1, 1])
        gradients = [g.numpy().astype(np.float64) for g in clipped(tf.constant(x))]
        most = max(most, np.sqrt(sum(np.square(g).sum() for g in gradients)))
    assert most <= clip * (1 + 1e-6)
