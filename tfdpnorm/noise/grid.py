"""A sum plus Gaussian noise, rounded to a grid, as if it were computed with real numbers.

What is released of a sum S is D round((S + N(0, sigma^2)) / D), D a power of two: a function of the
ideal Gaussian mechanism, so that the accountant's figures hold for it. docs/exact_noise.md bounds
how far the computed distribution is from it.
"""

import math

import tensorflow as tf

from tfdpnorm.keras_compat.devices_and_precision import compiled

# D is the largest power of two up to sigma / 32: rounding adds at most D^2 / 12, 1e-4 of sigma^2.
STDDEV_IN_STEPS = 32

# The float32 computation is trusted within these bounds. Each is many times what was measured over
# all 2^32 words (tests/training/step/test_exact_noise.py).
SAFE_RADII = (2.0**-5, 4.25)  # outside of them float32, or 32 bits, know too little of the radius
NORMAL_ERROR = 2.0**-15  # of a normal number
SAFE_CELLS = 1024.0  # beyond that many steps, float32 knows too little of the sum
SUM_ERROR = 2.0**-12  # of the sum of x and noise, in steps

FURTHER_WORDS = 6


def grid_width(stddev):
    """Returns D for noise of standard deviation `stddev`, a float > 0: a power of two."""
    return math.ldexp(0.5, math.frexp(stddev / STDDEV_IN_STEPS)[1])


def noised_on_grid(sums, stddev, words, further, *, all_in_float64=False):
    """Returns the multiples of D next to S + N(0, stddev^2), independent for each number.

    Nearly all of them come from float32. The few where an error of float32, or the bits of a normal
    number beyond the first 64, could move the result to another multiple are computed in float64
    with further bits. So the result is that of float64 for all numbers, bit for bit.

    Args:
        sums: [2 m], float32 or float64; number i and number m + i make a pair.
        words: [2, m], int32: random words for radii and angles of pairs of normal numbers.
        further: Function from indices of pairs, int64 [a], to further random words for them, int32
            [`FURTHER_WORDS`, a], independent of `words`.
        all_in_float64: Compute all numbers in float64, as XLA needs, which has no sizes that depend
            on values.
    """
    pairs = words.shape[1]
    table = tf.reshape(sums, [2, pairs])
    if all_in_float64:
        every = tf.range(pairs, dtype=tf.int64)
        exact = _exactly_noised(table, stddev, words, further(every))
        return tf.reshape(tf.cast(exact, sums.dtype), [-1])
    filtered, unsafe = _filtered(table, stddev, words)
    index = tf.reshape(tf.where(unsafe), [-1])
    both = tf.stack([index, index + pairs])
    exact = _exactly_noised(
        tf.gather(sums, both), stddev, tf.gather(tf.reshape(words, [-1]), both), further(index)
    )
    return tf.tensor_scatter_nd_update(
        tf.reshape(filtered, [-1]),
        tf.reshape(both, [-1, 1]),
        tf.reshape(tf.cast(exact, sums.dtype), [-1]),
    )


@compiled
def _filtered(sums, stddev, words):
    """The results by float32, [2, m], and whether they do not suffice for a pair, [m]."""
    width = grid_width(stddev)
    first, second, radii = float32_normals(words, stddev / width)
    x = tf.cast(sums * (1 / width), tf.float32) + tf.stack([first, second])
    # Beyond the clip, the difference is more than 1/2.
    cells = tf.round(tf.clip_by_value(x, -SAFE_CELLS, SAFE_CELLS))
    nearest = 0.5 - NORMAL_ERROR * stddev / width - SUM_ERROR
    least, most = (radius * stddev / width for radius in SAFE_RADII)
    # What is not a number is not within any bound.
    safe = tf.reduce_all(tf.abs(x - cells) <= nearest, axis=0) & (radii >= least) & (radii <= most)
    return tf.cast(cells, sums.dtype) * width, ~safe


def _exactly_noised(sums, stddev, words, further):
    """Returns the multiples of D next to S + noise, [2, a], computed in float64.

    `sums` and `words` are [2, a], `further` is [`FURTHER_WORDS`, a]. The uniform number of a radius
    has 160 bits and full relative precision at both ends, so that radii reach 14.9 and the smallest
    are as precise as any.
    """
    width = grid_width(stddev)
    first, second = float64_normals(words, further)
    x = tf.cast(sums, tf.float64) * (1 / width)
    whole = tf.round(x)
    rest = x - whole  # exact
    return (whole + tf.round(rest + stddev / width * tf.stack([first, second]))) * width


def float64_normals(words, further):
    """Pairs of normal numbers, float64 [a] each, by Box and Muller's transform.

    `words` are int32 [2, a]; `further`, [`FURTHER_WORDS`, a], are the bits that come after those of
    the first word (4) and of the second (2). The error is at most 2^-48 times the radius.
    """
    radius_word, angle_word = tf.unstack(tf.cast(words, tf.float64))
    # The first word is w or -w - 1 for a whole w in [0, 2^31): the uniform number is in
    # [w, w + 1) 2^-31. Near 1 it is its distance from 1 that is made, with the same bits.
    top = 2.0**31 - 1
    w = tf.where(radius_word < 0, -radius_word - 1, radius_word)
    near_one = w > top / 2
    t = (tf.where(near_one, top - w, w) + _fraction(further[:4])) * 2.0**-31
    radius = tf.sqrt(-2.0 * tf.where(near_one, tf.math.log1p(-t), tf.math.log(t)))
    angle = (angle_word + _fraction(further[4:])) * (math.pi * 2.0**-31)
    return radius * tf.cos(angle), radius * tf.sin(angle)


def float32_normals(words, scale=1.0):
    """Pairs of normal numbers times `scale`, from 64 bits, in float32.

    `words` are int32 [2, m]. Returns both numbers, and their radii times `scale`, [m] each.
    """
    radius_word, angle_word = (tf.cast(word, tf.float32) for word in tf.unstack(words))
    # The word stands for |word + V| 2^-31 with V uniform in [0, 1), which is left out here.
    # A word of 0 stands for numbers smaller than 2^-31.
    uniform = tf.maximum(tf.abs(radius_word) * 2.0**-31, 2.0**-32)
    radius = tf.sqrt(tf.math.log(uniform) * (-2.0 * scale**2))
    # Of an angle of pi t, the cosine is sin(pi g) and the sine sign(t) cos(pi g), g in [-1/2, 1/2].
    g = 0.5 - tf.abs(angle_word) * 2.0**-31
    sine = tf.where(angle_word < 0, -radius, radius) * _in_squares(_COSINE, g)
    return radius * (g * _in_squares(_SINE, g)), sine, radius


# Taylor's series of sin(pi g) / g and cos(pi g) in g^2: their errors are at most 6e-8. XLA computes
# these much faster than its cosines.
_SINE = [(-1) ** i * math.pi ** (2 * i + 1) / math.factorial(2 * i + 1) for i in range(6)]
_COSINE = [(-1) ** i * math.pi ** (2 * i) / math.factorial(2 * i) for i in range(7)]


def _in_squares(coefficients, g):
    """The polynomial in g^2, by Horner's rule."""
    *others, value = coefficients
    for coefficient in reversed(others):
        value = coefficient + g * g * value
    return value


def _fraction(words):
    """Numbers in (0, 1) of which int32 `words` [k, a] are the bits; [a], float64."""
    fraction = 0.5
    for word in reversed(tf.unstack(tf.bitcast(words, tf.uint32))):
        # No constant is added to the word: Grappler would move it, and round the fraction away.
        fraction = (fraction + tf.cast(word, tf.float64)) * 2.0**-32
    return fraction
