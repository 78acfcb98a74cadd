"""Checks of values: what passes becomes a plain Python value, what does not gets one sentence."""

import decimal
import enum
import fractions
import math
import re

import numpy as np
import pytest

from tests.each import each
from tfdpnorm import arguments


class Colour(str, enum.Enum):
    RED = "red"


class Size(enum.IntEnum):
    THREE = 3


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no words for it")


BEYOND = 10**5000  # More digits than Python prints by default, and beyond floats.

# By the call: values that pass, with what comes of them.
PASS = {
    arguments.real: [
        (3, 3.0),
        (-0.5, -0.5),
        (math.inf, math.inf),
        (np.float32(0.5), 0.5),
        (np.int8(-3), -3.0),
        (np.uint64(2**64 - 1), 2.0**64),
        (fractions.Fraction(1, 4), 0.25),
        (Size.THREE, 3.0),
        (2**1000, 2.0**1000),
    ],
    arguments.finite: [(-1e308, -1e308), (0, 0.0), (np.float64(2), 2.0)],
    arguments.positive: [(1e-320, 1e-320), (7, 7.0), (fractions.Fraction(1, 3), 1 / 3)],
    arguments.nonnegative: [(0, 0.0), (-0.0, 0.0), (1e308, 1e308)],
    arguments.open_unit: [(0.5, 0.5), (1e-320, 1e-320), (np.float32(0.25), 0.25)],
    arguments.decay: [(0, 0.0), (1 - 2**-53, 1 - 2**-53)],
    arguments.noise_multiplier: [(0, 0.0), (1e-100, 1e-100), (1e100, 1e100)],
    arguments.sampling_rate: [(1, 1.0), (1e-300, 1e-300)],
    arguments.boolean: [(True, True), (False, False)],
    arguments.scalar: [
        (None, None),
        (True, True),
        ("text", "text"),
        (np.str_("text"), "text"),
        (Colour.RED, "red"),
        (np.int64(16), 16),
        (Size.THREE, 3),
        (2**70, 2**70),
        (BEYOND, BEYOND),
        (0.5, 0.5),
        (np.float32(0.5), 0.5),
        (fractions.Fraction(1, 4), 0.25),
    ],
    arguments.text: [(" why \n", "why"), (np.str_("why"), "why")],
    arguments.sentence: [(" why \n", "why"), (np.str_("why"), "why")],
    arguments.sentences: [
        ((), ()),
        ([" a", "b", "a "], ("a", "b")),
        ({"a": 1}, ("a",)),
    ],
}

NO_NUMBERS = [
    math.nan, np.float32("nan"), None, "3", b"3", True, np.True_, 1j, [], {}, {1}, object(),
    np.ones(1), decimal.Decimal(3), fractions.Fraction(BEYOND), Unprintable(),
]  # fmt: skip
NOT_FLOATS = [*NO_NUMBERS, BEYOND, -BEYOND]
INFINITE = [math.inf, -math.inf, np.float64("inf")]
NO_SENTENCES = ["", " \t\n", None, 3, True, b"why", ["why"], Unprintable()]

FAIL = {
    arguments.real: NOT_FLOATS,
    arguments.finite: [*NOT_FLOATS, *INFINITE],
    arguments.positive: [*NOT_FLOATS, *INFINITE, 0, -0.0, -1e-320, fractions.Fraction(1, BEYOND)],
    arguments.nonnegative: [*NOT_FLOATS, *INFINITE, -1e-320, -1],
    arguments.open_unit: [*NOT_FLOATS, *INFINITE, 0, 1, 1.5, fractions.Fraction(2**60 - 1, 2**60)],
    arguments.decay: [*NOT_FLOATS, *INFINITE, -0.1, 1],
    arguments.noise_multiplier: [*NOT_FLOATS, *INFINITE, -1, 5e-324, 1e-101, 1e101],
    arguments.sampling_rate: [*NOT_FLOATS, *INFINITE, 0, 1.0000001],
    arguments.boolean: [0, 1, 1.0, None, "True", np.True_, [], Unprintable()],
    arguments.scalar: [
        math.nan, math.inf, np.float32("inf"), [], {}, b"x", 1j, object(), np.ones(2),
        decimal.Decimal(1), fractions.Fraction(BEYOND), Unprintable(),
    ],
    arguments.text: NO_SENTENCES,
    arguments.sentence: NO_SENTENCES,
    arguments.sentences: ["a lone string", None, 7, iter(["a"]), ["a", ""], [["a"]], [b"a"], b"a"],
}  # fmt: skip


def kind(value):
    """For the names of cases: some values have no representation."""
    return type(value).__name__


def by_name(table):
    return [
        pytest.param(call, item, id=f"{call.__name__}-{number}")
        for call, items in table.items()
        for number, item in enumerate(items)
    ]


def one_sentence(error, name="some_name"):
    """The message of a refusal: an expectation, what came, in one line."""
    message = str(error.value)
    assert re.match(rf"Expected {re.escape(name)}\b.*, got .*\.", message), message
    assert "\n" not in message
    return message


@each("call, pair", by_name(PASS))
def test_valid_values_become_plain_values(call, pair):
    value, expected = pair
    result = call("some_name", value)
    assert result == expected and type(result) is type(expected)


@each("call, value", by_name(FAIL))
def test_invalid_values_get_one_sentence(call, value):
    with pytest.raises(ValueError) as refused:
        call("some_name", value)
    if not isinstance(value, list):  # Of a list, it may be an item that is refused.
        one_sentence(refused)


def test_positive_takes_infinity_only_where_it_is_allowed():
    assert arguments.positive("clip", math.inf, allow_inf=True) == math.inf
    for value in (-math.inf, 0, math.nan):
        with pytest.raises(ValueError, match="Expected clip > 0, got"):
            arguments.positive("clip", value, allow_inf=True)
    with pytest.raises(ValueError, match="Expected clip > 0 and finite, got inf"):
        arguments.positive("clip", math.inf)


@each("value", [-1.0000001, 2.0000001, *INFINITE, *NOT_FLOATS], ids=kind)
def test_within_rejects_what_is_outside(value):
    with pytest.raises(ValueError) as refused:
        arguments.within("share", value, -1, 2)
    assert "in [-1, 2]" in one_sentence(refused, "share")


@each(
    "value, number",
    [
        (3, 3),
        (3.0, 3),
        (np.float32(3), 3),
        (np.int64(3), 3),
        (Size.THREE, 3),
        (fractions.Fraction(6, 2), 3),
        (1e15, 10**15),
        (2**63 + 1, 2**63 + 1),
        (np.uint64(2**64 - 1), 2**64 - 1),
    ],
)
def test_whole_numbers_are_exact(value, number):
    result = arguments.whole("steps", value, at_least=3)
    assert result == number and type(result) is int


@each("value", [2, 2.5, -1, fractions.Fraction(2**61 + 1, 2), *INFINITE, *NOT_FLOATS], ids=kind)
def test_other_numbers_are_not_whole(value):
    with pytest.raises(ValueError) as refused:
        arguments.whole("steps", value, at_least=3)
    assert "to be a whole number >= 3" in one_sentence(refused, "steps")


def test_updates_end_where_floats_count_no_further():
    assert arguments.updates("steps", 2**53, at_least=1) == 2**53
    for value in (2**53 + 1, 2.0**54, 1e300):
        with pytest.raises(ValueError, match=r"Expected steps <= 2\*\*53, got"):
            arguments.updates("steps", value, at_least=1)
    with pytest.raises(ValueError, match="whole number >= 1, got 0"):
        arguments.updates("steps", 0, at_least=1)


@each("value", [5.0, np.float64(5), fractions.Fraction(5), *NO_NUMBERS], ids=kind)
def test_an_integer_is_no_other_number(value):
    with pytest.raises(TypeError) as refused:
        arguments.integer("seed", value, at_least=0)
    assert "to be an integer >= 0" in one_sentence(refused, "seed")


@each(
    "value",
    [True, 1.0, "Red", "", None, ["red"], {}, {"red"}, np.int64(1), np.ones(2), BEYOND],
    ids=kind,
)
def test_another_choice_is_rejected(value):
    with pytest.raises(ValueError) as refused:
        arguments.choice("norm", value, ("red", 1))
    assert "norm to be one of 'red', 1, got " in one_sentence(refused, "norm")
