"""What `make docs` rests on: each page is in the index, each relative link leads somewhere."""

import re
import sys

import pytest

from tests.programs import ROOT

PAGES = sorted((ROOT / "docs").glob("*.md"))
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")


@pytest.fixture
def docstrings(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    yield __import__("docstrings")
    sys.modules.pop("docstrings", None)


def test_each_page_is_in_the_index_once():
    index = (ROOT / "docs/index.md").read_text("utf-8")
    listed = re.findall(
        r"^([\w./]+)$", "".join(re.findall(r"```\{toctree\}(.*?)```", index, re.S)), re.M
    )
    assert len(listed) == len(set(listed))
    assert {p.stem for p in PAGES} - {"index"} == {n for n in listed if "/" not in n}
    outside = [n for n in listed if n.startswith("../")]
    assert [n for n in outside if not (ROOT / "docs" / f"{n}.md").exists()] == []


def test_relative_links_lead_to_files():
    others = [
        ROOT / n for n in ("BUILD_NOTES.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
    ]
    dead = []
    for page in [*PAGES, *others, ROOT / "examples/README.md", ROOT / "benchmarks/README.md"]:
        for target, _ in LINK.findall(page.read_text("utf-8")):
            # The build of the site makes what is generated, and checks the links to it.
            if not (target.startswith("generated/") or (page.parent / target).exists()):
                dead.append(f"{page.relative_to(ROOT)}: {target}")
    assert dead == []


def test_indented_blocks_of_docstrings_are_code(docstrings):
    lines = [
        "Adds `x`s.",
        "",
        "    f(*args)",
        "",
        "Args:",
        "    **more: any * of `a*`.",
        "        on",
        "",
    ]
    docstrings.to_rst(None, "function", "f", None, None, lines)
    text = "\n".join(lines)
    assert "Adds ``x``\\ s." in text
    assert ".. code-block:: python\n\n    " in text and "    f(*args)" in text
    assert "\\*\\*more: any" in text and "``a*``" in text and "        on" in text


def test_examples_of_docstrings_are_code(docstrings):
    lines = ["Makes it.", "", "Example:", "    made = make(2)", "    print(made)", ""]
    docstrings.to_rst(None, "function", "f", None, None, lines)
    assert "    .. code-block:: python" in lines
    doctest = ["Makes it.", "", "Example:", "    >>> make(2)", "    4", ""]
    docstrings.to_rst(None, "function", "f", None, None, doctest)
    assert doctest[3] == "    >>> make(2)"
