"""Programs run as they are from a shell: inside this process where that is enough, else apart."""

import importlib
import os
import subprocess
import sys
import types

import pytest

from tests.programs import ROOT, run_main


@pytest.fixture
def main(monkeypatch, capsys):
    """Returns a function (program, *arguments) -> outcome with code, out, err, warnings.

    The program runs in this process, through absl and with its own flags only.
    """

    def run(program, *arguments):
        module = importlib.import_module(f"trainers.{program}")
        return run_main(module, arguments, monkeypatch, capsys)

    return run


@pytest.fixture
def shell():
    """Returns a function (program, *arguments) -> outcome with code, out, err of `python -m`."""

    def run(program, *arguments, **environment):
        done = subprocess.run(
            [sys.executable, "-m", f"trainers.{program}", *map(str, arguments)],
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=300,
        )
        return types.SimpleNamespace(code=done.returncode, out=done.stdout, err=done.stderr)

    return run
