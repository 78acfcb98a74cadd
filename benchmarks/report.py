"""The rows of a measurement as a table and as a picture."""

_HEADS = ("model", "batch", "engine", "ms", "min-max", "/keras", "/own", "peak MB", "scaling")


def table(rows):
    """Returns the rows as text.

    The last column compares with the next smaller batch of the same engine: "x1.95 for x2" is 1.95
    times as long for twice the rows.
    """
    lines = [_HEADS]
    for row in rows:
        start = (row["model"], str(row["batch_size"]), row["engine"])
        if row["error"] is not None:
            lines.append((*start, row["error"]))
            continue
        lines.append(
            (
                *start,
                f"{row['milliseconds']:.1f}",
                f"{row['min_milliseconds']:.1f}-{row['max_milliseconds']:.1f}",
                _number(row["ratio"], 2),
                _number(row["own_ratio"], 2),
                _number(row["peak_megabytes"], 0),
                scaling(row, rows),
            )
        )
    whole = [line for line in lines if len(line) == len(_HEADS)]
    widths = [max(len(line[i]) for line in whole) for i in range(len(_HEADS))]
    for i in (0, 1, 2):
        widths[i] = max(len(line[i]) for line in lines)
    texts = (0, 2, len(_HEADS) - 1)
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i in texts or i == len(line) - 1 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=False))
        ).rstrip()
        for line in lines
    )


def scaling(row, rows):
    """How time grew from the next smaller batch size, as text; empty without one."""
    smaller = [
        other
        for other in rows
        if (other["model"], other["engine"]) == (row["model"], row["engine"])
        and other["batch_size"] < row["batch_size"]
        and other["milliseconds"]
    ]
    if not smaller or not row["milliseconds"]:
        return ""
    other = max(smaller, key=lambda found: found["batch_size"])
    times = row["milliseconds"] / other["milliseconds"]
    return f"x{times:.2f} for x{row['batch_size'] / other['batch_size']:g}"


def plot(rows, path):
    """Draws time and memory over those of the plain Keras step to a PNG file."""
    from matplotlib.figure import Figure

    models = list(dict.fromkeys(row["model"] for row in rows))
    colours = {size: f"C{i}" for i, size in enumerate(sorted({r["batch_size"] for r in rows}))}
    heights = [
        0.9 + 0.2 * len({(r["engine"], r["batch_size"]) for r in rows if r["model"] == model})
        for model in models
    ]
    figure = Figure(figsize=(11, 0.6 + sum(heights)), layout="constrained")
    panels = figure.subplots(
        len(models), 2, squeeze=False, sharey="row", gridspec_kw={"height_ratios": heights}
    )
    marks = {}
    for (time_axes, memory_axes), model in zip(panels, models, strict=True):
        of_model = [row for row in rows if row["model"] == model]
        engines = list(dict.fromkeys(row["engine"] for row in of_model))
        sizes = sorted({row["batch_size"] for row in of_model})
        has_ratio = any(row["ratio"] for row in of_model)
        time_field = "ratio" if has_ratio else "milliseconds"
        for axes, field in ((time_axes, time_field), (memory_axes, "peak_megabytes")):
            for size in sizes:
                found = {r["engine"]: r[field] for r in of_model if r["batch_size"] == size}
                drawn = [(found[e], p) for p, e in enumerate(engines) if found.get(e)]
                (marks[size],) = axes.plot(
                    [value for value, _ in drawn],
                    [place + _offset(size, sizes) for _, place in drawn],
                    "o",
                    markersize=4.5,
                    color=colours[size],
                )
            axes.set_xscale("log")
            axes.grid(axis="x", which="both", linewidth=0.3)
            axes.set_yticks(range(len(engines)), engines, fontsize=8)
            axes.set_ylim(len(engines) - 0.5, -0.5)
            for place in range(1, len(engines)):
                axes.axhline(place - 0.5, color="0.9", linewidth=0.6, zorder=0)
            axes.tick_params(axis="x", which="both", labelsize=8)
            for ticks in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
                ticks(_plain_number)
        if has_ratio:
            time_axes.axvline(1.0, color="black", linewidth=0.6, zorder=0)
        for row in of_model:
            if row["error"] is not None:
                place = engines.index(row["engine"]) + _offset(row["batch_size"], sizes)
                reason = f"{row['batch_size']} rows: {row['error']}"
                time_axes.annotate(
                    reason if len(reason) <= 70 else f"{reason[:67]}...",
                    (0.995, place),
                    xycoords=("axes fraction", "data"),
                    ha="right",
                    va="center",
                    fontsize=5.5,
                    color="0.4",
                )
        time_axes.set_title(model, loc="left", fontsize=10, fontweight="bold")
        time_axes.set_xlabel(
            "process time of a step / plain Keras" if has_ratio else "process time of a step, ms",
            fontsize=8,
        )
        memory_axes.set_xlabel("peak memory of a step, MB", fontsize=8)
    figure.legend(
        [marks[size] for size in colours],
        [f"{size} rows" for size in colours],
        loc="outside upper right",
        ncols=len(colours),
        fontsize=8,
    )
    figure.savefig(path, dpi=120)


def _offset(size, sizes):
    """Where a batch size stands in the line of its engine: equal figures do not hide each other."""
    if len(sizes) == 1:
        return 0.0
    return 0.6 * (sizes.index(size) / (len(sizes) - 1) - 0.5)


def _plain_number(value, _):
    """A label of 1, 2 or 5 times a power of ten, without an exponent; none elsewhere."""
    text = f"{value:g}"
    return text if f"{value:.0e}"[0] in "125" else ""


def _number(value, digits):
    return "-" if value is None else f"{value:.{digits}f}"
