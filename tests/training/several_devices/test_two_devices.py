"""Updates on two devices, in a process that has two."""

import os
import sys

import pytest

from tests.programs import run

INSIDE = "tests/training/several_devices/on_two_devices.py"


def check_inside(marks):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", INSIDE, "-m", marks]
    result = run(command, os.environ, timeout=900)
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]


def test_updates_on_two_devices():
    check_inside("not slow")


@pytest.mark.slow
def test_more_updates_on_two_devices():
    check_inside("slow")
