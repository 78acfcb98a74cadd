"""Messages that the page on troubleshooting quotes are messages of the library."""

import ast
import re

from tests.programs import ROOT

PAGE = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
QUOTED = re.findall(r"^### `(.*) \.\.\.`$", PAGE, re.MULTILINE)


def texts():
    """Every string of the library."""
    for path in (ROOT / "tfdpnorm").rglob("*.py"):
        yield from strings(ast.parse(path.read_text("utf-8")))


def strings(tree):
    """Every string in a tree; what an f-string fills in is left out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(v.value for v in node.values if isinstance(v, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_every_quoted_message_is_one_of_the_library():
    assert len(QUOTED) >= 15 and PAGE.count("### ") == len(QUOTED) == PAGE.count("**Remedy:**")
    library = list(texts())
    assert [quoted for quoted in QUOTED if not any(quoted in text for text in library)] == []


def raised():
    """Pairs of the class of each error that the library raises, or "warning", and its texts."""
    for path in (ROOT / "tfdpnorm").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                yield ast.unparse(node.exc.func), list(strings(node.exc))
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn":
                yield "warning", list(strings(node))


def test_the_quoted_messages_have_the_types_that_the_page_gives():
    kinds = dict(re.findall(r"^### `(.*) \.\.\.`\n\n\*(\w+)", PAGE, re.MULTILINE))
    assert list(kinds) == QUOTED
    found = {quoted: set() for quoted in QUOTED}
    for kind, its_texts in raised():
        for quoted in QUOTED:
            if any(quoted in text for text in its_texts):
                found[quoted].add(kind)
    # Some texts are put together elsewhere.
    assert sum(bool(types) for types in found.values()) >= 15
    assert {q: types for q, types in found.items() if types and types != {kinds[q]}} == {}


def test_a_message_that_is_not_there_is_noticed():
    invented = "Expected a message that no file" + " raises"
    assert not any(invented in text for text in texts())
