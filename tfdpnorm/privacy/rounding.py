"""Numbers as text; a privacy loss never looks smaller, and a noise never larger, than it is."""

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


def percent(share):
    """A share in percent, rounded upwards to three digits, such as "4.79 %"; more near 100 %."""
    digits = 3 if share < 0.99 else 5
    return f"{ceil_text(min(100 * share, 100.0), digits)} %"


def number(count, noun):
    """A count with its noun, such as "1 update" and "2 updates"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def json_number(value):
    """The value, and "inf" for infinity, which JSON has not."""
    return "inf" if math.isinf(value) else value


def _ceil(value, digits):
    return Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(value))
