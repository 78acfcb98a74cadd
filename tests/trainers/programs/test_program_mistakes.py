"""What a user gets wrong ends in one clear line on stderr, before anything is trained."""

import subprocess
import sys

import pytest

from tests.programs import ROOT

# A program in a process of its own that says at the end whether it has loaded TensorFlow.
_APART = """
import sys
from trainers import common, {0} as program
program.define_flags()
try:
    common.run_app(common.main_of(program))
except SystemExit as end:
    print(end.code, "tensorflow" in sys.modules)
"""


@pytest.mark.parametrize(
    "program, flags",
    [
        ("davody_dp", ["--epsilon=1"]),
        ("finetune", ["--epsilon=1", "--model=a.keras", "--export_dir=out"]),
        (
            "search",
            ["--experiment=davody_table5", "--cell=layer/eps=1", "--over=norm=none", "--epsilon=2"],
        ),
    ],
    ids=["davody_dp", "finetune", "search"],
)
def test_mistakes_are_found_before_tensorflow_is_loaded(tmp_path, program, flags):
    done = subprocess.run(
        [sys.executable, "-c", _APART.format(program), *flags, f"--data_dir={tmp_path}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stdout.split() == ["2", "False"], done.stderr
    assert f"in {tmp_path}, but there is none" in done.stderr


def test_a_foreign_file_among_the_records(main, tmp_path):
    (tmp_path / "package.json").write_text('{"experiment": "davody_table5"}')
    result = main("table", f"--results_dir={tmp_path}")
    assert result.code == 2
    (line,) = result.err.splitlines()
    assert "package.json" in line and "Move the file away" in line
