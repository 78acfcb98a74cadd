"""Every exported function, class and method says the types of its parameters and its result."""

import inspect

from tests.public_interface import exported, own_functions, parameters

EMPTY = inspect.Parameter.empty


def without_hints(name, value):
    """What lacks a hint, one line each."""
    missing = []
    for method, function in own_functions(value):
        missing += [
            f"{name}: {method}({parameter})"
            for parameter, p in parameters(function).items()
            if p.annotation is EMPTY
        ]
        if inspect.signature(function).return_annotation is inspect.Signature.empty:
            missing.append(f"{name}: {method}() ->")
    return missing


def test_exported_names_have_type_hints():
    names = list(exported())
    assert len(names) > 100
    assert [line for name, value in names for line in without_hints(name, value)] == []


def test_a_missing_hint_is_noticed():
    class Loose:
        def half(self, number, by: int = 2):
            return number / by

        @property
        def size(self):
            return 1

    assert without_hints("Loose", Loose) == [
        "Loose: half(number)",
        "Loose: half() ->",
        "Loose: size() ->",
    ]
