"""Every example runs as it is printed, and states a guarantee."""

import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.mark.quick_cases("several_images_per_patient")  # `make docs` runs others
@pytest.mark.parametrize("name", EXAMPLES)
def test_runs_and_states_a_guarantee(name, tmp_path):
    if "import keras_hub" in (FOLDER / f"{name}.py").read_text():
        pytest.importorskip("keras_hub", reason="it needs the extra hub, and Keras 3")
    done = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "differential privacy" in done.stdout and "NO GUARANTEE" not in done.stdout
    assert "may train badly" not in done.stderr


def test_all_are_listed():
    page = (FOLDER / "README.md").read_text()
    assert all(f"[{name}.py]({name}.py)" in page for name in EXAMPLES)
