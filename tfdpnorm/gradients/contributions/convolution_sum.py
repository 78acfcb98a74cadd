"""Per-example gradients of a convolution's kernel."""

import copy

import numpy as np
import tensorflow as tf

from tfdpnorm.dtypes import widened
from tfdpnorm.gradients.contributions.arithmetic import (
    cleaned,
    gram_norms,
    in_chunks,
    sum_of_squares,
    times,
)
from tfdpnorm.gradients.contributions.contribution import Contribution, Instantiated
from tfdpnorm.gradients.contributions.row_sums import IN_BLOCKS
from tfdpnorm.gradients.contributions.window import (
    kernel_rows,
    patch_gram_roundings,
    patch_gram_sizes,
    patch_grams,
)
from tfdpnorm.keras_compat.devices_and_precision import takes_forms_of_gpus

# Costs in multiplications of a convolution, measured on CPUs.
_PER_PATCH_NUMBER = 48  # to write one number of a patch
_PER_STRIDED_NUMBER = 250  # the same with strides: neighbours in the patch are none in the image
_PER_GRAM_NUMBER = 300  # to shift and add one number of a Gram matrix
_PER_INSTANTIATED_NUMBER = 70  # to keep one number of a row's gradient and add it up
_PER_ROW = 10e6  # to start the filter gradient of a single row
_FEWEST_CHANNELS = 16  # under a place of the kernel, for a product of matrices to be quick

_PATCH_BYTES = 8 * 2**20  # how much of the patches is held at once
_PATCH_BYTES_ON_GPU = 128 * 2**20  # fewer kernels, which are larger

# Numbers of a row's gradient for which a number of its pixels' Gram matrices is made in the same
# time, measured on one GPU.
_NUMBERS_PER_GRAM_NUMBER = 3


class ConvolutionSum(Contribution):
    """Gradients of a kernel, g_i = sum over positions t of patch_it b_it^T.

    Where positions are few, norms come from Gram matrices and the weighted sum from factor * b.
    Elsewhere each row's gradient is computed and kept: as a product of patches and b for small
    convolutions; place by place of the kernel, a product of the pixels under it and b each, where
    channels are many; else by the ordinary filter gradient in a loop over the rows. On GPUs, for
    which small kernels one after the other are slow, it is patches in all these cases.

    `images`, [rows, *sizes, channels], are inputs of the convolution, b, [rows, *counts, filters],
    gradients of its outputs; `kernel_shape` is [*kernel_size, channels, filters].
    """

    def __init__(self, images, b, window, kernel_shape):
        self._calls = [(widened(images), widened(b))]
        # As they are, where products of them lose no more than Keras' own gradients do.
        narrow = images.dtype == b.dtype == tf.bfloat16
        self._as_they_are = [(images, b)] if narrow else self._calls
        self._window = window
        self._shape = kernel_shape
        self._rows_per_example = 1
        self._matrices = None

    def merged(self, other):
        if not isinstance(other, ConvolutionSum):
            return super().merged(other)
        if other._rows_per_example != self._rows_per_example or other._window != self._window:
            return super().merged(other)
        both = copy.copy(self)
        both._calls = self._calls + other._calls
        both._as_they_are = self._as_they_are + other._as_they_are
        return both

    def grouped(self, count):
        found = copy.copy(self)
        found._rows_per_example = count * self._rows_per_example
        return found

    def instantiated(self):
        return self._finished(self._joined(self._kernel_gradients()[0]))

    def squared_norms(self):
        if self._gram_is_cheaper():
            return self._gram_norms()
        self._matrices, measures = self._kernel_gradients()
        return self._norms_from(measures)

    def weighted_sum(self, factors, finite, sums=IN_BLOCKS):
        if self._matrices is not None:
            total = tf.nest.map_structure(
                lambda part: sums.weighted(part, factors), cleaned(self._matrices, finite)
            )
            return self._finished(self._joined(total))
        ((images, b),) = self._calls
        images, b = cleaned([images, b], finite)
        rows, positions = (images, times(b, factors)), _positions(b)
        if self._by_places() and not self._by_patches():
            return self._finished(self._joined(self._over_places(sums.products, *rows)))

        def at_once(images, b):
            return self._window.kernel_gradient(images, b, self._shape)

        def by_row(images, b):
            return tf.reshape(self._from_patches(images, b), [-1, *self._shape])

        numbers = self._shape.num_elements()
        return self._finished(sums.of_gradients(at_once, by_row, rows, positions, numbers))

    # What a convolution with a function of its variable overrides

    def _finished(self, gradients):
        """From gradients of the kernel to those of the variable: [..., *kernel_shape], both."""
        return gradients

    def _measures(self, gradients, place=None):
        """What `_norms_from` needs of gradients [..., *kernel_shape]: [..., k].

        Of those of one place in the kernel, a tuple, it is a part, and the parts add up.
        """
        del place
        return sum_of_squares(gradients, axis=list(range(-len(self._shape), 0)))

    def _norms_from(self, measures):
        """The squared norms of the gradients with respect to the variable, [rows]."""
        return measures

    def _gram_norms(self):  # subclasses have their own
        ((images, b),) = self._calls
        b = _flat(b)
        grams = patch_grams(images, self._window), tf.matmul(b, b, transpose_b=True)
        return gram_norms(*grams, self._roundings)

    @property
    def _roundings(self):
        """How many roundings a term of the Gram matrices goes through: of patches, of outputs."""
        ((images, b),) = self._calls
        return patch_gram_roundings(images.shape[-1], self._window), b.shape[-1]

    def _kernel_gradients(self):
        """The gradients of each row by the kernel, see `_joined`, and their measures."""
        if self._by_patches():
            calls = self._as_they_are if takes_forms_of_gpus() else self._calls
            total = tf.add_n([widened(self._from_patches(*call)) for call in calls])
            found = tf.reshape(total, [-1, *self._shape])
            if self._rows_per_example > 1:
                found = Instantiated(found).grouped(self._rows_per_example).instantiated()
            return found, self._measures(found)
        return self._place_by_place() if self._by_places() else self._row_by_row()

    def _joined(self, gradients):
        """[..., *kernel_shape] of that, or of a list of [..., channels, filters] by place."""
        if not isinstance(gradients, list):
            return gradients
        rows = [-1] if gradients[0].shape.rank == 3 else []
        return tf.reshape(tf.stack(gradients, axis=-3), [*rows, *self._shape])

    def _place_by_place(self):
        def product(pixels, b):
            return widened(tf.matmul(pixels, b, transpose_a=True))

        of_calls = [self._over_places(product, *call) for call in self._as_they_are]
        parts = [tf.add_n(of_place) for of_place in zip(*of_calls, strict=True)]
        ones = [1] * (len(self._shape) - 2)
        measures = tf.add_n(
            [
                self._measures(tf.reshape(p, [-1, *ones, *self._shape[-2:]]), place)
                for p, place in zip(parts, np.ndindex(*self._window.kernel_size), strict=True)
            ]
        )
        # More than adding up the squares of the places may lose.
        return parts, measures * (1 + len(parts) * np.finfo(measures.dtype.as_numpy_dtype).eps)

    def _over_places(self, product, images, b):
        """`product` of the pixels under each place of the kernel, [rows, T, channels], and b."""
        counts, b, images = b.shape[1:-1], _flat(b), self._window.padded(images)
        found = []
        for place in np.ndindex(*self._window.kernel_size):
            # In turn, so that not all copies of the images are there at once.
            with tf.control_dependencies(found[-1:]):
                pixels = self._window.under(tf.identity(images), place, counts)
            pixels = tf.reshape(pixels, [-1, b.shape[1], images.shape[-1]])
            found.append(product(pixels, b))
        return found

    def _from_patches(self, images, b):
        b = _flat(b)

        def product(images, b):
            rows = kernel_rows(images, self._window)
            return tf.concat([tf.matmul(patches, b) for patches in rows], axis=1)

        bytes_per_row = b.dtype.size * b.shape[1] * self._shape[:-1].num_elements()
        held = _PATCH_BYTES_ON_GPU if takes_forms_of_gpus() else _PATCH_BYTES
        return in_chunks(product, (images, b), held // bytes_per_row)

    def _row_by_row(self):
        count = self._rows_per_example

        def one(calls):
            parts = [self._window.kernel_gradient(*call, self._shape) for call in calls]
            gradient = tf.add_n(parts)
            # Here, while the gradient is in the cache.
            return gradient, self._measures(gradient)

        def by_example(x):
            split = tf.reshape(x, tf.concat([[-1, count], tf.shape(x)[1:]], 0))
            return tf.ensure_shape(split, [None, count, *x.shape[1:]])

        calls = tf.nest.map_structure(by_example, tuple(self._calls))
        dtype = calls[0][0].dtype
        measures = self._measures(tf.zeros(self._shape, dtype)).shape
        signature = (tf.TensorSpec(self._shape, dtype), tf.TensorSpec(measures, dtype))
        return tf.map_fn(one, calls, fn_output_signature=signature)

    # Costs, in multiplications by example

    def _patches_cost(self):
        each = _PER_PATCH_NUMBER if self._window.strides[-1] == 1 else _PER_STRIDED_NUMBER
        d = self._shape[:-1].num_elements()
        return sum(_positions(b) for _, b in self._calls) * d * each

    def _has_known_sizes(self):
        return all(x.shape[1:].is_fully_defined() for call in self._calls for x in call)

    def _by_patches(self):
        if not self._has_known_sizes():
            return False
        # On a GPU each row of a loop waits for its own small kernels.
        return takes_forms_of_gpus() or self._patches_cost() < _PER_ROW

    def _by_places(self):
        if not self._has_known_sizes() or self._rows_per_example > 1:
            return False
        # What starts the filter gradient of each row and keeps it, against copies of the images.
        few = all(_positions(b) <= 2 * self._shape[-1] for _, b in self._as_they_are)
        narrow = self._as_they_are[0][0].dtype == tf.bfloat16
        return self._shape[-2] >= _FEWEST_CHANNELS and (few or narrow)

    def _gram_is_cheaper(self):
        if len(self._calls) > 1 or self._rows_per_example > 1 or not self._has_known_sizes():
            return False
        ((images, b),) = self._calls
        sizes = patch_gram_sizes(images.shape[1:-1], self._window)
        if takes_forms_of_gpus():
            return _NUMBERS_PER_GRAM_NUMBER * sum(sizes) < self._shape.num_elements()
        gram = sum(sizes) * (images.shape[-1] + _PER_GRAM_NUMBER) + _positions(b) ** 2 * b.shape[-1]
        kept = self._shape.num_elements() * _PER_INSTANTIATED_NUMBER
        kept += min(self._patches_cost(), _PER_ROW)
        return gram < kept


def _flat(b):
    """[rows, *counts, filters] as [rows, T, filters]."""
    return tf.reshape(b, [-1, _positions(b), b.shape[-1]])


def _positions(b):
    return b.shape[1:-1].num_elements()
