"""Docstrings of this project as reStructuredText: indented blocks are code, the rest plain text."""

import re

KEPT = re.compile(r"``.+?``|`[^`]+`|(?<!\w)\*\*(?=\S)[^*]+?(?<=\S)\*\*(?!\w)", re.DOTALL)
SECTION = re.compile(r"(Args|Arguments|Attributes|Call arguments|Raises|Returns|Yields):$")
EXAMPLE = re.compile(r"Examples?:$")
BULLET = re.compile(r"([*-]|\d+\.|#\.) ")


def to_rst(app, what, name, obj, options, lines):
    """Handler of autodoc-process-docstring, to run before napoleon."""
    text, code = [], []  # Runs of lines, in turns.
    for is_code, line in marked([re.sub("::$", ":", line) for line in lines]):
        if is_code:
            if not code:
                text.append("")
                code.append(" " * indent_of(line) + ".. code-block:: python")
                code.append("")
            code.append("    " + line if line.strip() else "")
        else:
            if code:
                text.append("\0".join(code))
                code = []
            text.append(line)
    if code:
        text.append("\0".join(code))
    lines[:] = rebuilt(text)


def marked(lines):
    """Yields (is code, line): code stands deeper than what is around it, after a blank line."""
    code_indent, text_indent, example = None, 0, False
    for i, line in enumerate(lines):
        if not line.strip():
            yield code_indent is not None, line
            continue
        indent, apart = indent_of(line), i > 0 and not lines[i - 1].strip()
        if code_indent is not None and indent < code_indent:
            code_indent = None
        begins = (apart and indent >= text_indent + 4) or example
        plain = BULLET.match(line.lstrip()) or line.lstrip().startswith((">>>", ".. "))
        if code_indent is None and begins and not plain and (not example or looks_like_code(line)):
            code_indent = indent
        yield code_indent is not None, line
        example = bool(EXAMPLE.match(line.strip()))
        if code_indent is None:
            text_indent = indent + 4 * bool(SECTION.match(line.strip()) or example)


def looks_like_code(line):
    return bool(re.search(r"[=(]|^\s*(import|from|for|with) ", line))


def indent_of(line):
    return len(line) - len(line.lstrip())


def rebuilt(text):
    """The lines, escaped where they are not code."""
    out, run = [], []
    for piece in [*text, "\0"]:
        if "\0" not in piece:
            run.append(piece)
            continue
        out += escaped("\n".join(run)).split("\n") if run else []
        out += [] if piece == "\0" else piece.split("\0")
        run = []
    return out


def escaped(text):
    """The text with `*`, `|` and a closing `_` escaped, except in code and in bold type."""
    pieces, end = [], 0
    for kept in KEPT.finditer(text):
        pieces += [plain(text[end : kept.start()]), literal(kept[0], text[kept.end() :])]
        end = kept.end()
    return "".join([*pieces, plain(text[end:])])


def plain(text):
    text = re.sub(r"(?<!\\)\*(?! )|(?<=\S )\*(?= )|(?<!\\)\|", lambda found: "\\" + found[0], text)
    return re.sub(r"(?<=\w)_(?=\W|$)", r"\\_", text)


def literal(kept, after):
    """Code in double backticks; a letter may follow, as in `x`s."""
    if kept.startswith("**"):
        return kept
    code = "``" + kept.strip("`") + "``"
    return code + ("\\ " if re.match(r"\w", after) else "")
