"""Rounding that never makes a privacy loss look smaller or a noise look larger than it is."""

import math
from decimal import ROUND_CEILING, Context, Decimal


def ceil_text(value: float, digits: int = 4) -> str:
    """`value` >= 0 in decimal, rounded upwards to `digits` significant digits; "inf" if infinite.

    The float is taken at its exact binary value, so that the text is never below it.
    """
    if math.isinf(value):
        return "inf"
    rounded = _ceil(value, digits)
    return format(rounded, "f" if value == 0 or 1e-4 <= value < 1e9 else "e")


def ceil_float(value: float, digits: int) -> float:
    """`value` rounded upwards to `digits` significant digits, as the float nearest to that."""
    return float(_ceil(value, digits))


def _ceil(value: float, digits: int) -> Decimal:
    return Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(value))
