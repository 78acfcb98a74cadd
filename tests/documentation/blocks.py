"""The Python code of a Markdown page: its blocks, and what hidden comments say of them."""

import contextlib
import io
import re
from typing import NamedTuple

PATTERN = re.compile(
    r"^<!-- (?P<word>setup|skip|slow|needs): (?P<text>.*?) -->$|^```python\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """One piece of code.

    Attributes:
        line: Of the page, from 1.
        code: The text between the fences, or of a setup comment.
        printed: Whether readers see it.
        skipped: The reason why it does not run, or None.
        needs: A package that is no dependency, whose recipe this is and which a test of its own
            runs; or None.
    """

    line: int
    code: str
    printed: bool
    skipped: str | None
    needs: str | None = None


def blocks(text):
    """Returns the blocks of a page, in order, setup comments among them."""
    found, skipped, needs = [], None, None
    for match in PATTERN.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["word"] == "skip":
            skipped = match["text"]
        elif match["word"] == "needs":
            needs = match["text"]
        elif match["word"] == "setup":
            found.append(Block(line, match["text"], False, None))
        elif match["code"] is not None:
            found.append(Block(line + 1, match["code"], True, skipped, needs))
            skipped = needs = None
    return found


def is_slow(text):
    return any(match["word"] == "slow" for match in PATTERN.finditer(text))


def run(text, name):
    """Runs the blocks of a page in one namespace; returns what they printed."""
    namespace = {"__name__": "page"}
    exec("from tests.documentation.toys import *", namespace)
    output = io.StringIO()
    for block in blocks(text):
        if block.skipped is None and block.needs is None:
            code = compile("\n" * (block.line - 1) + block.code, name, "exec")
            with contextlib.redirect_stdout(output):
                exec(code, namespace)
    return output.getvalue()
