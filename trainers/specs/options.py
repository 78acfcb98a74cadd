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


def again(spec, name, default=dataclasses.MISSING, **changes):
    """Returns a field like one of another class of specs, but for its default and its `Option`."""
    field = next(field for field in _all_fields(spec) if field.name == name)
    default = field.default if default is dataclasses.MISSING else default
    value = dataclasses.replace(field.metadata[_KEY], **changes)
    return dataclasses.field(default=default, metadata={_KEY: value})


class Spec:
    """What one run is, as plain values: the base of frozen dataclasses whose fields are options.

    A field without an option is a part, a spec itself. Flags and records know nothing of parts:
    for them the settings are flat.
    """

    def __post_init__(self):
        for field in _own_options(self):
            _check(field, getattr(self, field.name))
        for field in _own_options(self):
            rivals = (field.metadata[_KEY].instead_of, field.name)
            present = [name for name in rivals if name and getattr(self, name) is not None]
            if rivals[0] and len(present) != 1:
                raise ValueError(
                    f"Expected exactly one of {' and '.join(rivals)}, got "
                    f"{' and '.join(present) or 'neither'}."
                )

    @classmethod
    def of(cls, **settings):
        """Returns a spec of flat settings; those of a part go into the part."""
        for part in _parts(cls):
            names = [name for name in options(part.type) if name in settings]
            settings[part.name] = part.type.of(**{name: settings.pop(name) for name in names})
        return cls(**settings)

    @property
    def settings(self):
        """All settings, a flat dict, as records have them."""
        found = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            found |= {field.name: value} if _KEY in field.metadata else value.settings
        return found

    def replaced(self, **changes):
        """Returns a spec in which some settings differ."""
        return self.of(**{**self.settings, **changes})


def _own_options(spec):
    return [field for field in dataclasses.fields(spec) if _KEY in field.metadata]


def _parts(spec):
    return [field for field in dataclasses.fields(spec) if _KEY not in field.metadata]


def _all_fields(spec):
    """The fields of a spec, or of its class, and those of its parts in the place of these."""
    for field in dataclasses.fields(spec):
        yield from [field] if _KEY in field.metadata else _all_fields(field.type)


def options(spec):
    """Returns a dict from the name of each setting of a spec, or of its class, to its `Option`."""
    return {field.name: field.metadata[_KEY] for field in _all_fields(spec)}


def defaults_of(spec):
    """Returns a dict from the name of each setting to its default, or `dataclasses.MISSING`."""
    return {field.name: field.default for field in _all_fields(spec)}


def type_of(spec, name):
    """Returns the pair (first type of a setting that is not None, whether it may be None)."""
    return _type(next(field for field in _all_fields(spec) if field.name == name))


def _type(field):
    union = typing.get_args(field.type) if isinstance(field.type, types.UnionType) else ()
    kinds = [kind for kind in union if kind is not types.NoneType] or [field.type]
    return kinds[0], types.NoneType in union


def _check(field, value):
    """Raises ValueError for a value that the option of a field does not allow."""
    its_option = field.metadata[_KEY]
    if (value is None and _type(field)[1]) or value in its_option.words:
        return
    if its_option.choices is not None:
        arguments.choice(field.name, value, its_option.choices)
    if its_option.check is not None:
        its_option.check(field.name, value)
