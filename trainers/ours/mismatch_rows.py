"""Public rows that differ from the private ones in one way each: which of them matter?"""

import numpy as np
from scipy import ndimage

from tfdpnorm.data import load_examples, match_images, synthetic_rows, take_public_batch

ROWS = 512
_COUNTS = (16, 32, 64, 128, 2048)
_REAL = ("kmnist", "cifar100")
_SHAPED = ("ink", "uniform", "fractal")
_SYNTHETIC = ("strokes", "ink", "uniform", "fractal", "sparse", "shapes", "hadamard")


def altered_rows(own, *, seed, data_dir=None):
    """Makes public rows of rows of the private set, as if these were public, and others.

    Args:
        own: float32 [M, height, width, 1] of the private set, in [0, 1], M >= 2,048.
        seed: Seeds what is drawn.
        data_dir: TFDS directory.

    Returns:
        Dict from a description to an array [m, height, width, 1].
    """
    rng = np.random.default_rng(seed)
    shape, rows = own.shape[1:], own[:ROWS]
    size = int(np.prod(shape))
    places = rng.permutation(size)
    mixed = rng.permuted(rows.reshape(ROWS, size), axis=0)
    made_up = {kind: synthetic_rows(shape, ROWS, kind=kind, seed=seed) for kind in _SYNTHETIC}
    return {
        "own": rows,
        **{f"own ({count} rows)": own[:count] for count in _COUNTS},
        "own + 0.25": rows + 0.25,
        "own + 1": rows + 1,
        "own x 0.5": 0.5 * rows,
        "own x 0.1": 0.1 * rows,
        "own x 3": 3 * rows,
        "own (inverted)": 1 - rows,
        "own (each pixel of another image)": mixed.reshape(rows.shape),
        "own (pixels in another order)": rows.reshape(ROWS, size)[:, places].reshape(rows.shape),
        "own (blurred)": ndimage.gaussian_filter(rows, (0, 1.5, 1.5, 0)),
        **{
            name: take_public_batch(
                match_images(load_examples(name, "train", data_dir).x, shape), ROWS, seed=seed
            )
            for name in _REAL
        },
        **made_up,
        # What noised moments of the private rows could be used for, here without the noise.
        **{f"{kind} (moments of own)": _with_moments(made_up[kind], own) for kind in _SHAPED},
    }


def _with_moments(rows, own):
    """Rows whose numbers have the mean and the standard deviation of those of others."""
    standardised = (rows - rows.mean()) / rows.std()
    return (own.mean() + own.std() * standardised).astype(np.float32)
