"""Names of a package that are imported when they are first used."""

import importlib


def attributes(package, names, packages=()):
    """Returns the functions `__getattr__` and `__dir__` of a package whose names are lazy.

    Type checkers and editors do not run these; for them, the package lists the same names under
    `if TYPE_CHECKING:`. `names` is a dict from each name to the module that defines it; `packages`
    are those inside of the package that are attributes, too.
    """

    def __getattr__(name):
        if name in names:
            return getattr(importlib.import_module(names[name]), name)
        if name in packages:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def __dir__():
        return sorted(importlib.import_module(package).__all__)

    return __getattr__, __dir__
