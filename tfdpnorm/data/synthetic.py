"""Public rows that are no one's data: made from the shape of an input, its range, and a seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import fft, ndimage

from tfdpnorm import arguments
from tfdpnorm.choices import SYNTHETIC_KINDS as KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


# --- white noise: functions (rng, count, shape) ---

_WHITE_SHARE = 0.15  # about the share of an image of handwriting that is ink


def uniform(rng, count, shape):
    """Uniform in [0, 1)."""
    return rng.random((count, *shape), np.float32)


def gaussian(rng, count, shape):
    """Normal, with mean 1/2 and standard deviation 1/4; not cut to [0, 1]."""
    return 0.5 + 0.25 * rng.standard_normal((count, *shape), np.float32)


def sparse(rng, count, shape):
    """0, and 1 for 15 % of the numbers."""
    return (rng.random((count, *shape), np.float32) < _WHITE_SHARE).astype(np.float32)


# --- orthogonal designs, which cover all directions evenly: functions (rng, count, shape) ---


def hadamard(rng, count, shape):
    """Rows of 0 and 1: those of a Hadamard matrix, whose columns are orthogonal.

    With as many rows as the matrix has, the numbers of a row are exactly uncorrelated.
    """
    size = int(np.prod(shape))
    order = 1 << int(max(size, count) - 1).bit_length()
    columns = rng.permutation(order)[:size]
    rows = rng.permutation(order)[:count]
    signs = np.empty((count, size), np.float32)
    # Row by row: the matrix of an image in colour would take hundreds of megabytes.
    for place, row in enumerate(rows):
        # Whether the number of ones in the binary digits is odd, as 0 and 1.
        numbers = row & columns
        for shift in (32, 16, 8, 4, 2, 1):
            numbers = numbers ^ (numbers >> shift)
        signs[place] = 1 - 2 * (numbers & 1)
    return 0.5 + 0.5 * signs.reshape(count, *shape)


def cosine(rng, count, shape):
    """Images of one wave each: the slowest two-dimensional cosines in turn, with random signs."""
    height, width, channels = shape
    order = np.add.outer(np.arange(height), np.arange(width)).ravel().argsort(kind="stable")
    images = np.empty((count, *shape), np.float32)
    for place in range(count):
        wave = np.zeros(height * width)
        wave[order[(place // 2) % len(order)]] = rng.choice((-1.0, 1.0))
        image = fft.idctn(wave.reshape(height, width), norm="ortho")
        images[place] = (0.5 + 0.5 * image / abs(image).max())[..., np.newaxis]
    return images


# --- noise with neighbours that resemble each other: functions (rng, count, shape) ---

_BLUR = 1.5 / 28  # standard deviation of the blur, in sides of the image
_BORDER = 0.28  # of half a side: what is left free
_GREY_SHARE = 0.75  # of the variance of a channel: what all channels of a pixel have in common


def blurred(rng, count, shape):
    """Normal noise, blurred, about 1/2."""
    return np.clip(0.5 + 0.25 * _blurred_noise(rng, count, shape), 0, 1)


def strokes(rng, count, shape):
    """The highest sixth of blurred noise on 0: lines and blots as wide as the blur."""
    return np.clip(_blurred_noise(rng, count, shape) - 1, 0, 1)


def ink(rng, count, shape):
    """Strokes of full contrast that leave the border free: something in the middle of an image."""
    y, x = (abs(np.linspace(-1, 1, size)) < 1 - _BORDER for size in shape[:2])
    middle = np.outer(y, x)[..., np.newaxis]
    return np.clip(2.5 * (_blurred_noise(rng, count, shape) - 0.7), 0, 1) * middle


def fractal(rng, count, shape):
    """Noise whose amplitude falls as 1 / frequency, as that of photographs does, about 1/2."""
    height, width, _ = shape
    frequency = np.hypot(np.fft.fftfreq(height)[:, np.newaxis], np.fft.rfftfreq(width))
    frequency[0, 0] = frequency.flat[1]  # the mean of an image varies as its slowest wave does
    spectrum = np.fft.rfft2(_noise(rng, count, shape), axes=(1, 2))
    waves = np.fft.irfft2(spectrum / frequency[..., np.newaxis], (height, width), axes=(1, 2))
    return np.clip(0.5 + 0.25 * waves / waves.std(), 0, 1)


def _noise(rng, count, shape):
    """Normal noise [count, *shape] with variance 1, whose channels resemble each other."""
    grey = rng.standard_normal((count, *shape[:2], 1))
    if shape[-1] == 1:
        return grey
    own = rng.standard_normal((count, *shape))
    return np.sqrt(_GREY_SHARE) * grey + np.sqrt(1 - _GREY_SHARE) * own


def _blurred_noise(rng, count, shape):
    """Blurred noise with variance 1."""
    widths = (0, _BLUR * shape[0], _BLUR * shape[1], 0)
    smooth = ndimage.gaussian_filter(_noise(rng, count, shape), widths, mode="wrap")
    return smooth / smooth.std()


# --- images of ellipses and bars of one colour before each other ---

_THINGS = 4


def shapes(rng, count, shape):
    """Images [count, *shape] of turned ellipses and bars on a ground of one colour."""
    height, width, channels = shape
    y, x = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    images = np.broadcast_to(rng.random((count, 1, 1, channels)), (count, *shape))
    for _ in range(_THINGS):
        drawn = lambda low, high: rng.uniform(low, high, (count, 1, 1))  # noqa: E731
        angle, left, top = drawn(0, np.pi), drawn(0, 1), drawn(0, 1)
        along = (np.cos(angle) * (x - left) + np.sin(angle) * (y - top)) / drawn(0.1, 0.5)
        across = (np.cos(angle) * (y - top) - np.sin(angle) * (x - left)) / drawn(0.03, 0.3)
        is_ellipse = rng.random((count, 1, 1)) < 0.5
        inside = np.where(is_ellipse, np.hypot(along, across), np.maximum(abs(along), abs(across)))
        colour = rng.random((count, 1, 1, channels))
        images = np.where(inside[..., np.newaxis] < 1, colour, images)
    return images


# --- token ids in [0, size): functions (rng, count, shape, size) ---


def tokens(rng, count, shape, size):
    """All ids are equally common."""
    return rng.integers(size, size=(count, *shape))


def zipf(rng, count, shape, size):
    """The id of rank r, the smallest first, is as common as 1 / r: Zipf's law of words."""
    weights = 1 / np.arange(1, size + 1)
    return rng.choice(size, (count, *shape), p=weights / weights.sum())


# --- kinds of rows ---

NAME = "synthetic"
_UNIT, _TWO_STDDEVS = (0.0, 1.0), (-2.0, 2.0)
_IMAGE_RANK = 3


class _Kind(NamedTuple):
    """A kind of rows.

    Attributes:
        make: Function (rng, count, shape) to floats [count, *shape], 0 and 1 for the ends of the
            range; with `of` "tokens", (rng, count, shape, size) to ids.
        of: "numbers" of any shape, "images" [height, width, channels], or "tokens".
        value_range: The range if none is given.
    """

    make: Callable
    of: str
    value_range: tuple | None = _UNIT


_DESIGNS = ("hadamard", "cosine")  # which have constant rows, and need them
_KINDS = {
    "uniform": _Kind(uniform, "numbers"),
    "gaussian": _Kind(gaussian, "numbers", _TWO_STDDEVS),
    "sparse": _Kind(sparse, "numbers"),
    "hadamard": _Kind(hadamard, "numbers"),
    "blurred": _Kind(blurred, "images"),
    "strokes": _Kind(strokes, "images"),
    "ink": _Kind(ink, "images"),
    "fractal": _Kind(fractal, "images"),
    "shapes": _Kind(shapes, "images"),
    "cosine": _Kind(cosine, "images"),
    "tokens": _Kind(tokens, "tokens", None),
    "zipf": _Kind(zipf, "tokens", None),
}


def synthetic_rows(
    shape: Sequence[int],
    n: int,
    *,
    kind: str | None = None,
    value_range: tuple[float, float] | None = None,
    seed: int = 0,
) -> np.ndarray:
    """Makes rows for a public batch from public facts alone.

    Kinds of numbers of any shape: "uniform"; "gaussian", whose mean is the middle of the range and
    whose standard deviation is a quarter of its width, not cut; "sparse", 85 % the lower end and
    15 % the upper one; "hadamard", both ends, with uncorrelated positions. Kinds of images:
    "blurred" noise; "strokes", the highest sixth of blurred noise on the lower end; "ink", strokes
    of full contrast in the middle; "fractal" noise, with amplitude 1 / frequency; "shapes",
    ellipses and bars; "cosine", a wave each. Kinds of token ids: "tokens", all equally common;
    "zipf", id number r as common as 1 / r.

    A constant row, which small shapes result in, is replaced by one that is uniform in the range,
    except for "hadamard", "cosine" and tokens.

    Privacy:
        The rows depend on the arguments alone. These must be known without looking at the private
        data: take the range from how the data are scaled, not from their extremes. The seed is no
        secret.

    Args:
        shape: Of a row: (height, width, channels) of an image, (length,) of token ids.
        n: Number of rows M >= 2.
        kind: One of `KINDS`. None: "ink" for images of one channel, "fractal" for others, and
            "gaussian" for shapes other than images.
        value_range: Pair (lower, upper) of finite numbers; of the smallest and the largest id for
            tokens, which must be given. None for (0, 1), and for (-2, 2) if the kind is "gaussian".
        seed: Integer >= 0.

    Returns:
        Array [n, *shape], float32, or int32 for tokens.

    Raises:
        TypeError: if `n`, `seed` or an entry of `shape` is no integer.
        ValueError: for an unknown kind, one that is not for this shape, or a range that is none.
    """
    shape = tuple(arguments.integer("each entry of shape", s, at_least=1) for s in shape)
    n = arguments.integer("n", n, at_least=2)
    seed = arguments.integer("seed", seed, at_least=0)
    kind = _default_kind(shape) if kind is None else kind
    arguments.choice("kind", kind, KINDS)
    made = _KINDS[kind]
    if made.of == "images" and len(shape) != _IMAGE_RANK:
        raise ValueError(
            f"Expected shape (height, width, channels) for kind={kind!r}, got {shape}. Use a kind "
            'for any shape, such as "gaussian".'
        )
    value_range = made.value_range if value_range is None else value_range
    is_pair = isinstance(value_range, (tuple, list)) and len(value_range) == 2
    if is_pair and made.of == "tokens":
        is_pair = all(isinstance(v, (int, np.integer)) and v >= 0 for v in value_range)
    if not (is_pair and np.isfinite(value_range).all() and value_range[0] < value_range[1]):
        raise arguments.refusal(
            "value_range", f"to be a pair (lower, upper) for kind={kind!r}", value_range
        )
    low, high = value_range
    rng = np.random.default_rng(seed)
    if made.of == "tokens":
        return (low + made.make(rng, n, shape, high - low + 1)).astype(np.int32)
    rows = made.make(rng, n, shape)
    if kind not in _DESIGNS and rows[0].size > 1:
        # A private image may be black, and would be found among the public rows.
        is_constant = np.ptp(rows.reshape(n, -1), axis=1) == 0
        rows[is_constant] = uniform(rng, is_constant.sum(), shape)
    return (low + (high - low) * rows).astype(np.float32)


def _default_kind(shape):
    if len(shape) != _IMAGE_RANK:
        return "gaussian"
    return "ink" if shape[-1] == 1 else "fractal"


@dataclasses.dataclass(frozen=True)
class SyntheticRows:
    """The settings of synthetic public rows; see `synthetic_rows`.

    Attributes:
        kind: One of `KINDS`, or None.
        count: Number of rows.
        value_range: Pair (lower, upper). None: by the kind, and for tokens all ids but 0, the
            padding.
        seed: Integer >= 0.
    """

    kind: str | None = None
    count: int = 512
    value_range: tuple | None = None
    seed: int = 0

    def __post_init__(self):
        if self.kind is not None:
            arguments.choice("kind", self.kind, KINDS)

    @classmethod
    def named(cls, name: str, **more: Any) -> SyntheticRows:
        """Reads "synthetic" or "synthetic:kind".

        Args:
            name: Text.
            **more: The other attributes.

        Raises:
            ValueError: for another text.
        """
        start, colon, kind = name.partition(":")
        if start != NAME or bool(colon) != bool(kind):
            raise ValueError(
                f"Expected {NAME!r} or '{NAME}:kind' with one of {', '.join(KINDS)}, got {name!r}."
            )
        return cls(kind or None, **more)

    def settled(self, shape: Sequence[int], num_tokens: int | None = None) -> SyntheticRows:
        """Returns these with the kind and the range that rows of a shape get.

        `num_tokens` is the number of ids, 0 among them, if the rows are token ids. Raises
        ValueError if the kind is not for such rows.
        """
        is_tokens = num_tokens is not None
        kind = self.kind or ("zipf" if is_tokens else _default_kind(shape))
        if is_tokens != (_KINDS[kind].of == "tokens"):
            what = "token ids" if is_tokens else "numbers"
            raise ValueError(f"Expected a kind of {what} for rows of {what}, got {kind!r}.")
        of_kind = (1, num_tokens - 1) if is_tokens else _KINDS[kind].value_range
        return dataclasses.replace(self, kind=kind, value_range=self.value_range or of_kind)

    def rows(self, shape: Sequence[int], num_tokens: int | None = None) -> np.ndarray:
        """Makes the rows [count, *shape]; as `settled`."""
        made = self.settled(shape, num_tokens)
        return synthetic_rows(
            shape, self.count, kind=made.kind, value_range=made.value_range, seed=self.seed
        )

    def __str__(self):
        ends = "" if self.value_range is None else " in [{:g}, {:g}]".format(*self.value_range)
        kind = "" if self.kind is None else f' of kind "{self.kind}"'
        return f"{self.count} synthetic ones{kind}{ends}, seed {self.seed}"


def is_synthetic(name):
    """Whether the name of a public set asks for synthetic rows: "synthetic" or "synthetic:..."."""
    return isinstance(name, str) and name.partition(":")[0] == NAME
