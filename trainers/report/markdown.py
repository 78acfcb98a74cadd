"""Tables in Markdown, and the numbers in them."""

import statistics


def table(header, rows, rule=" --- "):
    """Returns a Markdown table; `rule` stands in each cell of the line below the headings."""
    header = list(header)
    lines = [f"| {' | '.join(map(str, cells))} |" for cells in (header, *rows)]
    return "\n".join([lines[0], f"|{'|'.join([rule] * len(header))}|", *lines[1:]])


def mean_text(values):
    """Returns the mean of some runs' values, and their standard deviation if they are several."""
    spread = f" +- {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread}"


def runs_text(values):
    """Returns the mean of some runs' values, with how many runs these are."""
    return f"{mean_text(values)} ({len(values)} run{'s' * (len(values) > 1)})"
