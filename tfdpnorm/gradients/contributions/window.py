"""The geometry of convolutions in one to three dimensions, and patches of images."""

import itertools
import math
from typing import NamedTuple

import tensorflow as tf


class Window(NamedTuple):
    """A kernel that moves over images [rows, *sizes, channels].

    The tuples have a number for each spatial dimension: `strides` are the steps from one place of
    the kernel to the next, `dilation_rate` those from one pixel under it to the next. `padding` is
    "valid", "same", or "causal" (one dimension).
    """

    kernel_size: tuple
    strides: tuple
    dilation_rate: tuple
    padding: str

    @classmethod
    def of(cls, layer):
        """The window of a convolutional Keras layer."""
        return cls(layer.kernel_size, layer.strides, layer.dilation_rate, layer.padding)

    @property
    def rank(self):
        """The number of spatial dimensions."""
        return len(self.kernel_size)

    def counts(self, sizes):
        """The number of places of the kernel in each dimension of images of `sizes`."""
        found = []
        for size, kernel, stride, dilation in zip(sizes, *self[:3], strict=True):
            reach = (kernel - 1) * dilation + 1
            room = size - reach if self.padding == "valid" else size - 1
            found.append(room // stride + 1)
        return found

    def under(self, padded, place, counts):
        """The pixels of `padded` images at one `place` of the kernel: [rows, *counts, channels]."""
        begins = [p * dilation for p, dilation in zip(place, self.dilation_rate, strict=True)]
        return padded[(slice(None), *map(steps, begins, counts, self.strides))]

    def padded(self, images, channel_axis=-1):
        """Returns images with the zeros around them that the padding asks for.

        They are [rows, *sizes, channels], or [rows, channels, *sizes] with `channel_axis` 1.
        """
        if self.padding == "valid":
            return images
        first = 2 if channel_axis == 1 else 1
        sizes = images.shape[first : first + self.rank]
        pads = [[0, 0]] * images.shape.rank
        for axis, (size, count) in enumerate(zip(sizes, self.counts(sizes), strict=True)):
            reach = (self.kernel_size[axis] - 1) * self.dilation_rate[axis] + 1
            if self.padding == "causal":
                pads[first + axis] = [reach - 1, 0]  # whatever the strides
                continue
            total = max((count - 1) * self.strides[axis] + reach - size, 0)
            pads[first + axis] = [total // 2, total - total // 2]
        return tf.pad(images, pads)

    def convolved(self, images, kernel):
        """The convolution [rows, *counts, filters] of images with a kernel."""
        padding = self.padding.upper()
        if self.padding == "causal":
            images, padding = self.padded(images), "VALID"
        return tf.nn.convolution(
            images,
            kernel,
            strides=self.strides,
            padding=padding,
            dilations=self.dilation_rate,
            # Without it, the gradient of three dimensions fails in eager mode.
            data_format=("NWC", "NHWC", "NDHWC")[self.rank - 1],
        )

    def kernel_gradient(self, images, outputs_gradient, kernel_shape):
        """The gradient with respect to the kernel, summed over the rows: of `kernel_shape`."""
        # The values do not matter, and in a graph this forward convolution is pruned.
        kernel = tf.zeros(kernel_shape, images.dtype)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(kernel)
            outputs = self.convolved(images, kernel)
        return tape.gradient(outputs, kernel, output_gradients=outputs_gradient)


def steps(begin, count, stride):
    """The slice of `count` pixels from `begin` on, `stride` apart."""
    return slice(begin, begin + (count - 1) * stride + 1, stride)


# --- patches ---


def kernel_rows(images, window):
    """The patches under each place of a kernel, one part for each row of the kernel.

    Returns a list of [rows, w * channels, positions], with w the last kernel size, in the order of
    the kernel's leading places; one after the other along axis 1 they are the patches.
    """
    rank, channels = window.rank, images.shape[-1]
    counts = window.counts(images.shape[1:-1])
    # Channels first: what is copied below is then whole rows of the image, and, but for w copies,
    # many rows at once. Extracting patches pixel by pixel takes ten times as long.
    if channels == 1:
        images = tf.reshape(images, [-1, 1, *images.shape[1:-1]])
    else:
        images = tf.transpose(images, [0, rank + 1, *range(1, rank + 1)])
    images = window.padded(images, channel_axis=1)
    begins = [place * window.dilation_rate[-1] for place in range(window.kernel_size[-1])]
    shifted = tf.concat(
        [images[..., steps(begin, counts[-1], window.strides[-1])] for begin in begins], axis=1
    )
    found = []
    for place in itertools.product(*map(range, window.kernel_size[:-1])):
        index = [slice(None), slice(None)]
        for axis, position in enumerate(place):
            begin = position * window.dilation_rate[axis]
            index.append(steps(begin, counts[axis], window.strides[axis]))
        part = shifted[tuple(index)]
        found.append(tf.reshape(part, [-1, part.shape[1], math.prod(counts)]))
    return found


def patches(images, window):
    """The patches under a kernel: [rows, product of kernel_size * channels, positions]."""
    return tf.concat(kernel_rows(images, window), axis=1)


def patch_grams(images, window):
    """Inner products of all pairs of patches of an image: [rows, positions, positions].

    A patch is a sum over places of the kernel, so that the Gram matrix of patches is a sum of
    shifted Gram matrices of pixels; with strides, of the pixels of each phase. Nothing of the size
    of the patches is made.
    """
    rank = window.rank
    counts = window.counts(images.shape[1:-1])
    images = window.padded(images)
    total = []
    # For each phase, (begin, shifts) by dimension: places k with k * dilation = phase mod stride.
    for phases in itertools.product(*(_phases(*g) for g in zip(*window[:3], strict=True))):
        begins = [begin for begin, _ in phases]
        steps = [slice(b, None, s) for b, s in zip(begins, window.strides, strict=True)]
        subsampled = images[(slice(None), *steps)]
        sizes = subsampled.shape[1:-1]
        pixels = tf.reshape(subsampled, [-1, sizes.num_elements(), images.shape[-1]])
        gram = tf.matmul(pixels, pixels, transpose_b=True)
        gram = tf.reshape(gram, [-1, *sizes, *sizes])
        for axis, (_, shifts) in enumerate(phases):
            shifted = []
            for shift in shifts:
                index = [slice(None)] * (1 + 2 * rank)
                index[1 + axis] = index[1 + rank + axis] = slice(shift, shift + counts[axis])
                shifted.append(gram[tuple(index)])
            gram = tf.add_n(shifted)
        total.append(gram)
    positions = math.prod(counts)
    return tf.reshape(tf.add_n(total), [-1, positions, positions])


def patch_gram_roundings(channels, window):
    """The most roundings that a product of two pixels goes through in `patch_grams`."""
    phases = math.prod(len(_phases(*g)) for g in zip(*window[:3], strict=True))
    return channels + sum(window.kernel_size) + phases


def patch_gram_sizes(sizes, window):
    """The numbers in each pixel Gram matrix that `patch_grams` makes, one entry per phase."""
    found = []
    reaches = [
        size if window.padding == "valid" else (c - 1) * s + (k - 1) * d + 1
        for size, c, k, s, d in zip(sizes, window.counts(sizes), *window[:3], strict=True)
    ]
    for phases in itertools.product(*(_phases(*g) for g in zip(*window[:3], strict=True))):
        pixels = [
            -(-(reach - begin) // stride)
            for reach, (begin, _), stride in zip(reaches, phases, window.strides, strict=True)
        ]
        found.append(math.prod(pixels) ** 2)
    return found


def _phases(kernel, stride, dilation):
    """List of (phase, shifts): the places of a kernel by their remainder modulo the stride."""
    found = {}
    for place in range(kernel):
        found.setdefault(place * dilation % stride, []).append(place * dilation // stride)
    return list(found.items())
