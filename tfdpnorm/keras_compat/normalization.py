"""The classes of batch normalisation.

Version-bound: Keras 2 has several classes besides `keras.layers.BatchNormalization` (of Keras 1,
and synchronised, under `experimental`), whose common base has no public name.
"""

import tensorflow as tf
from tensorflow import keras

BATCH_NORMALIZATIONS = tuple(
    base
    for base in keras.layers.BatchNormalization.__mro__
    if base.__name__.startswith("BatchNormalization")
)

# Those that can be made, by their exact types.
ALL_BATCH_NORMALIZATIONS = tuple(
    dict.fromkeys(
        (
            keras.layers.BatchNormalization,
            keras.layers.experimental.SyncBatchNormalization,
            tf.compat.v1.keras.layers.BatchNormalization,
        )
    )
)
