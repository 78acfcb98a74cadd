"""Epsilon of Gaussian mechanisms composed, quick where the same are asked for again and again."""

import functools
from collections.abc import Iterable

import dp_accounting
import numpy as np

from tfdpnorm.privacy.accountants import dp_sgd_event, epsilon_of, rdp_of, rdp_to_epsilon
from tfdpnorm.privacy.epsilon_curve import EpsilonCurve


def composed_epsilon(
    parts: Iterable[tuple[float, float, int]], delta: float, accountant: str
) -> float:
    """Epsilon of parts (sampling rate, noise multiplier, count), composed, by "rdp" or "pld"."""
    parts = tuple(part for part in parts if part[2])
    if not parts:
        return 0.0
    if accountant == "pld":
        return _pld_epsilon(parts, delta)
    return rdp_to_epsilon(sum(count * _rdp(rate, noise) for rate, noise, count in parts), delta)


@functools.lru_cache(maxsize=64)
def _rdp(sampling_rate: float, noise_multiplier: float) -> np.ndarray:
    return rdp_of(dp_sgd_event(sampling_rate, noise_multiplier, 1))


@functools.lru_cache(maxsize=64)
def _pld_epsilon(parts: tuple[tuple[float, float, int], ...], delta: float) -> float:
    event = dp_accounting.ComposedDpEvent([dp_sgd_event(*part) for part in parts])
    return epsilon_of(event, delta, "pld")


@functools.lru_cache(maxsize=16)
def pld_curve(rate: float, noise_multiplier: float, steps: int, delta: float) -> EpsilonCurve:
    """The `EpsilonCurve` of a plan by "pld", whose grid says where it is composed."""
    return EpsilonCurve(rate, noise_multiplier, steps, delta, "pld")
