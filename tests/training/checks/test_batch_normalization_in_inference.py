"""Trained batch normalisation that always reads its averages, and is proved to."""

import numpy as np
import pytest
from tensorflow import keras

from tests.private_of import private_of
from tfdpnorm.keras_compat.models import sublayers

layers = keras.layers


def nested():
    inner = keras.Sequential([keras.Input((5,)), layers.Dense(4), layers.BatchNormalization()])
    inputs = keras.Input((5,))
    return keras.Model(inputs, layers.Dense(3)(inner(inputs, training=False)))


class Own(keras.Model):
    """Decides in Python how its normalisation is called."""

    def __init__(self):
        super().__init__()
        self.norm, self.head, self.live = layers.BatchNormalization(), layers.Dense(3), False

    def call(self, x, training=None):
        return self.head(self.norm(x, training=training if self.live else False))


def own():
    model = Own()
    model(np.zeros((2, 5), np.float32))
    return model


def with_averages(model):
    for layer in sublayers(model):
        if isinstance(layer, layers.BatchNormalization):
            layer.moving_mean.assign(np.linspace(-1, 1, layer.moving_mean.shape[0]))
            layer.moving_variance.assign(np.linspace(0.5, 2, layer.moving_mean.shape[0]))
    return model


def made(model, **settings):
    private = private_of(
        model,
        steps=4,
        l2_norm_clip=0.5,
        **{"physical_batch_size": 8, **settings},
    )
    private.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return private


_OVERRIDES = pytest.mark.keras_2_only("the mode of an outer call overrides that of an inner one")


@pytest.mark.parametrize("make", [pytest.param(nested, marks=_OVERRIDES), own])
def test_is_trained_and_its_averages_stay(make, data, one_lot):
    model = with_averages(make())
    private = made(model)
    norm = next(x for x in sublayers(model) if isinstance(x, layers.BatchNormalization))
    before = norm.get_weights()
    apart = made(model, engine="per_example")
    lot = one_lot(data[0][:8], data[1][:8])
    for one, other in zip(private.clipped_sum(lot), apart.clipped_sum(lot), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)
    private.fit(*data, epochs=1, verbose=0)
    assert "verified from the graph" in private.privacy_statement()
    gamma, _, mean, variance = norm.get_weights()
    assert not np.array_equal(gamma, before[0])
    np.testing.assert_array_equal([mean, variance], before[2:])


def test_normalisation_in_training_mode_later_is_rejected(data):
    model = own()
    private = made(model)
    model.live = True
    with pytest.raises(ValueError, match="mixes the examples") as caught:
        private.fit(*data, verbose=0)
    assert "\n" not in str(caught.value)
    assert private.ledger.updates == 0


def test_is_rejected_where_nothing_is_verified():
    for build, validate in ((nested, False), (Own, True)):  # of unknown shapes
        with pytest.raises(ValueError, match="mixes the examples.*which_normalisation.md"):
            made(build(), validate=validate)
