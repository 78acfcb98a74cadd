"""Checks shared by the privacy package, so that every refusal has the same wording.

Each function returns the value as a plain Python number, which keeps NumPy scalars out of
configurations, JSON records and statements.
"""

import math
import numbers
from collections.abc import Collection


def _refuse(name: str, expected: str, received: object, remedy: str) -> ValueError:
    message = f"Expected {name} {expected}, received {received!r}."
    return ValueError(f"{message} {remedy}" if remedy else message)


def real(name: str, value: object, expected: str = "to be a number", remedy: str = "") -> float:
    """Returns `value` as a float; refuses NaN, booleans and all but real numbers."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise _refuse(name, expected, value, remedy)
    try:
        number = float(value)
    except OverflowError:  # An integer or a fraction beyond the range of floats.
        raise _refuse(name, f"{expected}, within the range of floats", "more", remedy) from None
    if math.isnan(number):
        raise _refuse(name, expected, value, remedy)
    return number


def positive(name: str, value: object, *, allow_inf: bool = False, remedy: str = "") -> float:
    """Returns `value` as a float > 0, infinite only where `allow_inf` says so."""
    expected = "> 0" + ("" if allow_inf else " and finite")
    number = real(name, value, expected, remedy)
    if number <= 0 or (math.isinf(number) and not allow_inf):
        raise _refuse(name, expected, value, remedy)
    return number


def nonnegative(name: str, value: object, *, remedy: str = "") -> float:
    """Returns `value` as a finite float >= 0."""
    expected = ">= 0 and finite"
    number = real(name, value, expected, remedy)
    if number < 0 or math.isinf(number):
        raise _refuse(name, expected, value, remedy)
    return number


def open_unit(name: str, value: object, *, remedy: str = "") -> float:
    """Returns `value` as a float strictly between 0 and 1."""
    expected = "strictly between 0 and 1"
    number = real(name, value, expected, remedy)
    if not 0 < number < 1:
        raise _refuse(name, expected, value, remedy)
    return number


def sampling_rate(name: str, value: object, *, remedy: str = "") -> float:
    """Returns `value` as a float in (0, 1]."""
    expected = "in (0, 1]"
    number = real(name, value, expected, remedy)
    if not 0 < number <= 1:
        raise _refuse(name, expected, value, remedy)
    return number


def whole(name: str, value: object, *, at_least: int, remedy: str = "") -> int:
    """Returns `value` as an int >= `at_least`; refuses fractions, booleans and strings."""
    expected = f"to be a whole number >= {at_least}"
    number = real(name, value, expected, remedy)
    if math.isinf(number) or number != int(number) or number < at_least:
        raise _refuse(name, expected, value, remedy)
    # Through `value`, not the float: a float holds integers exactly only up to 2**53.
    return int(value)


def updates(name: str, value: object, *, at_least: int) -> int:
    """Returns `value` as an int in [at_least, 2**53], as many updates as floats can count."""
    number = whole(name, value, at_least=at_least)
    if number > 2**53:
        raise _refuse(name, "<= 2**53", value, "Nobody makes as many updates.")
    return number


def choice(name: str, value: object, allowed: Collection[str], *, remedy: str = "") -> str:
    """Returns `value` if it is one of the strings `allowed`."""
    if not isinstance(value, str) or value not in allowed:
        raise _refuse(name, "to be one of " + ", ".join(map(repr, allowed)), value, remedy)
    return value


def reason(name: str, value: object) -> str:
    """Returns `value`, a sentence that says why no guarantee holds, stripped of outer blanks."""
    if not isinstance(value, str) or not value.strip():
        raise _refuse(name, "to be a sentence", value, "Say in words why no guarantee holds.")
    return value.strip()


def reasons(name: str, value: object) -> tuple[str, ...]:
    """Returns `value` as a tuple of sentences without repetitions, in the order given."""
    # A lone string is iterable too, and would become one "reason" for each of its letters.
    if isinstance(value, str) or not isinstance(value, Collection):
        raise _refuse(name, "to be a tuple of sentences", value, "Write ('...',) for a single one.")
    return tuple(dict.fromkeys(reason(name, item) for item in value))
