"""Tables in Markdown."""


def table(header, rows, rule=" --- "):
    """Returns a Markdown table; `rule` stands in each cell of the line below the headings."""
    header = list(header)
    lines = [_line(header), f"|{'|'.join([rule] * len(header))}|", *map(_line, rows)]
    return "\n".join(lines)


def _line(cells):
    return f"| {' | '.join(map(str, cells))} |"
