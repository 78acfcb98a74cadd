"""Rounding that never makes a privacy loss look smaller or a noise look larger than it is."""

import math
from decimal import ROUND_CEILING, Context, Decimal


def ceil_text(value, digits=4):
    """`value` >= 0 as decimal text, rounded upwards to `digits` significant digits.

    Rounding starts from the exact binary value of the float, so that the text is never below it.
    Infinity is "inf".
    """
    if math.isinf(value):
        return "inf"
    rounded = _ceil(value, digits)
    return format(rounded, "f" if value == 0 or 1e-4 <= value < 1e9 else "e")


def ceil_float(value, digits):
    """`value` rounded upwards to `digits` significant digits, as the float nearest to that."""
    return float(_ceil(value, digits))


def _ceil(value, digits):
    return Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(value))
