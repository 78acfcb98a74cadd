"""Programs run as they are from a shell: inside this process where that is enough, else apart."""

import os
import pathlib
import subprocess
import sys
import types
import warnings

import pytest
from absl import app, flags

from trainers import (
    audit,
    common,
    davody_dp,
    davody_weight_noise,
    demo,
    ermis_accountants,
    ermis_variational_dropout,
    finetune,
    klause_landscape,
    klause_scalenorm,
    prepare_tiny_imagenet,
    search,
    sweep,
    table,
)

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAMS = {
    "audit": audit,
    "davody_dp": davody_dp,
    "davody_weight_noise": davody_weight_noise,
    "demo": demo,
    "ermis_accountants": ermis_accountants,
    "ermis_variational_dropout": ermis_variational_dropout,
    "finetune": finetune,
    "klause_landscape": klause_landscape,
    "klause_scalenorm": klause_scalenorm,
    "prepare_tiny_imagenet": prepare_tiny_imagenet,
    "search": search,
    "sweep": sweep,
    "table": table,
}


@pytest.fixture
def main(monkeypatch, capsys):
    """Returns a function (program, *arguments) -> outcome with code, out, err, warnings.

    The program runs in this process, through absl and with its own flags only.
    """
    # Both would reach out of the test: into pytest's logging and faulthandler.
    monkeypatch.setattr(app.logging, "use_absl_handler", lambda: None)
    monkeypatch.setattr(app, "faulthandler", None)

    def run(program, *arguments):
        module = PROGRAMS[program]
        before = set(flags.FLAGS)
        module.define_flags()
        monkeypatch.setattr(sys, "argv", [f"trainers/{program}.py", *map(str, arguments)])
        capsys.readouterr()
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("default")
                code = 0
                try:
                    common.run_app(module.main)
                except SystemExit as end:
                    code = end.code or 0
        finally:
            for name in set(flags.FLAGS) - before - {"help", "helpshort", "helpfull", "helpxml"}:
                delattr(flags.FLAGS, name)
        out, err = capsys.readouterr()
        return types.SimpleNamespace(
            code=code,
            out=out,
            err=err,
            warnings=[str(w.message) for w in caught if w.category is UserWarning],
        )

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
