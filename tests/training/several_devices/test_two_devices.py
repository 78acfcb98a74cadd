"""Updates on two devices, in a process that has two."""

import os
import sys

from tests.programs import run

INSIDE = "tests/training/several_devices/on_two_devices.py"


def test_updates_on_two_devices():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", INSIDE]
    result = run(command, os.environ, timeout=900)
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
