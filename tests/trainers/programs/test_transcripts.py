"""What programs make of command lines: a spec, or a mistake in one line, as an approved text.

`transcripts.txt` has command lines and what came of each: the cell that would be trained and how
its spec differs from that of the program's first command, or the error. To change it, edit or add
lines that begin with "$", and run

    APPROVE=yes pytest tests/trainers/programs/test_transcripts.py
"""

import os
import pathlib

import pytest

from tests.trainers.test_approved_cells import said
from trainers import registry

APPROVED = pathlib.Path(__file__).with_name("transcripts.txt")
COMMANDS = [line[2:] for line in APPROVED.read_text("utf-8").splitlines() if line[:2] == "$ "]


class _Trained(ValueError):
    """In place of a training."""


@pytest.fixture
def outcome(main, toy_sets, monkeypatch, tmp_path):
    """Returns a function from a command line to what comes of it, a list of lines."""
    monkeypatch.chdir(tmp_path)
    real, specs, first = registry.run_cell, [], {}

    def record(spec, **settings):
        specs.append(spec)
        raise _Trained

    def of(command):
        program, *arguments = command.split()
        # An untrained spec is approved of without reading data, unless that is asked for.
        is_run = "--steps=1" in arguments
        monkeypatch.setattr(registry, "run_cell", real if is_run else record)
        specs.clear()
        result = main(program, *arguments)
        if specs:
            found = said(specs[0])
            begun = first.setdefault(program, found)
            changed = {
                name: found.get(name)
                for name in {**begun, **found}
                if found is begun or found.get(name) != begun.get(name)
            }
            return [f"  {name}: {value}" for name, value in changed.items()]
        assert result.code not in (0, None) and "Traceback" not in result.err, command
        shown = result.err if isinstance(result.code, int) else f"{result.code}\n{result.err}"
        lines = shown.replace(str(tmp_path), "HERE").strip().splitlines()
        assert len(lines) <= 2, lines
        return [f"  exit {result.code if isinstance(result.code, int) else 1}", *lines]

    return of


def test_programs_answer_as_approved(outcome, tmp_path):
    found = []
    for command in COMMANDS:
        found += [f"$ {command}", *outcome(command)]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    if os.environ.get("APPROVE"):
        APPROVED.write_text("\n".join(found) + "\n", "utf-8")
    assert found == APPROVED.read_text("utf-8").splitlines()
