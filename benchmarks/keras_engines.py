"""The training steps of Keras and of this library's engines, as `fit` makes them."""

import sys

import numpy as np
import tensorflow as tf
from tensorflow import keras

import tfdpnorm
from benchmarks.engines import L2_NORM_CLIP, LEARNING_RATE, NOISE_MULTIPLIER, Prepared
from benchmarks.workloads import WORKLOADS, random_rows
from tfdpnorm import make_plan, make_private, models
from tfdpnorm.data import Lot
from tfdpnorm.keras_compat.devices_and_precision import half_precision, made_under

_MANY = 1_000_000  # updates and examples, so that no budget ends within a measurement


def prepare(engine, model_name, x, y, physical_batch_size=None, half=False):
    """Prepares the step of "keras" or of one of `tfdpnorm.training.ENGINES`.

    Private steps have all rows at once, or so many of them. With `half`, layers compute in half
    precision.
    """
    with made_under(half_precision() if half else "float32"):
        return _prepared(engine, model_name, x, y, physical_batch_size)


def _prepared(engine, model_name, x, y, physical_batch_size):
    x, y = tf.constant(x), tf.constant(y)
    if engine == "keras":
        return prepared_step(compiled_model(model_name), (x, y))
    trained = compiled_private_model(model_name, len(x), engine=engine)
    rows = (x, y, tf.ones([len(x)]), tf.ones([len(x)]))
    size = physical_batch_size or len(x)
    return prepared_step(trained, Lot(*(tf.reshape(t, [-1, size, *t.shape[1:]]) for t in rows)))


def compiled_model(name):
    """A model of `WORKLOADS`, compiled."""
    return _compiled(build_model(name))


def compiled_private_model(name, batch_size, *, num_examples=_MANY, steps=_MANY, engine=None):
    """A model of `WORKLOADS`, private and compiled, with a budget for any measurement."""
    workload, public = WORKLOADS[name], None
    if workload.public_rows:
        public, _ = random_rows(name, workload.public_rows, seed=1)
    plan = make_plan(
        num_examples=num_examples,
        expected_batch_size=batch_size,
        steps=steps,
        l2_norm_clip=L2_NORM_CLIP,
        noise_multiplier=NOISE_MULTIPLIER,
        delta=1e-7,
    )
    network = build_model(name, workload.private_norm)
    return _compiled(make_private(network, plan, public_batch=public, engine=engine))


def _compiled(model):
    model.compile(
        optimizer=keras.optimizers.SGD(LEARNING_RATE),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


def build_model(name, norm=None):
    """Builds a model of `WORKLOADS` with fixed initial weights, and with its norm if none given."""
    keras.utils.set_random_seed(0)
    workload = WORKLOADS[name]
    return models.build(
        workload.family or name,
        norm=norm or workload.norm,
        num_classes=workload.num_classes,
        input_shape=workload.input_shape,
    )


def prepared_step(model, data):
    """Wraps `model.train_step` on `data` in a tf.function, for a compiled Keras model."""
    # In `fit` too the first axis, of rows or of physical batches, is not known beforehand.
    signature = tf.nest.map_structure(lambda t: tf.TensorSpec([None, *t.shape[1:]], t.dtype), data)
    step = tf.function(model.train_step, input_signature=[signature], autograph=False)

    def run():
        logs = step(data)
        return float(logs["loss"])

    return Prepared(run, parameters_of(model), versions_used(), step.get_concrete_function)


def parameters_of(model):
    """How many numbers of a model are trained."""
    return int(sum(np.prod(v.shape) for v in model.trainable_variables))


def versions_used():
    """Dict from each library that is loaded here to its version."""
    versions = {"tfdpnorm": tfdpnorm.__version__, "tensorflow": tf.__version__}
    if "tensorflow_privacy" in sys.modules:
        versions["tensorflow_privacy"] = sys.modules["tensorflow_privacy"].__version__
    return versions
