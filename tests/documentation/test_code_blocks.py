"""Every Python block of README.md and docs/ runs as it is printed."""

import re

import pytest

from tests.documentation.blocks import blocks, is_slow, run
from tests.programs import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {path.name: path.read_text("utf-8") for path in PAGES}
WITH_CODE = [name for name, text in TEXTS.items() if any(b.printed for b in blocks(text))]
CASES = [
    pytest.param(name, marks=[pytest.mark.slow] if is_slow(TEXTS[name]) else [], id=name)
    for name in WITH_CODE
    if name != "README.md"
]
ACCURACY = re.compile(r"Test accuracy: (0\.\d+)\n")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_blocks_of_the_page_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(TEXTS[name], str(ROOT / "docs" / name))


def test_all_fences_are_found():
    """None is indented or has options, so that none is passed over."""
    for name, text in TEXTS.items():
        found = sum(block.printed for block in blocks(text))
        assert found == len(re.findall(r"^\s*```+\s*\{?(?:python|py)\b", text, re.MULTILINE)), name


def test_few_blocks_are_left_out():
    left_out = [(n, b.line) for n in WITH_CODE for b in blocks(TEXTS[n]) if b.skipped]
    assert len(left_out) <= 2, left_out


def test_readme_prints_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = TEXTS["README.md"]
    printed = run(said, "README.md")
    (theirs,), (ours,) = ACCURACY.findall(said), ACCURACY.findall(printed)
    assert abs(float(theirs) - float(ours)) <= 0.06
    told = re.findall(r"^> (.+)$", said, re.MULTILINE)[1:]
    assert "epsilon = 2.999," in told[0]
    assert told == ACCURACY.sub("", printed, count=1).splitlines()
    assert (tmp_path / "digits.keras").exists()
