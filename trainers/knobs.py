"""Knobs: the fields of specs, each with all that is known of it.

A field says in one line what it is, which values it takes, whether it is a flag, whether it is an
argument of `make_private`, and whether it changes what is measured:

    learning_rate: float = knob(1.0, "Learning rate at the start.", check=arguments.positive)

Checks, flags, arguments and comparisons of settings all come from there.
"""

import dataclasses
import functools
import types
import typing
from collections.abc import Callable

from tfdpnorm import arguments

_KEY = "knob"


@dataclasses.dataclass(frozen=True)
class Condition:
    """When a field has any effect.

    Attributes:
        needs: What gives it one, in words and flags, such as "--plateau=private".
        holds: Function of a run's settings (a dict) that says whether it has one.
    """

    needs: str
    holds: Callable


@dataclasses.dataclass(frozen=True)
class Knob:
    """What is known of a field; `knob` makes one.

    Attributes:
        help: What it is, in a sentence; the help of its flag.
        check: Function (name, value) that raises ValueError for a value out of range, such as
            those of `tfdpnorm.arguments`; None for no check.
        choices: Tuple of the values that it takes, or a function that returns them where they can
            become more; None for any.
        flag: Whether it is a flag, or the flag's name if that is not the field's.
        instead_of: Name of another field; exactly one of the two is given.
        make_private: Whether `make_private` takes it as an argument of the same name.
        measured: Whether it changes what a run measures.
        only_if: `Condition` of its having any effect; None where it always has.
    """

    help: str = ""
    check: Callable | None = None
    choices: tuple | Callable | None = None
    flag: bool | str = True
    instead_of: str | None = None
    make_private: bool = False
    measured: bool = True
    only_if: Condition | None = None


def knob(
    default=dataclasses.MISSING,
    help="",
    *,
    check=None,
    at_least=None,
    choices=None,
    flag=True,
    **more,
):
    """Returns a field of a spec, for the body of its class.

    Args:
        default: Of the field; by default it must be given.
        help: See `Knob`.
        check: See `Knob`.
        at_least: For whole numbers, instead of `check`: the smallest.
        choices: See `Knob`.
        flag: See `Knob`.
        **more: The other attributes of `Knob`.
    """
    if at_least is not None:
        check = functools.partial(arguments.whole, at_least=at_least)
    value = Knob(help=help, check=check, choices=choices, flag=flag, **more)
    return dataclasses.field(default=default, metadata={_KEY: value})


def again(part, name, default=dataclasses.MISSING, **changes):
    """Returns a field of a part anew, for a spec in which it differs.

    Args:
        part: Class that has the field.
        name: Of the field.
        default: Its default in the spec.
        **changes: Attributes of `Knob` that differ.
    """
    (field,) = [field for field in dataclasses.fields(part) if field.name == name]
    value = dataclasses.replace(field.metadata[_KEY], **changes)
    return dataclasses.field(default=default, metadata={_KEY: value})


def knobs(spec):
    """Returns a dict from the name of each field of a spec, or of its class, to its `Knob`."""
    # A plain field is no flag: nobody has said what it is.
    plain = Knob(flag=False)
    return {field.name: field.metadata.get(_KEY, plain) for field in dataclasses.fields(spec)}


def choices_of(value):
    """Returns the choices of a `Knob` now, a tuple, or None for any."""
    return tuple(value.choices()) if callable(value.choices) else value.choices


def has_effect(value, *settings):
    """Whether a field with this `Knob` has any effect in a run with one of these settings."""
    return value.only_if is None or any(map(value.only_if.holds, settings))


def type_of(spec, name):
    """Returns the pair (type of a field without None, whether it may be None)."""
    (annotation,) = [field.type for field in dataclasses.fields(spec) if field.name == name]
    parts = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else ()
    kinds = [part for part in parts if part is not types.NoneType] or [annotation]
    return kinds[0], types.NoneType in parts


def defaults_of(spec_class):
    """Returns a dict from the name of each field to its default, or `dataclasses.MISSING`."""
    return {field.name: field.default for field in dataclasses.fields(spec_class)}


def make_private_arguments(spec):
    """Returns the arguments of `make_private` that are fields of a spec, a dict."""
    return {name: getattr(spec, name) for name, value in knobs(spec).items() if value.make_private}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a spec: a frozen dataclass of knobs, which checks them when it is made.

    A spec inherits the parts that it is made of. A part that checks fields against each other does
    so in `__post_init__`, after `super().__post_init__()`.
    """

    def __post_init__(self):
        all_knobs = knobs(self)
        for name, value in all_knobs.items():
            self._check(name, value)
        for name, value in all_knobs.items():
            if value.instead_of is not None:
                self._exactly_one(value.instead_of, name)

    def _check(self, name, its_knob):
        value = getattr(self, name)
        if value is None and type_of(self, name)[1]:
            return
        choices = choices_of(its_knob)
        if choices is not None:
            arguments.choice(name, value, choices)
        if its_knob.check is not None:
            its_knob.check(name, value)

    def _exactly_one(self, first, second):
        given = [name for name in (first, second) if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"Expected exactly one of {first} and {second}, got "
                f"{' and '.join(given) or 'neither'}."
            )
