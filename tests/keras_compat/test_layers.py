"""Losses, random numbers, wrappers and vocabularies of single layers."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat import layers
from tfdpnorm.keras_compat.variables import KERAS_3


def test_every_batch_normalisation_is_known():
    kinds = [keras.layers.BatchNormalization]
    if not KERAS_3:
        kinds.append(keras.layers.experimental.SyncBatchNormalization)
        kinds.append(tf.compat.v1.keras.layers.BatchNormalization)
    assert all(issubclass(kind, layers.BATCH_NORMALIZATIONS) for kind in kinds)
    assert not issubclass(keras.layers.LayerNormalization, layers.BATCH_NORMALIZATIONS)
