"""One test over many cases: all of them run, and the message lists those that fail."""

import functools
import inspect

import pytest
from _pytest.mark.structures import ParameterSet

from tests.clean_keras import reset_keras

_FAILURES = (Exception, pytest.fail.Exception)
_MOST_SHOWN = 20


def each(names, cases, ids=None):
    """Runs a test function once for each case, as one test.

    For many cheap cases of one property. Use `pytest.mark.parametrize` where a case takes longer
    than about a second, is slow, or needs fixtures of its own: here the cases share the fixtures.

    Args:
        names: Names of the function's parameters, with commas between them, or a sequence.
        cases: Their values: tuples if there are several names; `pytest.param` without marks works.
        ids: Function from a value, or from a case, to its name in the message.

    Raises:
        AssertionError: from the first failure, with one line for each case that failed.
    """
    names = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
    cases = [_values(case, len(names)) for case in cases]
    if not cases:
        raise ValueError("Expected cases, got none.")

    def decorate(test):
        @functools.wraps(test)
        def of_all_cases(*args, **fixtures):
            failures = {}
            for number, values in enumerate(cases):
                reset_keras()
                try:
                    test(*args, **fixtures, **dict(zip(names, values, strict=True)))
                except _FAILURES as error:
                    failures[f"{number}: {_name(values, ids)}"] = error
            if failures:
                raise AssertionError(_listed(failures, len(cases))) from next(
                    iter(failures.values())
                )

        signature = inspect.signature(test)
        kept = [p for name, p in signature.parameters.items() if name not in names]
        of_all_cases.__signature__ = signature.replace(parameters=kept)
        return of_all_cases

    return decorate


def _values(case, count):
    if isinstance(case, ParameterSet):
        if case.marks:
            raise ValueError(f"Expected a case without marks, got {case}. Use parametrize.")
        return case.values
    return (case,) if count == 1 else tuple(case)


def _name(values, ids):
    return ", ".join(str(ids(value)) if ids else _short(value) for value in values)


def _short(value):
    text = value.__name__ if hasattr(value, "__name__") else repr(value)
    return text if len(text) < 60 else text[:57] + "..."


def _listed(failures, count):
    lines = [f"{len(failures)} of {count} cases failed:"]
    for case, error in list(failures.items())[:_MOST_SHOWN]:
        first = str(error).strip().partition("\n")[0]
        lines.append(f"  {case}: {type(error).__name__}: {first}")
    if len(failures) > _MOST_SHOWN:
        lines.append(f"  and {len(failures) - _MOST_SHOWN} more")
    return "\n".join(lines)
