"""A model as users bring it, with what it is trained on."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tests.private_of import private_of

P = 8  # examples of a physical batch; sequences have as many steps, on purpose
WORDS = 11  # ids are below
CLASSES = 3
LOGITS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


class Case(NamedTuple):
    """A model and its training data, described.

    Attributes:
        build: Function that builds the model.
        x: Structure of `tf.TensorSpec` [P, ...].
        y: Structure of `tf.TensorSpec` [P, ...].
        loss: Keras loss, or its name; or a list of functions, one for each output, as `compile`
            takes it.
        most: Labels are below.
    """

    build: Any
    x: Any
    y: Any
    loss: Any = LOGITS
    most: int = CLASSES

    @property
    def whole_loss(self):
        """The loss as one function of all targets and all outputs, where it is a list."""
        if not isinstance(self.loss, list):
            return self.loss

        def whole(y, predictions):
            return tf.add_n([loss(*p) for loss, *p in zip(self.loss, y, predictions, strict=True)])

        return whole

    def rows(self, count, seed=0):
        """Random rows (x, y), structures of arrays [count, ...]."""
        rng = np.random.default_rng(seed)
        x = tf.nest.map_structure(lambda spec: _random(spec, count, rng, WORDS), self.x)
        y = tf.nest.map_structure(lambda spec: _random(spec, count, rng, self.most), self.y)
        return x, y


def private_with(case, **settings):
    """A compiled private model of a case: lots of P examples in physical batches of P."""
    settings = {"num_examples": P, "l2_norm_clip": 1.0, **settings}
    private = private_of(
        case.build(),
        expected_batch_size=P,
        physical_batch_size=P,
        noise_multiplier=1.0,
        delta=1e-5,
        insecure_seed=1,
        **settings,
    )
    private.compile("sgd", case.loss)
    return private


def spec(*shape, dtype=tf.float32):
    """Rows of P examples."""
    return tf.TensorSpec([P, *shape], dtype)


def ids(*shape):
    """Ids of P examples."""
    return spec(*shape, dtype=tf.int32)


def _random(spec, count, rng, most):
    shape = (count, *spec.shape[1:])
    if spec.dtype.is_integer:
        return rng.integers(0, most, shape).astype(spec.dtype.as_numpy_dtype)
    return rng.normal(size=shape).astype(spec.dtype.as_numpy_dtype)
