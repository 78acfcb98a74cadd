"""The Makefile: the Python that it picks, and the environment that it makes."""

import os
import shutil
import subprocess

import pytest

from tests import programs

SUPPORTED = "TensorFlow 2.21 needs a Python of 3.12 3.13 3.11 3.10, and found "


# --- the choice of a Python ---


def fake_python(path, version):
    """An executable that answers like a Python of that version; None: one that fails."""
    body = "exit 127" if version is None else f"echo {version}"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def check_python(*arguments, path=None, target="check-python", pyenv="/nowhere"):
    if shutil.which("make") is None:
        pytest.skip("there is no make here")
    hidden = (
        "MAKE",
        "MFLAGS",
        "GNUMAKEFLAGS",
        "PYTHON",
        "PYTEST_ARGS",
        "LOCKED",
        "TENSORFLOW",
        "KERAS",
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
    environment["PYENV_ROOT"] = str(pyenv)
    if path is not None:
        environment["PATH"] = f"{path}:/usr/bin:/bin"
    return programs.run(
        ["make", "--no-print-directory", target, *arguments], environment, timeout=60
    )


def the_sentence(result):
    assert result.returncode != 0
    assert result.stdout == ""
    own, makes = result.stderr.splitlines()
    assert makes.startswith("make: ***")
    assert own.startswith(SUPPORTED)
    assert own.endswith(".")
    return own


@pytest.mark.parametrize("version", ["3.14.0", "3.9.18", "2.7.18", "3.1.5", "12.1.0"])
def test_makefile_rejects_a_python_that_cannot_work(tmp_path, version):
    python = fake_python(tmp_path / "some python", version)
    sentence = the_sentence(check_python(f"PYTHON={python}"))
    assert f"{python} (Python {version})" in sentence


def test_makefile_rejects_a_python_that_does_not_run(tmp_path):
    python = fake_python(tmp_path / "shim", None)
    assert "does not run" in the_sentence(check_python(f"PYTHON={python}"))


def test_makefile_names_all_it_found(tmp_path):
    fake_python(tmp_path / "python3.11", None)
    fake_python(tmp_path / "python3.10", None)
    for name in ("python3.12", "python3.13"):
        fake_python(tmp_path / name, None)
    fake_python(tmp_path / "python3", "3.14.1")
    fake_python(tmp_path / "python", "3.9.18")
    sentence = the_sentence(check_python(path=tmp_path))
    assert "python3 (Python 3.14.1), python (Python 3.9.18)" in sentence
    assert "python3.11 (" not in sentence


NAMES = ("python3.11", "python3.10", "python3.12", "python3.13", "python3", "python")


@pytest.mark.parametrize("name", NAMES)
def test_makefile_passes_over_what_cannot_work(tmp_path, name):
    for other, version in zip(NAMES, (None, None, None, None, "3.14.1", "3.9.18"), strict=True):
        fake_python(tmp_path / other, version)
    fake_python(tmp_path / name, "3.10.4")
    result = check_python(path=tmp_path)
    assert (result.returncode, result.stdout) == (0, f"{name} (Python 3.10.4)\n"), result.stderr


def pythons_at(folder, **versions):
    """The folder, with fakes of all NAMES; `versions` says what those that work answer."""
    folder.mkdir(exist_ok=True)
    for name in NAMES:
        fake_python(folder / name, versions.get(name.replace(".", "_")))
    return folder


@pytest.mark.parametrize(
    ("given", "there", "taken"),
    [
        ([], (10, 11, 12, 13), 12),
        ([], (10, 11), 11),
        (["PYTHON=3.10"], (10, 11, 12), 10),
        (["TENSORFLOW=2.15"], (10, 11, 12, 13), 11),
        (["TENSORFLOW=2.18"], (10, 13), 10),
    ],
)
def test_the_python_suits_the_tensorflow(tmp_path, given, there, taken):
    versions = {f"python3_{minor}": f"3.{minor}.2" for minor in there}
    result = check_python(*given, path=pythons_at(tmp_path / "bin", **versions))
    assert result.stdout == f"python3.{taken} (Python 3.{taken}.2)\n", result.stderr


@pytest.mark.parametrize("given", [["TENSORFLOW=2.15"], ["PYTHON=3.10"]])
def test_another_python_is_not_taken_instead(tmp_path, given):
    path = pythons_at(tmp_path / "bin", python3_12="3.12.2")
    result = check_python(*given, path=path)
    assert result.returncode != 0 and "name one with PYTHON=" in result.stderr


def test_pythons_of_pyenv_are_found_after_the_path(tmp_path):
    path = pythons_at(tmp_path / "bin")
    installed = tmp_path / "pyenv/versions/3.12.4/bin"
    installed.mkdir(parents=True)
    fake_python(installed / "python", "3.12.4")
    result = check_python(path=path, pyenv=tmp_path / "pyenv")
    assert result.stdout == f"{installed / 'python'} (Python 3.12.4)\n", result.stderr
    pythons_at(tmp_path / "bin", python3_13="3.13.0")
    result = check_python(path=path, pyenv=tmp_path / "pyenv")
    assert result.stdout == "python3.13 (Python 3.13.0)\n", result.stderr


# --- the environment ---


@pytest.fixture
def checkout(tmp_path):
    """A folder with what the Makefile reads, and with a fake Python, whose installation fails."""
    fake_python(tmp_path / "fake", "3.11.7")
    for name in ("Makefile", "setup.py", "pyproject.toml"):
        shutil.copy(programs.ROOT / name, tmp_path)
    (tmp_path / "tfdpnorm").mkdir()
    shutil.copy(programs.ROOT / "tfdpnorm" / "_version.py", tmp_path / "tfdpnorm")
    shutil.copytree(programs.ROOT / "requirements", tmp_path / "requirements")
    return tmp_path


def made(checkout, target, *arguments):
    python = f"PYTHON={checkout / 'fake'}"
    return check_python("-C", checkout, python, *arguments, target=target)


@pytest.mark.parametrize("name", [".venv", "my environment"])
def test_an_environment_of_the_users_own_is_kept(checkout, name):
    own = checkout / name / "bin" / "python"
    own.parent.mkdir(parents=True)
    fake_python(own, "3.11.7")
    for target in ("env", "demo"):
        result = made(checkout, target, f"VENV={name}")
        assert result.returncode != 0 and own.exists()
        assert result.stderr.splitlines()[0] == (
            f"{name} is there, but make did not make it (it has no packages.stamp): move it away, "
            "or give VENV=another-folder."
        )
    assert made(checkout, "clean", f"VENV={name}").returncode == 0 and own.exists()


def test_an_interrupted_installation_starts_from_nothing(checkout):
    first = made(checkout, "env")
    assert "The installation did not finish" in first.stderr
    (checkout / ".venv" / "half").write_text("installed")
    second = made(checkout, "env")
    assert "The installation did not finish" in second.stderr
    assert not (checkout / ".venv" / "half").exists()
    assert made(checkout, "clean").returncode == 0 and not (checkout / ".venv").exists()


@pytest.mark.parametrize("is_there", [True, False])
def test_a_copied_environment_is_made_again_with_its_python(checkout, is_there):
    """With the one that made it, which may be on no PATH; or else with one of its version."""
    own, base = checkout / ".venv" / "bin" / "python", checkout / "base"
    own.parent.mkdir(parents=True)
    fake_python(own, f"$(case $2 in *_base_*) echo {base} ;; *) echo 3.11.5 ;; esac)")
    (checkout / ".venv" / "packages.stamp").write_text("of another folder")
    fake_python(base, "3.11.5" if is_there else None)
    pythons_at(checkout / "bin", python3_11="3.11.7", python3_12="3.12.1")
    result = check_python("-C", checkout, path=checkout / "bin", target="env")
    version = "3.11.5" if is_there else "3.11.7"
    assert f"(Python {version})" in result.stdout, result.stderr


def test_two_checkouts_may_share_an_environment(checkout):
    """Its packages are those of the lock, wherever `make` was called."""
    shared, other = checkout / "shared", checkout / "other"
    own = shared / "bin" / "python"
    own.parent.mkdir(parents=True)
    fake_python(own, "3.11.5")
    shutil.copytree(checkout, other, ignore=shutil.ignore_patterns("other", "shared"))
    for folder in (checkout, other):
        (shared / "packages.stamp").write_text(
            f"3.11.5 {shared} {_cksum(folder / 'requirements/py311-tf2.21.lock')} "
            "requirements/py311-tf2.21.lock 2.21 \n"
        )
        result = check_python("-C", folder, f"VENV={shared}", target="env")
        assert "Installing" not in result.stdout and own.exists(), result.stderr


def _cksum(path):
    with path.open() as file:
        return subprocess.run(["cksum"], stdin=file, capture_output=True, text=True).stdout.strip()
