"""Inference with the public rows joined to every example."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.variables import raw
from tfdpnorm.training.public_rows import PublicBatch, Streams


@keras.utils.register_keras_serializable(package="tfdpnorm")
class PublicRowsModel(keras.Model):
    """Runs {x_i} and all public rows for each example x_i, and gives row i.

    The test phase of Davody et al. (2020), Algorithm 1, for models with one input whose
    public-batch layers are in the statistics modes "example" or "lot". It holds the public rows
    [M, ...], so that it can be saved and loaded by itself. 1 + M times the work of the model.

    Privacy:
        Uses only public rows and the example itself; releases nothing beyond the training.
    """

    def __init__(self, model, public_batch, **kwargs):
        super().__init__(**kwargs)
        if tf.nest.is_nested(public_batch):
            raise ValueError(
                "Expected a model with one input, whose file can hold its public rows, got "
                f"{len(tf.nest.flatten(public_batch))} inputs. Save its weights with "
                'private.save_weights(path), or train it with statistics="public", whose files '
                "hold no rows."
            )
        public_batch = np.asarray(public_batch)
        self.model = model
        self.public_batch = self.add_weight(
            name="public_batch",
            shape=public_batch.shape,
            dtype=public_batch.dtype,
            initializer="zeros",
            trainable=False,
        )
        self.public_batch.assign(public_batch)

    def call(self, inputs, training=None):
        del training  # trained as part of a PrivateModel only
        streams = Streams(self.model, PublicBatch(self.public_batch))
        return streams.forward(inputs, None, training=False)

    def get_config(self):
        return {
            "name": self.name,
            "model": keras.utils.serialize_keras_object(self.model),
            "public_shape": list(self.public_batch.shape),
            "public_dtype": raw(self.public_batch).dtype.name,
        }

    @classmethod
    def from_config(cls, config):
        model = keras.utils.deserialize_keras_object(config["model"])
        zeros = np.zeros(config["public_shape"], config["public_dtype"])
        return cls(model, zeros, name=config["name"])
