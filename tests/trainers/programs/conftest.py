"""Programs run as they are from a shell: inside this process where that is enough, else apart."""

import os
import pathlib
import subprocess
import sys
import types

import pytest

from tests.programs import run_main
from trainers import (
    audit,
    davody_dp,
    davody_weight_noise,
    defaults,
    demo,
    ermis_accountants,
    ermis_variational_dropout,
    finetune,
    klause_landscape,
    klause_scalenorm,
    method_mismatch,
    per_person,
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
    "defaults": defaults,
    "demo": demo,
    "ermis_accountants": ermis_accountants,
    "ermis_variational_dropout": ermis_variational_dropout,
    "finetune": finetune,
    "klause_landscape": klause_landscape,
    "klause_scalenorm": klause_scalenorm,
    "method_mismatch": method_mismatch,
    "per_person": per_person,
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

    def run(program, *arguments):
        return run_main(PROGRAMS[program], arguments, monkeypatch, capsys)

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
