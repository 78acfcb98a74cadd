"""The patches of images under the places of a kernel, and their inner products."""

import itertools
import math

import tensorflow as tf

from tfdpnorm.gradients.contributions.window import steps


def kernel_rows(images, window):
    """The patches under each place of a kernel, one part for each row of the kernel.

    Args:
        images: [rows, *sizes, channels].
        window: `Window`, whose last kernel size is w.

    Returns:
        List of [rows, w * channels, positions], in the order of the kernel's leading places; one
        after the other along axis 1 they are the patches.
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
    """The patches under each place of a kernel, positions last.

    Args:
        images: [rows, *sizes, channels].
        window: `Window`.

    Returns:
        [rows, product of kernel_size * channels, positions].
    """
    return tf.concat(kernel_rows(images, window), axis=1)


def patch_grams(images, window):
    """Inner products of all pairs of patches of an image: [rows, positions, positions].

    A patch is a sum over places of the kernel, so that the Gram matrix of patches is a sum of
    shifted Gram matrices of pixels; with strides, of the pixels of each phase. Nothing of the size
    of the patches is made.

    Args:
        images: [rows, *sizes, channels].
        window: `Window`.
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
