"""One update's epsilon and delta: the Gaussian theorem, and amplification by sampling.

What the accountants of Ermis & Cemgil (2017) are made of. A "noise ratio" is the noise's standard
deviation over the l2 sensitivity.
"""

import math


def gaussian_noise(epsilon, delta):
    """The noise ratio of the classical Gaussian theorem (Dwork & Roth 2014, Theorem A.1).

    The theorem is verified for epsilon < 1 only. Well beyond, it asks for too little: at epsilon =
    10 the mechanism has up to four times the delta, at epsilon = 20 up to 150 times.
    """
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def gaussian_epsilon(noise_ratio, delta):
    """Epsilon by the same theorem for a noise ratio > 0: its inverse."""
    return math.sqrt(2 * math.log(1.25 / delta)) / noise_ratio


def amplified(epsilon, sampling_rate):
    """log(1 + q (exp(epsilon) - 1)): epsilon of a mechanism on a Poisson-sampled batch.

    Li, Qardaji & Su (2012), Theorem 1, for adding or removing an example; delta becomes q delta.
    It holds for replacing one, too, where epsilon and delta hold for both adjacencies: by Balle,
    Barthe & Gaboardi (2018), Theorem 2, and the convexity of the divergence.
    """
    if epsilon > 700:  # exp overflows
        return epsilon + math.log(sampling_rate)
    return math.log1p(sampling_rate * math.expm1(epsilon))


def unamplified(epsilon, sampling_rate):
    """The epsilon that `amplified` turns into `epsilon`."""
    if epsilon > 700:
        return epsilon - math.log(sampling_rate)
    return math.log1p(math.expm1(epsilon) / sampling_rate)
