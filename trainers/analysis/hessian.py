"""The Hessian of a model's loss, known by its products with vectors."""

import numpy as np
import tensorflow as tf

from tfdpnorm.keras_compat.corrections import exact_moments
from tfdpnorm.keras_compat.graphs import as_written
from tfdpnorm.keras_compat.variables import raw


class Hessian:
    """The matrix of second derivatives of the mean loss over given rows, which is not private.

    It is never made: n parameters would take n^2 numbers. A product with a vector is the gradient
    of a gradient's product with it (Pearlmutter 1994), which takes about four forward passes over
    the rows. The model runs in inference mode. Regularisation losses are left out.

    Args:
        x, y: Arrays of inputs and targets, [rows, ...].
        loss: Function of (targets, outputs) that returns a loss for each row, [rows].
        progress: Function of the number of products so far, called after each; or None.
    """

    MOST_ASYMMETRY = 1e-3

    def __init__(self, model, x, y, loss, batch_size=256, progress=None):
        self._model, self._loss, self._progress = model, loss, progress
        self._variables = raw(list(model.trainable_variables))
        self._x, self._y, self._rows, self._batch_size = x, y, len(x), batch_size
        self._sizes = [int(np.prod(v.shape)) for v in self._variables]
        self.size = sum(self._sizes)
        self.products = 0
        self._batch_product = tf.function(as_written(self._product_of_sum), reduce_retracing=True)

    def product(self, vector):
        """Returns the product with a vector [n], float64 [n].

        Each batch is computed in the dtype of the variables.
        """
        split = np.split(np.asarray(vector, np.float64), np.cumsum(self._sizes)[:-1])
        parts = [
            tf.constant(part.reshape(v.shape), v.dtype)
            for part, v in zip(split, self._variables, strict=True)
        ]
        total = np.zeros(self.size)
        for begin in range(0, self._rows, self._batch_size):
            batch = slice(begin, begin + self._batch_size)
            x, y = tf.constant(self._x[batch]), tf.constant(self._y[batch])
            total += self._batch_product(x, y, parts).numpy()
        self.products += 1
        if self._progress is not None:
            self._progress(self.products)
        return total / self._rows

    def asymmetry(self, seed=0):
        """How far the computed matrix is from a symmetric one: some 1e-6 in float32 if all is well.

        Second derivatives are seldom used, and TensorFlow 2.15 has wrong ones: of max-pooling over
        windows of a single pixel, for instance. A matrix with such a fault is seldom symmetric. For
        two random vectors, this is |a . H b - b . H a|, relative to what the product of unrelated
        vectors of their lengths would be; 0 for a matrix of zeros.
        """
        a, b = np.random.default_rng(seed).normal(size=(2, self.size))
        of_a, of_b = self.product(a), self.product(b)
        length = np.linalg.norm([*of_a, *of_b])
        return abs(a @ of_b - b @ of_a) / length if length else 0.0

    def _product_of_sum(self, x, y, parts):
        with tf.GradientTape(watch_accessed_variables=False) as outer:
            outer.watch(self._variables)
            with tf.GradientTape(watch_accessed_variables=False) as inner:
                inner.watch(self._variables)
                with exact_moments():
                    losses = self._loss(y, self._model(x, training=False))
                total = tf.reduce_sum(tf.ensure_shape(losses, [None]))
            gradients = inner.gradient(total, self._variables, unconnected_gradients="zero")
            products = [tf.reduce_sum(g * p) for g, p in zip(gradients, parts, strict=True)]
            along = tf.add_n([tf.cast(product, tf.float64) for product in products])
        found = outer.gradient(along, self._variables, unconnected_gradients="zero")
        return tf.concat([tf.cast(tf.reshape(g, [-1]), tf.float64) for g in found], axis=0)
