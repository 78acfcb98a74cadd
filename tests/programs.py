"""Programs that tests start."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run(command, environment, timeout):
    """Runs a command at the root of the checkout; its output is text."""
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout
    )
