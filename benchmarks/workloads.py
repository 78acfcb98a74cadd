"""What is measured: models with a loss, and one training step per engine."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm import models
from tfdpnorm.data import Lot
from tfdpnorm.privacy import make_plan
from tfdpnorm.training.engines import get_engine
from tfdpnorm.training.losses import PerExampleLoss
from tfdpnorm.training.noise import GaussianNoise
from tfdpnorm.training.private_step import clipped_lot_sum, private_gradients

# Name -> options of tfdpnorm.models.build.
MODELS = {
    "lenet5": {"norm": "none"},
    "lenet5_layer": {"model": "lenet5", "norm": "layer"},
    "mlp": {"norm": "none"},
    "resnet9": {"norm": "group"},
    "wrn_16_4": {"norm": "group"},
    "bilstm": {"norm": "none"},
}


def build_model(name):
    """Builds a model of `MODELS` with fixed initial weights."""
    keras.utils.set_random_seed(0)
    options = dict(MODELS[name])
    return models.build(options.pop("model", name), **options)


def random_rows(model, batch_size):
    """Random inputs and labels for a classifier."""
    rng = np.random.default_rng(0)
    shape = (batch_size, *model.input_shape[1:])
    if tf.as_dtype(model.input.dtype).is_integer:
        x = rng.integers(1, 1000, shape)
    else:
        x = rng.random(shape, np.float32)
    return tf.constant(x), tf.constant(rng.integers(0, model.output_shape[-1], batch_size))


def make_step(model, engine, batch_size):
    """Returns a compiled function `(x, y) -> None` that makes one SGD update.

    Args:
        model: A Keras classifier that gives logits.
        engine: "keras" for the ordinary step, or one of `tfdpnorm.training.ENGINES`, with clipping
            norm 1 and noise multiplier 1.
        batch_size: Rows of x.
    """
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD(0.01)
    optimizer.build(model.trainable_variables)
    variables = model.trainable_variables
    if engine == "keras":

        @tf.function
        def plain_step(x, y):
            with tf.GradientTape() as tape:
                value = loss(y, model(x, training=True))
            optimizer.apply_gradients(zip(tape.gradient(value, variables), variables, strict=True))

        return plain_step

    clipped_sum = get_engine(engine, model, optimizer)
    per_example_loss = PerExampleLoss(loss)
    plan = make_plan(
        num_examples=1_000_000,
        expected_batch_size=batch_size,
        steps=1,
        l2_norm_clip=1.0,
        noise_multiplier=1.0,
        delta=1e-7,
    )
    noise = GaussianNoise()
    update = tf.Variable(0, dtype=tf.int64)

    def loss_fn(x, y, sample_weight):
        predictions = model(x, training=True)
        return per_example_loss(y, predictions, sample_weight), predictions

    @tf.function
    def private_step(x, y):
        ones = tf.ones([1, batch_size])
        lot = Lot(x[tf.newaxis], y[tf.newaxis], ones, ones)
        total = clipped_lot_sum(
            clipped_sum,
            lambda x, mask: loss_fn,
            lot,
            variables,
            l2_norm_clip=1.0,
            rows_mix=False,
            loss_scale=1.0,
        )
        gradients = private_gradients(
            total.gradients, variables, variables, plan=plan, noise=noise, update=update
        )
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        update.assign_add(1)

    return private_step
