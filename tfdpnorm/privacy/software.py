"""The versions of the software: packages, and Python."""

import functools
import importlib.metadata
import platform

from tfdpnorm._version import __version__

_PACKAGES = ("tensorflow", "keras", "tensorflow-privacy", "dp-accounting", "numpy")


@functools.lru_cache(maxsize=1)
def _versions():
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def package_versions():
    """Returns the versions of the packages that a result depends on, None for one not there."""
    return dict(_versions())


def software():
    """Returns the versions of this library, of those packages that are there, and of Python."""
    there = {name: version for name, version in package_versions().items() if version is not None}
    return {"tfdpnorm": __version__, **there, "python": platform.python_version()}
