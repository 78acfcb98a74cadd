"""Messages that the page on troubleshooting quotes are messages of the library."""

import ast
import re

from tests.programs import ROOT

PAGE = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
QUOTED = re.findall(r"^### `(.*) \.\.\.`$", PAGE, re.MULTILINE)


def texts():
    """Every string of the library; what an f-string fills in is left out."""
    for path in (ROOT / "tfdpnorm").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(v.value for v in node.values if isinstance(v, ast.Constant))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_every_quoted_message_is_one_of_the_library():
    assert len(QUOTED) >= 15 and PAGE.count("### ") == len(QUOTED) == PAGE.count("**Remedy:**")
    library = list(texts())
    assert [quoted for quoted in QUOTED if not any(quoted in text for text in library)] == []


def test_a_message_that_is_not_there_is_noticed():
    invented = "Expected a message that no file" + " raises"
    assert not any(invented in text for text in texts())
