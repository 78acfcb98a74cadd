"""One test over many cases lists every one that fails."""

import pytest

from tests.each import each


def test_all_cases_run_and_every_failure_is_listed():
    seen = []

    @each("number, limit", [(1, 2), (3, 2), pytest.param(2, 2), (7, 2)])
    def check(fixture, number, limit):
        seen.append(number)
        assert number <= limit, fixture

    with pytest.raises(AssertionError, match="2 of 4 cases failed:\n  1: 3, 2: .*\n  3: 7, 2: "):
        check(fixture="shared")
    assert seen == [1, 3, 2, 7]


def test_a_missing_error_is_a_failure_of_its_case():
    @each("value", ["0", "x"], ids=lambda value: f"<{value}>")
    def check(value):
        with pytest.raises(ValueError):
            int(value)

    with pytest.raises(AssertionError, match="1 of 2 cases failed:\n  0: <0>: Failed: DID NOT"):
        check()


def test_stacked_loops_are_a_product():
    seen = []

    @each("one", "ab")
    @each("other", [0, 1])
    def check(one, other):
        seen.append((one, other))

    check()
    assert seen == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]


def test_marked_cases_and_no_cases_are_rejected():
    with pytest.raises(ValueError, match="without marks"):
        each("value", [pytest.param(1, marks=pytest.mark.slow)])
    with pytest.raises(ValueError, match="Expected cases, got none"):
        each("value", [])
