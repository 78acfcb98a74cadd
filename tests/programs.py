"""Programs that tests start."""

import contextlib
import socket
import subprocess
import sys
import types
import warnings
from pathlib import Path

from absl import app, flags

ROOT = Path(__file__).resolve().parents[1]


def free_ports(count):
    """Returns numbers of ports that nothing uses now, a list."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def run(command, environment, timeout):
    """Runs a command at the root of the checkout; its output is text."""
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout
    )


def run_main(module, arguments, monkeypatch, capsys):
    """Runs a program of trainers' kind in this process, through absl and with its own flags only.

    Args:
        module: With `define_flags`, and `main` or `spec`.
        arguments: Of the command line.
        monkeypatch: The fixture.
        capsys: The fixture.

    Returns:
        Outcome with code, out, err, warnings.
    """
    from trainers import common

    # Both would reach out of the test: into pytest's logging and faulthandler.
    monkeypatch.setattr(app.logging, "use_absl_handler", lambda: None)
    monkeypatch.setattr(app, "faulthandler", None)
    before = set(flags.FLAGS)
    module.define_flags()
    monkeypatch.setattr(sys, "argv", [f"{module.__name__}.py", *map(str, arguments)])
    capsys.readouterr()
    code = 0
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            try:
                common.run_app(common.main_of(module))
            except SystemExit as end:
                code = end.code or 0
    finally:
        for name in set(flags.FLAGS) - before - {"help", "helpshort", "helpfull", "helpxml"}:
            delattr(flags.FLAGS, name)
    out, err = capsys.readouterr()
    found = [str(w.message) for w in caught if w.category is UserWarning]
    return types.SimpleNamespace(code=code, out=out, err=err, warnings=found)
