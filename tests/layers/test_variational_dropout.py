"""Variational dropout against weights that are sampled, the integral, and Keras' own layers."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import integrate
from tensorflow import keras

from tests.each import each
from tfdpnorm.keras_compat.variables import raw
from tfdpnorm.layers import (
    VariationalDropoutConv2D,
    VariationalDropoutDense,
    alpha_of_rate,
    kl_to_log_uniform,
    prune,
    rate_of_alpha,
    sparsity_report,
)

KINDS = {
    "weight": {},
    "neuron": {"alpha_per": "neuron"},
    "layer": {"alpha_per": "layer"},
    "fixed": {"noise": "fixed"},
    "public": {"noise": "public"},
}
DRAWS = 20_000


def dense(units=4, features=5, **options):
    layer = VariationalDropoutDense(units, seed=3, bias_initializer="ones", **options)
    return built(layer, (None, features))


def convolution(**options):
    layer = VariationalDropoutConv2D(3, (3, 2), strides=(2, 1), padding="same", seed=3, **options)
    return built(layer, (None, 5, 4, 2))


def built(layer, shape):
    """With noise that differs from weight to weight wherever it can."""
    layer.build(shape)
    rng = np.random.default_rng(1)
    for variable in layer.weights:
        if "noise_stddev" in variable.name:
            variable.assign(0.3)
        elif "noise" in variable.name:
            variable.assign(variable + rng.uniform(-1, 1, variable.shape))
    return layer


def inputs_for(layer, rows=3, seed=0):
    shape = (rows, 5, 4, 2) if isinstance(layer, keras.layers.Conv2D) else (rows, 5)
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def variance_of_weights(layer):
    """zeta^2 of each weight, from the definition of alpha."""
    phi = layer.kernel.numpy().astype(np.float64)
    return np.exp(layer.log_alpha().numpy().astype(np.float64)) * phi**2


@each("make,kind", [(dense, "weight"), (dense, "public"), (convolution, "weight")])
def test_moments_are_those_of_sampled_weights(make, kind):
    """Mean and variance of pre-activations of theta = phi + zeta e, sampled one by one."""
    layer = make(**KINDS[kind])
    x = inputs_for(layer, rows=1)
    phi, zeta = layer.kernel.numpy(), np.sqrt(variance_of_weights(layer))
    rng = np.random.default_rng(2)
    count = 4000
    theta = phi + zeta * rng.normal(size=(count, *phi.shape))
    if make is dense:
        sampled = np.einsum("rd,sdp->srp", x, theta)
    else:
        # All draws at once: draws of weights are further filters.
        kernels = np.moveaxis(theta, 0, -1).reshape(*phi.shape[:3], -1).astype("float32")
        outputs = tf.nn.convolution(x, kernels, strides=layer.strides, padding="SAME").numpy()
        sampled = np.moveaxis(outputs.reshape(*outputs.shape[:3], 3, count), -1, 0)
    mean, variance = layer.moments(tf.constant(x))
    expected = variance.numpy()
    error = np.sqrt(expected / count)
    bias = layer.bias.numpy()
    assert np.all(abs(sampled.mean(0) + bias - mean) < 5.5 * error + 1e-5)
    assert np.all(abs(sampled.var(0) / expected - 1) < 5.5 * np.sqrt(2 / count))


@each("kind", ["weight", "public"])
def test_outputs_in_training_have_these_moments(kind):
    layer = dense(**KINDS[kind])
    x = np.repeat(inputs_for(layer, rows=1), DRAWS, axis=0)
    mean, variance = layer.moments(tf.constant(x[:1]))
    drawn = layer(x, training=True).numpy()
    assert np.all(abs(drawn.mean(0) - mean) < 5.5 * np.sqrt(variance / DRAWS))
    assert np.all(abs(drawn.var(0) / variance - 1) < 5.5 * np.sqrt(2 / DRAWS))
    # Each row and unit by itself.
    standard = (drawn - mean.numpy()) / np.sqrt(variance.numpy())
    correlations = np.corrcoef(standard.T) - np.eye(layer.units)
    assert np.abs(correlations).max() < 5.5 / np.sqrt(DRAWS)
    assert abs(np.mean(standard[1:] * standard[:-1])) < 5.5 / np.sqrt(DRAWS)


def test_mean_weights_in_testing_are_those_of_the_plain_layer():
    for layer, plain in (
        (dense(activation="tanh"), keras.layers.Dense(4, "tanh")),
        (
            convolution(activation="tanh"),
            keras.layers.Conv2D(3, (3, 2), (2, 1), "same", activation="tanh"),
        ),
    ):
        x = tf.constant(inputs_for(layer))
        plain.build(x.shape)
        plain.set_weights([layer.kernel.numpy(), layer.bias.numpy()])
        np.testing.assert_allclose(layer(x), plain(x), rtol=1e-5, atol=1e-6)


def test_sampled_weights_in_testing_are_one_draw_for_all_rows():
    layer = dense(test_weights="sampled")
    x = tf.eye(5, batch_shape=[100])
    call = tf.function(layer)
    draws = np.stack([call(tf.eye(5)).numpy() - layer.bias.numpy() for _ in range(300)])
    variance = variance_of_weights(layer)
    assert np.all(abs(draws.mean(0) - layer.kernel) < 5.5 * np.sqrt(variance / 300))
    assert np.all(abs(draws.var(0) / variance - 1) < 5.5 * np.sqrt(2 / 300))
    of_one_call = layer(x).numpy()
    assert np.ptp(of_one_call, axis=0).max() < 1e-6


def test_dense_takes_further_axes():
    layer = dense()
    x = np.random.default_rng(0).normal(size=(3, 2, 5)).astype("float32")
    mean, variance = layer.moments(tf.constant(x))
    flat = layer.moments(tf.constant(x.reshape(6, 5)))
    np.testing.assert_allclose(np.reshape(mean, (6, 4)), flat[0], rtol=1e-5)
    np.testing.assert_allclose(np.reshape(variance, (6, 4)), flat[1], rtol=1e-5)
    assert layer(x, training=True).shape == (3, 2, 4)


def test_a_row_of_zeros_has_gradients():
    layer = dense()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(np.zeros((2, 5), "float32"), training=True))
    for gradient in tape.gradient(loss, layer.trainable_weights):
        assert np.isfinite(gradient).all()


def divergence(log_alpha):
    """KL(N(1, alpha) || 1 / |theta|), 0 for alpha -> infinity, by numerical integration."""
    alpha = np.exp(log_alpha)
    root = -1 / np.sqrt(alpha)  # where the logarithm is singular

    def integrand(u):
        log = np.log(abs(1 + np.sqrt(alpha) * u) + 1e-300)
        return np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi) * log

    ends = sorted({-12.0, 12.0, *(x for x in [root] if -12 < x < 12)})
    mean_log = sum(
        integrate.quad(integrand, a, b, limit=500)[0] for a, b in zip(ends, ends[1:], strict=False)
    )
    limit = -(np.euler_gamma + np.log(2)) / 2  # E log |e|
    return mean_log - log_alpha / 2 - limit


def test_the_divergence_is_the_integral():
    log_alphas = np.linspace(-8, 8, 65)
    expected = [divergence(x) for x in log_alphas]
    found = kl_to_log_uniform(tf.constant(log_alphas, tf.float32)).numpy()
    assert np.abs(found - expected).max() < 0.01
    extreme = kl_to_log_uniform(tf.constant([-200.0, 200.0])).numpy()
    np.testing.assert_allclose(extreme, [100 + 0.63576, 0.0], rtol=1e-6)


@each("kind", ["weight", "layer"])
def test_the_loss_is_the_divergence_over_the_number_of_examples(kind):
    layer = dense(**KINDS[kind], num_examples=200, kl_weight=0.5)
    log_alpha = np.log(variance_of_weights(layer) / layer.kernel.numpy() ** 2)
    expected = 0.5 / 200 * sum(divergence(x) for x in log_alpha.ravel())
    (loss,) = layer.losses
    within = keras.Sequential([keras.Input([5]), keras.Sequential([layer])])
    assert [float(each) for each in within.losses] == [float(loss)]
    np.testing.assert_allclose(loss, expected, atol=0.01 * layer.kernel.numpy().size * 0.5 / 200)
    assert not dense(**KINDS[kind]).losses


def test_without_public_noise_there_is_no_divergence():
    layer = dense(noise="public", num_examples=200)
    layer.noise_stddev.assign(0.0)
    with tf.GradientTape() as tape:
        loss = layer.losses[0]
    assert loss == 0
    assert np.all(tape.gradient(loss, raw(layer.kernel)).numpy() == 0)
    x = tf.constant(inputs_for(layer))
    np.testing.assert_array_equal(layer(x, training=True), layer(x, training=False))


def test_report_and_pruning():
    layer = dense(test_weights="sampled")
    model = keras.Sequential([keras.Input([5]), layer, dense(2, 4, noise="fixed")])
    wanted = np.zeros((5, 4), bool)
    wanted[1:3] = True
    phi = layer.kernel.numpy()
    layer.noise_log_variance.assign(np.log(phi**2) + np.where(wanted, 3.1, 2.9))
    report = sparsity_report(model)
    assert report[layer.name] == (20, 8)
    assert report["total"] == (28, 8)
    assert report[layer.name].share == pytest.approx(0.4)
    assert prune(model) == report
    np.testing.assert_array_equal(layer.kernel, np.where(wanted, 0, phi))
    drawn = layer(tf.eye(5)).numpy() - layer.bias.numpy()
    assert np.all(drawn[wanted] == 0) and np.all(drawn[~wanted] != 0)
    assert sparsity_report(model)[layer.name].sparse == 8
    with pytest.raises(ValueError, match="has no layer with variational dropout"):
        sparsity_report(keras.Sequential([keras.Input([2]), keras.layers.Dense(1)]))


def test_saved_and_loaded(tmp_path):
    layers = [
        convolution(num_examples=7, max_alpha=1.0),
        keras.layers.Flatten(),
        VariationalDropoutDense(2),
    ]
    model = keras.Sequential([keras.Input([5, 4, 2]), *layers])
    layers[-1].noise_log_variance.assign_add(np.ones(layers[-1].kernel.shape))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    x = inputs_for(layers[0])
    np.testing.assert_allclose(model(x), loaded(x), rtol=1e-6)
    for a, b in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(sum(model.losses), sum(loaded.losses), rtol=1e-6)
    assert loaded.layers[0].get_config() == layers[0].get_config()
    assert loaded.layers[0].max_alpha == 1 and loaded.layers[-1].max_alpha is None


@each("policy", ["mixed_float16", "float64"])
def test_other_precisions(policy):
    """A noise whose variance float16 does not hold is there all the same."""
    layer = dense(noise="public", dtype=policy)
    layer.noise_stddev.assign(1e-3 if policy == "float64" else 2.0**-13)
    x = np.full((4000, 5), 0.5)
    mean, variance = layer.moments(tf.cast(x, layer.compute_dtype))
    assert variance.dtype == (tf.float64 if policy == "float64" else tf.float32)
    expected = 5 * 0.25 * layer.noise_stddev.numpy() ** 2
    np.testing.assert_allclose(variance, expected, rtol=1e-3)
    assert layer(x, training=True).dtype == layer.compute_dtype
    if policy == "float64":
        drawn = layer(x, training=True).numpy()
        np.testing.assert_allclose(drawn.std(0), np.sqrt(expected), rtol=0.06)


def test_a_seed_repeats_what_is_drawn():
    x = tf.ones([4, 5])
    one, two = dense(), dense()
    two.set_weights(one.get_weights())
    np.testing.assert_array_equal(one(x, training=True), two(x, training=True))
    again = one(x, training=True)
    assert np.all(again.numpy() != two(x + 0.0, training=False).numpy())
    keras.utils.set_random_seed(5)
    first = built(VariationalDropoutDense(4), (None, 5))
    keras.utils.set_random_seed(5)
    second = built(VariationalDropoutDense(4), (None, 5))
    np.testing.assert_array_equal(first(x, training=True), second(x, training=True))


@each(
    ("options", "match"),
    [
        ({"noise": "loud"}, "noise"),
        ({"alpha_per": "row"}, "alpha_per"),
        ({"noise": "public", "alpha_per": "layer"}, "alpha_per='weight'"),
        ({"num_examples": 0}, "num_examples"),
        ({"num_examples": 2.5}, "num_examples"),
        ({"kl_weight": -1.0}, "kl_weight"),
        ({"test_weights": "worst"}, "test_weights"),
        ({"initial_log_alpha": np.nan}, "initial_log_alpha"),
        ({"seed": -1}, "seed"),
        ({"max_alpha": 0.0}, "max_alpha"),
        ({"max_alpha": 0.01}, "initial_log_alpha of at most"),
    ],
)
def test_rejections(options, match):
    with pytest.raises((ValueError, TypeError), match=match):
        VariationalDropoutDense(3, **options)


def test_rejected_convolutions():
    for options in ({"groups": 2}, {"data_format": "channels_first"}):
        with pytest.raises(ValueError, match="Expected groups=1"):
            VariationalDropoutConv2D(4, 3, **options)


# --- a bound on alpha ---

MOST = 0.06  # log alpha begins at -3 and is moved by up to 1


@pytest.mark.parametrize("make", [dense, convolution])
@each("kind", KINDS)
def test_no_alpha_exceeds_its_bound(make, kind):
    """In the noise of training, in log alpha, and in the divergence; less noise stays as it is."""
    free, bounded = make(**KINDS[kind]), make(**KINDS[kind], max_alpha=MOST)
    shape = free.kernel.shape
    free.kernel.assign(np.linspace(0.2, 3, free.kernel.numpy().size).reshape(shape))
    for variable, other in zip(bounded.weights, free.weights, strict=True):
        variable.assign(other)
    alpha = np.exp(free.log_alpha().numpy())
    expected = np.minimum(alpha, MOST)
    assert kind in ("fixed", "layer") or np.any(alpha < MOST) and np.any(alpha > MOST)
    np.testing.assert_allclose(np.exp(bounded.log_alpha()), expected, rtol=1e-5)
    square = np.square(bounded.kernel.numpy())
    variance = np.broadcast_to(bounded.noise_variance(), square.shape)
    np.testing.assert_allclose(variance, expected * square, rtol=1e-5)


@each("kind", KINDS)
def test_the_divergence_has_its_own_derivative_by_the_means(kind):
    """At the bound it is none: else the divergence would draw all small weights to 0."""
    layer = dense(**KINDS[kind], num_examples=1, max_alpha=MOST)
    means = np.linspace(0.2, 3, layer.kernel.numpy().size).reshape(layer.kernel.shape)
    layer.kernel.assign(means)
    with tf.GradientTape() as tape:
        loss = layer.losses[0]
    found = tape.gradient(loss, raw(layer.kernel))
    found = np.zeros_like(means) if found is None else found.numpy()
    for place in ((0, 0), (2, 1), (4, 3)):
        values = []
        for step in (-0.01, 0.01):
            moved = means.copy()
            moved[place] += step
            layer.kernel.assign(moved)
            values.append(np.sum(kl_to_log_uniform(layer.log_alpha()).numpy(), dtype=float))
        assert found[place] == pytest.approx((values[1] - values[0]) / 0.02, abs=0.01)


@each("kind", ["weight", "layer"])
def test_noise_at_the_bound_is_learnt_further(kind):
    """Else it could never become less again."""
    layer = dense(**KINDS[kind], max_alpha=MOST)
    variable = next(v for v in layer.trainable_weights if "noise" in v.name)
    variable.assign(variable + 5)
    x = tf.constant(inputs_for(layer))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer.moments(x)[1])
    assert np.all(tape.gradient(loss, raw(variable)).numpy() > 0)


def test_the_mean_of_a_weight_has_no_gradient_through_the_bound_of_its_own_noise():
    """As in equation 10 of Ermis and Cemgil: d theta / d phi = 1."""
    for kind in ("weight", "public"):
        layer = dense(**KINDS[kind], max_alpha=1e-2, initial_log_alpha=-6.0)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer.noise_variance())
        gradient = tape.gradient(loss, raw(layer.kernel))
        assert gradient is None or not np.any(gradient)


# --- rates of dropout, and alpha ---


@each("rate", [0.0, 0.2, 0.5, 0.9])
def test_dropout_of_a_rate_has_the_variance_alpha(rate):
    """Keras' binary and Gaussian dropout multiply by noise of mean 1 and of this variance."""
    alpha = alpha_of_rate(rate)
    assert rate_of_alpha(alpha) == pytest.approx(rate)
    ones = tf.ones([400_000])
    for layer in (keras.layers.Dropout(rate, seed=1), keras.layers.GaussianDropout(rate, seed=1)):
        drawn = layer(ones, training=True).numpy().astype(np.float64)
        fourth = np.mean((drawn - 1) ** 4)
        error = np.sqrt(max(fourth - alpha**2, 0) / drawn.size)
        assert drawn.mean() == pytest.approx(1, abs=5.5 * np.sqrt(alpha / drawn.size) + 1e-9)
        found = np.mean((drawn - 1) ** 2)
        assert found == pytest.approx(alpha, abs=5.5 * error + 1e-9)


@each("refused", [(alpha_of_rate, 1.0), (alpha_of_rate, -0.1), (rate_of_alpha, -1.0)])
def test_rejected_rates(refused):
    function, value = refused
    with pytest.raises(ValueError, match="^Expected (rate|alpha) "):
        function(value)
