"""Layers that `adapt()` fitted to data, which a conversion must not carry over."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

from tests.private_of import private_of
from tfdpnorm.convert import convert_model
from tfdpnorm.errors import PrivacyError

PLAN = dict(num_examples=40, expected_batch_size=8, steps=1, noise_multiplier=1.0, delta=1e-5)


def make(model, **settings):
    return private_of(model, **PLAN, **settings)


class Scaled(layers.Layer):
    def __init__(self, inner, **kwargs):
        super().__init__(**kwargs)
        self.inner = inner

    def call(self, inputs):
        return self.inner(inputs)


@pytest.mark.parametrize(
    ("layer", "data", "around"),
    [
        (layers.Normalization, np.eye(3), Scaled),
        (layers.StringLookup, np.array(["a"]), lambda x: x),
        (lambda: layers.Discretization(num_bins=2), np.eye(3), lambda x: x),
    ],
    ids=["attribute", "string", "discretization"],
)
def test_layers_that_adapt_fitted_are_rejected_with_convert_as_without(layer, data, around):
    given = layer()
    given.adapt(data)
    kind = tf.string if data.dtype.kind == "U" else data.dtype
    model = keras.Sequential([keras.Input((3,), dtype=kind), around(given)])
    with pytest.raises(PrivacyError, match=f"{given.name}.*adapt"):
        make(model)
    with pytest.raises(PrivacyError, match=f"{given.name}.*adapt"):
        make(model, convert="layer")
    with pytest.raises(PrivacyError, match=f"{given.name}.*adapt"):
        convert_model(model)
