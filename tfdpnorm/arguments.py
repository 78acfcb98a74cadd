"""Checks of values, so that all errors have one wording: "Expected ..., got .... Remedy."

A check returns the value as a plain Python number or string, which keeps NumPy scalars out of
configurations, JSON records and statements.
"""

import math
import numbers
from collections.abc import Collection

# Accountants compute with squares of noise multipliers and their inverses.
_NOISE_MULTIPLIERS = (1e-100, 1e100)


def refusal(name, expected, value, remedy=""):
    """Returns the ValueError "Expected <name> <expected>, got <value>. <remedy>" of an argument."""
    message = f"Expected {name} {expected}, got {_shown(value)}."
    return ValueError(f"{message} {remedy}" if remedy else message)


def real(name, value, expected="to be a number", remedy=""):
    """Returns `value` as a float; rejects NaN, booleans and all but real numbers."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise refusal(name, expected, value, remedy)
    try:
        number = float(value)
    except OverflowError:  # An integer or a fraction beyond the range of floats.
        raise refusal(name, f"{expected}, within the range of floats", value, remedy) from None
    if math.isnan(number):
        raise refusal(name, expected, value, remedy)
    return number


def finite(name, value, *, remedy=""):
    """Returns `value` as a finite float."""
    expected = "to be finite"
    number = real(name, value, expected, remedy)
    if math.isinf(number):
        raise refusal(name, expected, value, remedy)
    return number


def positive(name, value, *, allow_inf=False, remedy=""):
    """Returns `value` as a float > 0, infinite only where `allow_inf` says so."""
    expected = "> 0" + ("" if allow_inf else " and finite")
    number = real(name, value, expected, remedy)
    if number <= 0 or (math.isinf(number) and not allow_inf):
        raise refusal(name, expected, value, remedy)
    return number


def nonnegative(name, value, *, remedy=""):
    """Returns `value` as a finite float >= 0."""
    expected = ">= 0 and finite"
    number = real(name, value, expected, remedy)
    if number < 0 or math.isinf(number):
        raise refusal(name, expected, value, remedy)
    return number


def noise_multiplier(name, value, *, remedy=""):
    """Returns `value` as a float: 0, or in a range whose squares and their inverses are floats."""
    number = nonnegative(name, value, remedy=remedy)
    least, most = _NOISE_MULTIPLIERS
    if number and not least <= number <= most:
        expected = f"to be 0 or in [{least:g}, {most:g}]"
        raise refusal(name, expected, value, "Name a noise multiplier between 1e-3 and 1e6.")
    return number


def within(name, value, least, most, *, remedy=""):
    """Returns `value` as a float in [least, most]."""
    expected = f"in [{least:g}, {most:g}]"
    number = real(name, value, expected, remedy)
    if not least <= number <= most:
        raise refusal(name, expected, value, remedy)
    return number


def open_unit(name, value, *, remedy=""):
    """Returns `value` as a float strictly between 0 and 1."""
    expected = "strictly between 0 and 1"
    number = real(name, value, expected, remedy)
    if not 0 < number < 1:
        raise refusal(name, expected, value, remedy)
    return number


def decay(name, value, *, remedy=""):
    """Returns `value` as a float in [0, 1): the part that a running average keeps."""
    expected = "in [0, 1)"
    number = real(name, value, expected, remedy)
    if not 0 <= number < 1:
        raise refusal(name, expected, value, remedy)
    return number


def sampling_rate(name, value, *, remedy=""):
    """Returns `value` as a float in (0, 1]."""
    expected = "in (0, 1]"
    number = real(name, value, expected, remedy)
    if not 0 < number <= 1:
        raise refusal(name, expected, value, remedy)
    return number


def whole(name, value, *, at_least, remedy=""):
    """Returns `value` as an int >= `at_least`; rejects fractions, booleans and strings."""
    expected = f"to be a whole number >= {at_least}"
    if math.isinf(real(name, value, expected, remedy)):
        raise refusal(name, expected, value, remedy)
    # Through `value`, not the float: a float holds integers exactly only up to 2**53.
    number = int(value)
    if number != value or number < at_least:
        raise refusal(name, expected, value, remedy)
    return number


def integer(name, value, *, at_least, remedy="", wrong_type=TypeError):
    """Returns `value` as an int >= `at_least`, for a size, a seed or a count of rows.

    Other than `whole`, it rejects whole floats. `wrong_type` is the exception for all that is not
    an integer.
    """
    expected = f"to be an integer >= {at_least}"
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise wrong_type(str(refusal(name, expected, value, remedy)))
    if value < at_least:
        raise refusal(name, expected, value, remedy)
    return int(value)


def updates(name, value, *, at_least):
    """Returns `value` as an int in [at_least, 2**53]: floats count no further."""
    number = whole(name, value, at_least=at_least)
    if number > 2**53:
        raise refusal(name, "<= 2**53", value, "Choose a smaller number.")
    return number


def boolean(name, value, *, remedy=""):
    """Returns `value` if it is True or False."""
    if not isinstance(value, bool):
        raise refusal(name, "to be True or False", value, remedy)
    return value


def instance(name, value, kind, *, remedy=""):
    """Returns `value` if it is an instance of the class `kind`."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise refusal(name, f"to be {article} {kind.__name__}", value, remedy)
    return value


def choice(name, value, allowed, *, remedy=""):
    """Returns `value` if it is one of the strings or whole numbers `allowed`."""
    # True and 1.0 equal 1, but are not that choice.
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        for item in allowed:
            if value == item:
                return item
    raise refusal(name, "to be one of " + ", ".join(map(repr, allowed)), value, remedy)


def scalar(name, value):
    """Returns `value` as a str, int, finite float, bool or None, as JSON has them."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # The string itself, of members of an Enum too.
    if isinstance(value, numbers.Integral):
        return int(value)
    try:
        number = real(name, value)
    except ValueError:
        number = math.inf
    if math.isinf(number):
        expected = "to be a string, a finite number, a bool or None"
        raise refusal(name, expected, value, "Describe it in words.")
    return number


def text(name, value, expected="to be a string that is not blank", remedy=""):
    """Returns `value`, a string that is not blank, stripped of outer blanks."""
    if not isinstance(value, str) or not value.strip():
        raise refusal(name, expected, value, remedy)
    return value.strip()


def sentence(name, value, remedy=""):
    """Returns `value`, a sentence, stripped of outer blanks."""
    return text(name, value, "to be a sentence", remedy)


def sentences(name, value, remedy=""):
    """Returns `value` as a tuple of sentences without repetitions, in the order given."""
    # A lone string is iterable too, and would become one sentence for each of its letters.
    if isinstance(value, str) or not isinstance(value, Collection):
        raise refusal(name, "to be a tuple of sentences", value, "Write ('...',) for a single one.")
    return tuple(dict.fromkeys(sentence(name, item, remedy) for item in value))


def _shown(value):
    """The representation of a value, or its type where there is none."""
    try:
        return repr(value)
    except Exception:  # Such as that of an integer with too many digits for Python to print.
        return f"a value of type {type(value).__name__} that cannot be printed"
