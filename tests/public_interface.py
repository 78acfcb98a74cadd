"""What the packages export: functions, classes and their public methods, by name."""

import functools
import importlib
import inspect

import tfdpnorm


def exported():
    """Yields (dotted name, function or class) for what is in `__all__` of a package."""
    for package in ("", *tfdpnorm._PACKAGES):
        module = importlib.import_module(f"tfdpnorm.{package}".rstrip("."))
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if callable(value) and not inspect.ismodule(value):
                yield f"{module.__name__}.{name}", value


def own_functions(value):
    """Yields (name, function) of an exported function, or of the public methods of a class.

    Of methods those that the class itself defines; `__init__` and `__call__` are public.
    """
    if not inspect.isclass(value):
        yield value.__name__, inspect.unwrap(value)
        return
    for name, member in vars(value).items():
        if name.startswith("_") and name not in ("__init__", "__call__"):
            continue
        if isinstance(member, (classmethod, staticmethod)):
            member = member.__func__
        elif isinstance(member, property):
            member = member.fget
        elif isinstance(member, functools.cached_property):
            member = member.func
        if inspect.isfunction(member):
            function = inspect.unwrap(member)
            if function.__module__ == value.__module__:
                yield name, function


def parameters(function):
    """Dict of the parameters of a function by name, without `self` and `cls`."""
    found = dict(inspect.signature(function).parameters)
    return {name: p for name, p in found.items() if name not in ("self", "cls")}
