"""Public rows on another scale than the private ones."""

import warnings

import numpy as np

# Two sets of the same kind differ by less than this factor, pixels in 0..255 and 0..1 by more.
_FACTOR = 20.0


def warn_of_other_scale(public, private):
    """Warns if public rows seem to be in other units than the private ones.

    The warning depends on private data, without noise. It is for those who hold the data, shows no
    number of them, and changes nothing that is released. Public rows on another scale normalise
    every example by moments that do not fit, and training would fail silently.

    Args:
        public: Array or tensor [M, ...].
        private: Array [N, ...].
    """
    public, private = np.asarray(public), np.asarray(private)
    if private.dtype.kind != "f" or public.dtype.kind != "f":
        return  # ids have no scale
    sizes = [np.sqrt(np.mean(np.square(t, dtype=np.float64))) for t in (public, private)]
    larger, smaller = max(sizes), min(sizes)
    if larger > _FACTOR * smaller:
        word = "larger" if sizes[0] == larger else "smaller"
        warnings.warn(
            f"The public rows are more than {_FACTOR:g} times {word} than the private ones (root "
            "mean square), as 0..255 are beside 0..1: bring both to one scale. This message "
            "depends on the private data; keep it with them.",
            stacklevel=6,
        )
