"""What a result was made with: settings, versions of packages, commit of the source."""

import importlib.metadata
import pathlib
import subprocess

import tfdpnorm
from tfdpnorm._version import __version__

_PACKAGES = ("tensorflow", "keras", "tf-keras", "tensorflow-privacy", "dp-accounting", "numpy")


def made_with(settings):
    """Returns the fields of a record that say what a result was made with.

    Args:
        settings: Dict; records have it as "flags".
    """
    return {
        "flags": settings,
        "versions": {"tfdpnorm": __version__, **package_versions()},
        "commit": source_commit(),
    }


def package_versions():
    """Returns the versions of the packages that a result depends on."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def source_commit():
    """Returns the commit of the code, "+changes" if it is not clean; None outside of git."""
    trainers = pathlib.Path(__file__).parents[1]
    code = [str(trainers), str(pathlib.Path(tfdpnorm.__file__).parent)]

    def git(*arguments):
        return subprocess.run(
            ["git", "-C", str(trainers), *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        commit = git("rev-parse", "--short=12", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no", "--", *code)
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+changes" if changed else "")
