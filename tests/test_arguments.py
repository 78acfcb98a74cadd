"""Checks of values: what passes becomes a plain Python value, what does not gets one sentence."""

import decimal
import enum
import fractions
import json
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


@each(
    "call, more",
    [
        (arguments.real, {}),
        (arguments.finite, {}),
        (arguments.positive, {}),
        (arguments.nonnegative, {}),
        (arguments.within, {"least": 1, "most": 2}),
        (arguments.open_unit, {}),
        (arguments.decay, {}),
        (arguments.noise_multiplier, {}),
        (arguments.sampling_rate, {}),
        (arguments.whole, {"at_least": 1}),
        (arguments.boolean, {}),
        (arguments.instance, {"kind": int}),
        (arguments.choice, {"allowed": ("a", "b")}),
    ],
)
@each("value", ["x", None])
def test_a_remedy_ends_every_rejection(call, more, value):
    with pytest.raises(ValueError) as refused:
        call("some_name", value, remedy="Do this.", **more)
    assert one_sentence(refused).endswith(". Do this.")


def test_a_rejection_says_what_came():
    error = arguments.refusal("steps", "to be even", 3, "Add one.")
    assert type(error) is ValueError
    assert str(error) == "Expected steps to be even, got 3. Add one."
    assert str(arguments.refusal("steps", "to be even", "3")) == (
        "Expected steps to be even, got '3'."
    )


@each("value", [Unprintable(), -(10**100_000)], ids=kind)
def test_a_rejection_survives_what_cannot_be_printed(value):
    message = str(arguments.refusal("steps", "to be even", value))
    assert message.startswith("Expected steps to be even, got ")


def test_positive_takes_infinity_only_where_it_is_allowed():
    assert arguments.positive("clip", math.inf, allow_inf=True) == math.inf
    for value in (-math.inf, 0, math.nan):
        with pytest.raises(ValueError, match="Expected clip > 0, got"):
            arguments.positive("clip", value, allow_inf=True)
    with pytest.raises(ValueError, match="Expected clip > 0 and finite, got inf"):
        arguments.positive("clip", math.inf)


@each("value", [-1, 2, np.float32(0.5), fractions.Fraction(1, 2)], ids=kind)
def test_within_takes_its_ends(value):
    assert arguments.within("share", value, -1, 2) == float(value)


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


def test_whole_compares_exactly_where_floats_do_not():
    least = -(2**63)
    assert arguments.whole("digest", least, at_least=least) == least
    with pytest.raises(ValueError, match="Expected digest to be a whole number"):
        arguments.whole("digest", least - 1, at_least=least)


def test_updates_end_where_floats_count_no_further():
    assert arguments.updates("steps", 2**53, at_least=1) == 2**53
    for value in (2**53 + 1, 2.0**54, 1e300):
        with pytest.raises(ValueError, match=r"Expected steps <= 2\*\*53, got"):
            arguments.updates("steps", value, at_least=1)
    with pytest.raises(ValueError, match="whole number >= 1, got 0"):
        arguments.updates("steps", 0, at_least=1)


@each("value", [5, np.int8(5), np.uint64(2**63), Size.THREE, BEYOND], ids=kind)
def test_an_integer_is_kept(value):
    result = arguments.integer("seed", value, at_least=0)
    assert result == value and type(result) is int


@each("value", [5.0, np.float64(5), fractions.Fraction(5), *NO_NUMBERS], ids=kind)
def test_an_integer_is_no_other_number(value):
    with pytest.raises(TypeError) as refused:
        arguments.integer("seed", value, at_least=0)
    assert "to be an integer >= 0" in one_sentence(refused, "seed")


def test_an_integer_below_the_least_is_a_wrong_value():
    for value in (-1, -BEYOND, np.int64(-7)):
        with pytest.raises(ValueError) as refused:
            arguments.integer("seed", value, at_least=0)
        one_sentence(refused, "seed")


@each("value, choice", [("red", "red"), (np.str_("red"), "red"), (Colour.RED, "red"), (1, 1)])
def test_a_choice_is_one_of_those_allowed(value, choice):
    for allowed in (("red", 1), ["red", 1], {"red": 0, 1: 0}):
        result = arguments.choice("norm", value, allowed)
        assert result == choice and type(result) is type(choice)


@each(
    "value",
    [True, 1.0, "Red", "", None, ["red"], {}, {"red"}, np.int64(1), np.ones(2), BEYOND],
    ids=kind,
)
def test_another_choice_is_rejected(value):
    with pytest.raises(ValueError) as refused:
        arguments.choice("norm", value, ("red", 1))
    assert "norm to be one of 'red', 1, got " in one_sentence(refused, "norm")


def test_an_instance_is_the_value_itself():
    value = fractions.Fraction(1, 3)
    assert arguments.instance("share", value, fractions.Fraction) is value
    with pytest.raises(ValueError, match="^Expected share to be a Fraction, got 0.5.$"):
        arguments.instance("share", 0.5, fractions.Fraction)
    with pytest.raises(ValueError, match="^Expected why to be an OSError, got 'x'.$"):
        arguments.instance("why", "x", OSError)


@each("value", [value for value, _ in PASS[arguments.scalar] if value is not BEYOND], ids=kind)
def test_scalars_come_back_from_json(value):
    scalar = arguments.scalar("value", value)
    assert json.loads(json.dumps(scalar, allow_nan=False)) == scalar
