"""Rules of style that no tool checks: docstrings, wording of errors."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted([*ROOT.glob("tfdpnorm/**/*.py"), *ROOT.glob("trainers/**/*.py")])
SECTIONS = ("Args:", "Returns:", "Raises:", "Attributes:", "Call arguments:", "Yields:", "Warns:")


def faults(source):
    """Yields what breaks the rules in a module's source, one line each."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            name = getattr(node, "name", "module")
            yield from (f"{name}: {fault}" for fault in docstring_faults(ast.get_docstring(node)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.search(r"\bExpected\b.*, received\b", node.value):
                yield f'line {node.lineno}: "received" for "got"'


def docstring_faults(text):
    lines = (text or "").splitlines()
    for line, following in zip(lines, lines[1:], strict=False):
        if line.strip() in SECTIONS:
            indent = len(line) - len(line.lstrip())
            if len(following) - len(following.lstrip()) != indent + 4:
                yield f"{line.strip()} not indented by 4"


def test_the_package_and_the_programs():
    found = {p.relative_to(ROOT): list(faults(p.read_text("utf-8"))) for p in SOURCES}
    assert {path: faults for path, faults in found.items() if faults} == {}


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        (
            'def f(x):\n    """One.\n\n    Args:\n      x: Two.\n    """',
            "f: Args: not indented by 4",
        ),
        ('raise ValueError(f"Expected x > 0, received {x}.")', 'line 1: "received" for "got"'),
    ],
)
def test_a_fault_is_noticed(source, fault):
    assert list(faults(source)) == [fault]
