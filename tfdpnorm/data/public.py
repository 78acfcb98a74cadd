"""Public images: choosing, splitting off, fitting and checking the public batch.

Everything here may depend on public data, on shapes and on row numbers, and on an experiment's
seed, which is not secret. Only `check_public_batch` and `unlike_public` look at private rows: to
reject public rows, and to leave private rows out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from tfdpnorm import arguments
from tfdpnorm.data import arrays
from tfdpnorm.data.examples import Examples
from tfdpnorm.data.inputs import as_inputs
from tfdpnorm.errors import PrivacyError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


# The variance over one row is 0 wherever a layer has one position per channel.
_LEAST_ROWS = 2
_WHY_TWO = (
    "one row has variance 0 in every channel of a dense layer, and normalising by it "
    "divides by sqrt(epsilon) alone"
)
_KIND_NAMES = {"f": "float", "i": "integer", "u": "integer", "b": "boolean"}


def take_public_batch(examples: Examples | np.ndarray, size: int, *, seed: int) -> np.ndarray:
    """Chooses rows of a public set, without replacement.

    Args:
        examples: public `Examples`, or array [N, ...].
        size: number of rows M, 2 <= M <= N.
        seed: integer >= 0, the experiment's. The choice is repeatable and not secret, which is
            sound for public rows only.

    Returns:
        The rows of x, shape [M, ...], in the type of x.

    Raises:
        TypeError: if `size` or `seed` is no integer.
        ValueError: if `size` is below 2 or above N.
    """
    x = examples.x if isinstance(examples, Examples) else np.asarray(examples)
    return x[_chosen(len(x), size, seed)]


def take_public_examples(examples: Examples, size: int, *, seed: int) -> Examples:
    """Chooses rows of a public set as `take_public_batch` does, with their labels.

    Args:
        examples: public `Examples` with N rows.
        size: number of rows M, 2 <= M <= N.
        seed: integer >= 0, see `take_public_batch`.

    Returns:
        `Examples` with M rows.

    Raises:
        TypeError, ValueError: as `take_public_batch`.
    """
    return examples.take(_chosen(len(examples), size, seed))


def split_public(examples: Examples, size: int, seed: int) -> tuple[Examples, Examples]:
    """Splits public rows off a set that has no public counterpart.

    A row's number and the seed alone decide in which part it is. Where examples have persons, these
    are split, with all of their rows: no one is in both parts. A split that looked at an image or
    a label (the best ones, or so many of each class) would release something of the private rows.
    The people behind the public rows get no privacy at all: this simulates public data on a
    benchmark. N shrinks: compute epsilon from the length of the private part.

    Args:
        examples: `Examples` with N rows.
        size: public rows M, 2 <= M < N; of persons: how many of them.
        seed: integer >= 0, the experiment's.

    Returns:
        (public, private): `Examples` with M and N - M rows (persons), each in the original order,
        with splits named such as "train[public]" and "train[private]".

    Raises:
        TypeError: if `size` or `seed` is no integer.
        ValueError: if `size` is below 2, or leaves no private row.
    """
    count = examples.num_persons
    size = _checked_size(size, count - 1, "size (leaving a private row)")
    order = _permutation(count, seed)
    return (
        examples.take_persons(order[:size], split=f"{examples.split}[public]"),
        examples.take_persons(order[size:], split=f"{examples.split}[private]"),
    )


def match_images(images: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Fits images to a shape: bilinear resizing, grey repeated to colour, colour averaged to grey.

    Each image is treated alone, so that this may be applied to private images too. Shrinking
    averages over the pixels it drops (antialiasing). A range of [0, 1] is kept.

    Args:
        images: float array [M, H, W, C].
        shape: (height, width, channels) to reach; channels is C, or one of the two is 1.

    Returns:
        float32 [M, height, width, channels].

    Raises:
        TypeError: if the images are not floats.
        ValueError: if the images have no four dimensions, or the channels cannot be matched.
    """
    images = np.asarray(images)
    if images.dtype.kind != "f":
        raise TypeError(
            f"Expected float images, got dtype {images.dtype}. "
            f"Scale them first, such as by `images / 255`."
        )
    if images.ndim != 4 or len(shape) != 3:
        raise ValueError(
            f"Expected images [M, H, W, C] and a shape (height, width, channels), "
            f"got images {list(images.shape)} and shape {tuple(shape)}. "
            f"Add a missing channel with `images[..., np.newaxis]`."
        )
    height, width, channels = (
        arguments.integer("each entry of shape", size, at_least=1) for size in shape
    )
    given = images.shape[-1]
    if channels != given and 1 not in (channels, given):
        raise ValueError(
            f"Expected {channels} channel(s), or 1, got {given}. Between other "
            f"numbers of channels, convert the images first."
        )
    images = images.astype(np.float32, copy=False)
    if channels < given:
        images = images.mean(axis=-1, keepdims=True)
    if images.shape[1:3] != (height, width):
        with tf.device("/cpu:0"):
            images = tf.image.resize(
                images, (height, width), method="bilinear", antialias=True
            ).numpy()
    return np.repeat(images, channels, axis=-1) if channels > given else images


def check_public_batch(public_x: Any, private_x: Any, *, are_generated: bool = False) -> None:
    """Raises unless a public batch fits the private rows.

    It must have the private rows' shape and dtype, finite values, at least 2 rows, and no
    row that equals a private one: training uses the public rows without any protection. Of several
    inputs, a row is all of them together. The check does not recognise an example with the
    slightest change (noise, crop, other scale).

    Args:
        public_x: array [M, ...], or dict or tuple of such arrays.
        private_x: array [N, ...], or the same structure of such arrays; or `inputs` of the
            `PoissonBatches.examples`.
        are_generated: Whether the public rows were made without any data, as `synthetic_rows` makes
            them. A private row may then equal one by chance alone, such as a black image, and rows
            are not compared: an error would reveal this private row.

    Raises:
        TypeError: if the kinds of number differ, or are not booleans, integers or floats.
        ValueError: for every other fault. The error gives the count and public numbers of rows that
            are also private; it is for the data's curator, not for publication.
    """
    publics = tf.nest.flatten(arrays.map_leaves(arrays.numeric_array, public_x, "public_x"))
    privates = as_inputs(private_x)
    if len(publics) != len(privates.leaves) or len({len(public) for public in publics}) > 1:
        raise ValueError(
            f"Expected a public array for each of {len(privates.leaves)} private one(s), with as "
            f"many rows each, got {len(publics)} with {[len(public) for public in publics]} rows. "
            "Pass the same rows of each input."
        )
    for public, private in zip(publics, privates.leaves, strict=True):
        _check_alike(public, private)
    overlap = [] if are_generated else arrays.shared_rows(publics, privates)
    if overlap:
        raise PrivacyError(
            f"Expected public rows that are not private, got {len(overlap)} of {len(publics[0])} "
            f"public row(s) that are also in private_x, first row(s) {overlap[:5]} of public_x. "
            "Take public rows from another set, or split them off with `split_public` and remove "
            "the rows equal to them: keep = unlike_public(private_x, public_x)."
        )


def unlike_public(private_x: Any, public_x: Any) -> np.ndarray:
    """Returns which private rows equal no public row.

    Different texts may be equal once they are encoded: of two such twins, a random split may make
    one public and the other private. Such twins are as public as the row itself, and are left out.
    Each private row is judged by itself, so that the guarantee for the remaining rows is sound.

    Args:
        private_x: array [N, ...], or dict or tuple of such arrays, of which a row is all together.
        public_x: array [M, ...] of the same shape and kind of number, or a structure of such.

    Returns:
        bool [N].
    """
    publics, privates = _leaves(public_x), _leaves(private_x)
    dtypes = arrays.compared_as(publics, privates)
    taken = set(arrays.joint_digests(publics, dtypes))
    rows = arrays.joint_digests(privates, dtypes)
    return np.fromiter((row not in taken for row in rows), bool, len(privates[0]))


def _leaves(x):
    """List of the arrays in nested dicts and tuples, in the order of `tf.nest`."""
    return tf.nest.flatten(arrays.map_leaves(lambda leaf, _: np.asarray(leaf), x, "x"))


def _check_alike(public, private):
    """Raises where one array [M, ...] of a public batch does not suit its private one [N, ...]."""
    if public.shape[1:] != private.shape[1:]:
        are_images = 4 in (public.ndim, len(private.shape))
        raise ValueError(
            f"Expected public rows shaped as the private ones, got public_x "
            f"{list(public.shape)} and private_x {list(private.shape)}. "
            + (
                f"Fit images with `match_images(public_x, {private.shape[1:]})`."
                if are_images
                else "Prepare both alike; several inputs go in a dict by their names."
            )
        )
    kinds = [_KIND_NAMES.get(array.dtype.kind) for array in (public, private)]
    if kinds[0] != kinds[1]:
        raise TypeError(
            f"Expected public rows and private x of one dtype, got {public.dtype} and "
            f"{private.dtype}. Convert and scale both alike. Synthetic rows are float32 in 0..1: "
            'write x.astype("float32") / 255, and begin the model without Rescaling. For arrays on '
            "disk, tfdpnorm.data.MappedSource scales each example."
        )
    if len(public) < _LEAST_ROWS:
        raise ValueError(
            f"Expected public_x with at least {_LEAST_ROWS} rows, got {len(public)}: {_WHY_TWO}."
        )


def _chosen(available, size, seed):
    size = _checked_size(size, available, "size")
    return _permutation(available, seed)[:size]


def _permutation(count, seed):
    seed = arguments.integer("seed", seed, at_least=0)
    return np.random.default_rng(seed).permutation(count)


def _checked_size(size, available, name):
    size = arguments.integer("size", size, at_least=0)
    if size < _LEAST_ROWS:
        raise ValueError(f"Expected {name} of at least {_LEAST_ROWS} rows, got {size}: {_WHY_TWO}.")
    if size > available:
        raise ValueError(
            f"Expected {name} <= {available}, the rows available, got {size}. "
            f"Take fewer rows, or load a larger set."
        )
    return size
