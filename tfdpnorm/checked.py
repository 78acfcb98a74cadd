"""Dataclasses whose fields are checked where a value is made.

@dataclasses.dataclass(frozen=True)
class Updates(Checked):
    count: int = field(arguments.whole, 1, at_least=1)
"""

import dataclasses
import functools

_KEY = "check"


def field(check, default=dataclasses.MISSING, **more):
    """Returns a field whose value is replaced by `check(name, value, **more)`.

    Args:
        check: One of `tfdpnorm.arguments`, or a function like them.
        default: None as a default is a value that needs no check.
        **more: Further arguments of `check`.
    """
    return dataclasses.field(default=default, metadata={_KEY: functools.partial(check, **more)})


class Checked:
    """The base of a dataclass with fields made by `field`."""

    def __post_init__(self):
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if _KEY in each.metadata and not (value is None and each.default is None):
                self._set(each.name, each.metadata[_KEY](each.name, value))

    def _set(self, name, value):
        object.__setattr__(self, name, value)
