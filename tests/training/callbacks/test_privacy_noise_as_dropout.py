"""DPVD, the sound reading: zeta of each update is the noise that the update puts into weights."""

import math

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm.layers import VariationalDropoutDense, sparsity_report
from tfdpnorm.training import PrivacyNoiseAsDropout, total_l2_norm_clip


def network(noise="public"):
    hidden = VariationalDropoutDense(4, activation="relu", noise=noise)
    head = VariationalDropoutDense(3, noise=noise)
    return keras.Sequential([keras.Input((5,)), hidden, head])


class Watch(keras.callbacks.Callback):
    """Keeps what the layers have during each update, and the weights after it."""

    def __init__(self):
        super().__init__()
        self.stddevs, self.weights = [], []

    def on_train_begin(self, logs=None):
        self.weights.append(self._vector())

    def on_train_batch_end(self, batch, logs=None):
        layers = self.model.model.layers
        self.stddevs.append([float(layer.noise_stddev) for layer in layers])
        self.weights.append(self._vector())

    def _vector(self):
        trained = self.model.model.trainable_variables
        return np.concatenate([np.float64(v).ravel() for v in trained])


RATE = keras.optimizers.schedules.InverseTimeDecay(0.4, 1, 1.0)  # 0.4 / t


def test_zeta_is_the_noise_of_each_update(data, private, cross_entropy):
    """Seen in the weights: an update that is nearly all noise moves them by zeta."""
    built = keras.Sequential(
        [keras.Input((5,)), VariationalDropoutDense(400, noise="public", use_bias=False)]
    )
    model = private(built, noise_multiplier=50.0, l2_norm_clip=3.0, insecure_seed=1)
    model.compile(keras.optimizers.SGD(RATE), cross_entropy)
    watch = Watch()
    model.fit(*data, verbose=0, epochs=1, callbacks=[PrivacyNoiseAsDropout(), watch])
    expected = [0.4 / t * 50 * 3 / 10 for t in range(1, 5)]
    np.testing.assert_allclose(np.array(watch.stddevs)[:, 0], expected, rtol=1e-6)
    moved = [np.std(b - a) for a, b in zip(watch.weights, watch.weights[1:], strict=False)]
    np.testing.assert_allclose(moved, expected, rtol=0.08)


def test_clipped_by_layers_the_norm_is_the_total(data, private, cross_entropy):
    built = network()
    total = total_l2_norm_clip(built, 2.0)
    assert total == pytest.approx(2 * math.sqrt(2))
    built.layers[0].trainable = False
    assert total_l2_norm_clip(built, 2.0) == pytest.approx(2)
    built.layers[0].trainable = True
    model = private(built, clipping="per_layer", l2_norm_clip=total, noise_multiplier=1.5)
    model.compile(keras.optimizers.SGD(0.1), cross_entropy)
    watch = Watch()
    model.fit(*data, verbose=0, epochs=1, callbacks=[PrivacyNoiseAsDropout(0.5), watch])
    expected = 0.5 * 0.1 * 1.5 * total / 10
    np.testing.assert_allclose(watch.stddevs, expected, rtol=1e-6)
    kernel = built.layers[1].kernel.numpy().astype(np.float64)
    np.testing.assert_allclose(
        built.layers[1].log_alpha(), np.log(expected**2 / kernel**2), rtol=1e-4
    )
    assert sparsity_report(built)["total"].weights == 32
    assert not model.ledger.state.sentences("no_guarantee")


def test_rejected_training(data, private, cross_entropy):
    model = private(network())
    sgd = keras.optimizers.SGD
    for optimizer, name, steps in (
        ("adam", "Adam", 1),
        (sgd(0.1, momentum=0.9), "momentum", 1),
        (sgd(0.1, clipnorm=1.0), "clipnorm", 1),
        (sgd(0.1, use_ema=True, ema_overwrite_frequency=1), "ema_overwrite_frequency", 1),
        ("sgd", "steps_per_execution", 2),
    ):
        model.compile(optimizer, cross_entropy, steps_per_execution=steps)
        with pytest.raises(ValueError, match=name):
            model.fit(*data, verbose=0, callbacks=[PrivacyNoiseAsDropout()])
    assert model.ledger.updates == 0


def test_rejected_models(compiled, data, cross_entropy):
    model = compiled(network("learnt"))
    with pytest.raises(ValueError, match="takes public noise"):
        model.fit(*data, verbose=0, callbacks=[PrivacyNoiseAsDropout()])
    plain = network()
    plain.compile("sgd", cross_entropy)
    with pytest.raises(ValueError, match="from make_private"):
        plain.fit(*data, verbose=0, callbacks=[PrivacyNoiseAsDropout()])
    with pytest.raises(ValueError, match="factor"):
        PrivacyNoiseAsDropout(-1.0)
    with pytest.raises(ValueError, match="clip_of_each_layer"):
        total_l2_norm_clip(plain, 0.0)
    with pytest.raises(ValueError, match="trainable variables"):
        total_l2_norm_clip(keras.Sequential([keras.Input([3]), keras.layers.ReLU()]), 1.0)
