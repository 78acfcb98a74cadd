"""Rows made of public facts alone: the shape of an input, the range of its numbers, and a seed."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tfdpnorm import arguments
from tfdpnorm.choices import SYNTHETIC_KINDS as KINDS
from tfdpnorm.data.synthetic import designs, noise, shapes, textures, tokens

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


_KINDS = {
    "uniform": _Kind(noise.uniform, "numbers"),
    "gaussian": _Kind(noise.gaussian, "numbers", _TWO_STDDEVS),
    "sparse": _Kind(noise.sparse, "numbers"),
    "hadamard": _Kind(designs.hadamard, "numbers"),
    "blurred": _Kind(textures.blurred, "images"),
    "strokes": _Kind(textures.strokes, "images"),
    "ink": _Kind(textures.ink, "images"),
    "fractal": _Kind(textures.fractal, "images"),
    "shapes": _Kind(shapes.shapes, "images"),
    "cosine": _Kind(designs.cosine, "images"),
    "tokens": _Kind(tokens.tokens, "tokens", None),
    "zipf": _Kind(tokens.zipf, "tokens", None),
}


def synthetic_rows(shape, n, *, kind=None, value_range=None, seed=0):
    """Makes rows for a public batch from public facts alone.

    Kinds of numbers of any shape: "uniform"; "gaussian", whose mean is the middle of the range and
    whose standard deviation is a quarter of its width, not cut; "sparse", 85 % the lower end and
    15 % the upper one; "hadamard", both ends, with uncorrelated positions. Kinds of images:
    "blurred" noise; "strokes", the highest sixth of blurred noise on the lower end; "ink", strokes
    of full contrast in the middle; "fractal" noise, with amplitude 1 / frequency; "shapes",
    ellipses and bars; "cosine", a wave each. Kinds of token ids: "tokens", all equally common;
    "zipf", id number r as common as 1 / r.

    Privacy:
        The rows depend on the arguments alone. These must be known without looking at the private
        data: take the range from how the data are scaled, not from their extremes. The seed is no
        secret.

    Args:
        shape: Of a row: (height, width, channels) of an image, (length,) of token ids.
        n: Number of rows M >= 2.
        kind: One of `KINDS`. None: "ink" for images of one channel, "fractal" for others, and
            "gaussian" for what is no image.
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
    low, high = _checked_range(kind, made.value_range if value_range is None else value_range)
    rng = np.random.default_rng(seed)
    if made.of == "tokens":
        return (low + made.make(rng, n, shape, high - low + 1)).astype(np.int32)
    rows = made.make(rng, n, shape)
    return (low + (high - low) * rows).astype(np.float32)


def _default_kind(shape):
    if len(shape) != _IMAGE_RANK:
        return "gaussian"
    return "ink" if shape[-1] == 1 else "fractal"


def _checked_range(kind, value_range):
    is_pair = isinstance(value_range, (tuple, list)) and len(value_range) == 2
    if is_pair and _KINDS[kind].of == "tokens":
        is_pair = all(isinstance(v, (int, np.integer)) and v >= 0 for v in value_range)
    if not (is_pair and np.isfinite(value_range).all() and value_range[0] < value_range[1]):
        raise arguments.refusal(
            "value_range", f"to be a pair (lower, upper) for kind={kind!r}", value_range
        )
    return value_range


@dataclasses.dataclass(frozen=True)
class SyntheticRows:
    """What the rows of a synthetic public batch are to be; see `synthetic_rows`.

    Attributes:
        kind: As there.
        count: Number of rows.
        value_range: As there. None: by the kind, and for tokens all ids but 0, the padding.
        seed: As there.
    """

    kind: str | None = None
    count: int = 512
    value_range: tuple | None = None
    seed: int = 0

    def __post_init__(self):
        if self.kind is not None:
            arguments.choice("kind", self.kind, KINDS)

    @classmethod
    def named(cls, name, **more):
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

    def settled(self, shape, num_tokens=None):
        """Returns these with the kind and the range that rows of a shape get.

        Args:
            shape: Of a row.
            num_tokens: The number of ids, 0 among them, if the rows are token ids.

        Raises:
            ValueError: if the kind is not for such rows.
        """
        is_tokens = num_tokens is not None
        kind = self.kind or ("zipf" if is_tokens else _default_kind(shape))
        if is_tokens != (_KINDS[kind].of == "tokens"):
            what = "token ids" if is_tokens else "numbers"
            raise ValueError(f"Expected a kind of {what} for rows of {what}, got {kind!r}.")
        of_kind = (1, num_tokens - 1) if is_tokens else _KINDS[kind].value_range
        return dataclasses.replace(self, kind=kind, value_range=self.value_range or of_kind)

    def rows(self, shape, num_tokens=None):
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
