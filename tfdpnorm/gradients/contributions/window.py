"""The geometry of convolutions in one to three dimensions."""

from typing import NamedTuple

import tensorflow as tf


class Window(NamedTuple):
    """A kernel that moves over images [rows, *sizes, channels].

    Attributes:
        kernel_size: Tuple, one number for each spatial dimension, as the next two.
        strides: Tuple, the steps from one place of the kernel to the next.
        dilation_rate: Tuple, the steps from one pixel under the kernel to the next.
        padding: "valid", "same", or "causal" (one dimension).
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
        """The pixels that one place of the kernel goes over: [rows, *counts, channels].

        Args:
            padded: [rows, *sizes, channels], as `padded` returns it.
            place: The place in the kernel, a tuple.
            counts: As `counts` returns it.
        """
        begins = [p * dilation for p, dilation in zip(place, self.dilation_rate, strict=True)]
        return padded[(slice(None), *map(steps, begins, counts, self.strides))]

    def padded(self, images, channel_axis=-1):
        """Returns images with the zeros around them that the padding asks for.

        Args:
            images: [rows, *sizes, channels], or [rows, channels, *sizes] with `channel_axis` 1.
            channel_axis: -1 or 1.
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
        """The gradient by the kernel, summed over the rows: of `kernel_shape`."""
        # The values do not matter, and in a graph this forward convolution is pruned.
        kernel = tf.zeros(kernel_shape, images.dtype)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(kernel)
            outputs = self.convolved(images, kernel)
        return tape.gradient(outputs, kernel, output_gradients=outputs_gradient)


def steps(begin, count, stride):
    """The slice of `count` pixels from `begin` on, `stride` apart."""
    return slice(begin, begin + (count - 1) * stride + 1, stride)
