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


def delta_text(delta):
    """A delta as text, rounded upwards to 3 significant digits: a guarantee at more holds, too.

    Rounding starts from the shortest text of the float, so that 1e-05 stays what it is.
    """
    return repr(float(Context(prec=3, rounding=ROUND_CEILING).create_decimal(repr(delta))))


def ceil_float(value, digits):
    """`value` rounded upwards to `digits` significant digits, as the float nearest to that."""
    return float(_ceil(value, digits))


def _ceil(value, digits):
    return Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(value))
