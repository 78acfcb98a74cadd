"""Options: the fields of specs, each with its help, range and use.

    learning_rate: float = option(1.0, "Learning rate at the start.", check=arguments.positive)

Checks, flags and comparisons of settings all come from there.
"""

import dataclasses
import functools
import types
import typing
from collections.abc import Callable

from tfdpnorm import arguments

_KEY = "option"


@dataclasses.dataclass(frozen=True)
class Condition:
    """When an option has any effect: in words and flags, such as "--plateau=private".

    `holds` says for a run's settings, a dict, whether it has one.
    """

    needs: str
    holds: Callable


def when(name, *values):
    """Returns the `Condition` that another option has one of some values."""
    return Condition(
        " or ".join(f"--{name}={value}" for value in values),
        lambda settings: settings.get(name) in values,
    )


@dataclasses.dataclass(frozen=True)
class Option:
    """The metadata of a field; `option` makes one.

    Attributes:
        help: What it is, in a sentence; the help of its flag.
        check: Function (name, value) that raises ValueError for a value out of range, such as
            those of `tfdpnorm.arguments`; None for no check.
        words: Tuple of the words that it takes in the place of a number.
        flag: Whether it is a flag, or the flag's name if that is not the field's.
        instead_of: Name of another field; exactly one of the two is given.
        measured: Whether it changes what a run measures.
        only_if: `Condition` of its having any effect; None where it always has.
    """

    help: str = ""
    check: Callable | None = None
    choices: tuple | None = None
    words: tuple = ()
    flag: bool | str = True
    instead_of: str | None = None
    measured: bool = True
    only_if: Condition | None = None

    def has_effect(self, *settings):
        """Whether it has any effect in a run with one of these settings, dicts."""
        return self.only_if is None or any(map(self.only_if.holds, settings))


def option(default=dataclasses.MISSING, help="", *, check=None, at_least=None, **more):
    """Returns a field of a spec, for the body of its class; without a default it must be given.

    `at_least` is, for whole numbers, the smallest, instead of a `check`. See `Option`.
    """
    if at_least is not None:
        check = functools.partial(arguments.whole, at_least=at_least)
    value = Option(help=help, check=check, **more)
    return dataclasses.field(default=default, metadata={_KEY: value})


def options(spec):
    """Returns a dict from the name of each field of a spec, or of its class, to its `Option`."""
    return {field.name: field.metadata[_KEY] for field in dataclasses.fields(spec)}


def type_of(spec, name):
    """Returns the pair (first type of a field that is not None, whether it may be None)."""
    (annotation,) = [field.type for field in dataclasses.fields(spec) if field.name == name]
    union = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else ()
    kinds = [kind for kind in union if kind is not types.NoneType] or [annotation]
    return kinds[0], types.NoneType in union


def defaults_of(spec_class):
    """Returns a dict from the name of each field to its default, or `dataclasses.MISSING`."""
    return {field.name: field.default for field in dataclasses.fields(spec_class)}


def check_fields(spec):
    """Raises ValueError for a field of a spec that its option does not allow."""
    for name, its_option in options(spec).items():
        value = getattr(spec, name)
        if (value is None and type_of(spec, name)[1]) or value in its_option.words:
            continue
        if its_option.choices is not None:
            arguments.choice(name, value, its_option.choices)
        if its_option.check is not None:
            its_option.check(name, value)
    for name, its_option in options(spec).items():
        if its_option.instead_of is not None:
            _check_exactly_one(spec, its_option.instead_of, name)


def _check_exactly_one(spec, first, second):
    present = [name for name in (first, second) if getattr(spec, name) is not None]
    if len(present) != 1:
        raise ValueError(
            f"Expected exactly one of {first} and {second}, got "
            f"{' and '.join(present) or 'neither'}."
        )
