"""The rows of a measurement as a table and as pictures.

`python -m benchmarks.report` draws libraries.png from step_time.json.
"""

import json
import math
import pathlib

_OURS, _OTHERS, _NOT_PRIVATE = "private, tfdpnorm", "private, others", "not private"
_COLOURS = {_OURS: "C3", _OTHERS: "0.6", _NOT_PRIVATE: "0.85"}
_ORDINARY = ("keras", "keras_fit", "torch", "jax")
_PEERS = ("tfp_", "opacus_", "jax_")
_LIBRARIES = {
    "tfdpnorm": "book_keeping",
    "Opacus": "opacus_",
    "TensorFlow Privacy": "tfp_",
    "JAX, vmap": "jax_",
}

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
    """Draws time and memory of a step as bars, this library's engines highlighted, to a PNG file.

    Within a model and batch size, steps are in the order of their time.
    """
    from matplotlib.figure import Figure

    groups = {}
    for row in rows:
        groups.setdefault((row["model"], row["batch_size"]), []).append(row)
    heights = [0.9 + 0.2 * len(found) for found in groups.values()]
    figure = Figure(figsize=(11, 1.2 + sum(heights)), layout="constrained")
    panels = figure.subplots(len(groups), 2, squeeze=False, gridspec_kw={"height_ratios": heights})
    for (time_axes, memory_axes), ((model, size), found) in zip(
        panels, groups.items(), strict=True
    ):
        has_ratio = any(row["ratio"] for row in found)
        field = "ratio" if has_ratio else "milliseconds"
        found = sorted(found, key=lambda row: row[field] or math.inf)
        _bars(time_axes, found, field)
        _bars(memory_axes, found, "peak_megabytes")
        memory_axes.set_yticklabels([])
        if has_ratio:
            time_axes.axvline(1.0, color="black", linewidth=0.8)
        time_axes.set_title(f"{model}, {size} rows", loc="left", fontsize=10, fontweight="bold")
        unit = "process time / plain Keras" if has_ratio else "process time, ms"
        time_axes.set_xlabel(f"{unit} (log scale)", fontsize=8)
        memory_axes.set_xlabel("peak memory, MB (log scale)", fontsize=8)
    figure.suptitle("A training step: private ones, and ordinary ones of the same model")
    figure.legend(
        [_patch(colour) for colour in _COLOURS.values()],
        _COLOURS,
        loc="outside lower center",
        ncols=len(_COLOURS),
        fontsize=8,
    )
    figure.savefig(path, dpi=100)


def _bars(axes, rows, field):
    """A bar for each row, with its number; where there is none, the reason in its place."""
    drawn = [(place, row) for place, row in enumerate(rows) if row[field]]
    values = [row[field] for _, row in drawn]
    start = min([*values, 1.0] if field == "ratio" else values, default=1.0) / 1.5
    axes.barh(
        [place for place, _ in drawn],
        [value - start for value in values],
        left=start,
        height=0.7,
        color=[_COLOURS[_kind(row["engine"])] for _, row in drawn],
    )
    axes.set_xscale("log")
    axes.set_xlim(start, max(values, default=10.0) * 1.6)
    for place, row in drawn:
        text = f"{row[field]:.2f}" if field == "ratio" else f"{row[field]:,.0f}"
        axes.annotate(
            text, (row[field], place), xytext=(3, 0), textcoords="offset points", va="center",
            fontsize=7,
        )  # fmt: skip
    for place, row in enumerate(rows):
        if row["error"] is not None and field != "peak_megabytes":
            reason = row["error"] if len(row["error"]) <= 70 else f"{row['error'][:67]}..."
            where = dict(xycoords=("axes fraction", "data"), va="center")
            axes.annotate(reason, (0.01, place), **where, fontsize=6, color="0.4")
    axes.set_yticks(range(len(rows)), [row["engine"] for row in rows], fontsize=8)
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_fontweight("bold" if _kind(row["engine"]) == _OURS else "normal")
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="x", which="both", labelsize=8)
    for ticks in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
        ticks(_plain_number)


def _kind(engine):
    """Whose step an engine's is, a key of `_COLOURS`."""
    if engine in _ORDINARY:
        return _NOT_PRIVATE
    return _OTHERS if engine.startswith(_PEERS) else _OURS


def _patch(colour):
    from matplotlib.patches import Patch

    return Patch(color=colour)


def _plain_number(value, _):
    """A label of 1, 2 or 5 times a power of ten, without an exponent; none elsewhere."""
    text = f"{value:g}"
    return text if f"{value:.0e}"[0] in "125" else ""


def _number(value, digits):
    return "-" if value is None else f"{value:.{digits}f}"


def compare(rows, path):
    """Draws the fastest private step of each library over plain Keras, by model; one bar each."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    measured = [r for r in rows if r["ratio"] is not None and r["engine"] not in _ORDINARY]
    models = {}
    for row in measured:  # the smallest batch of each model that other libraries ran, too
        if row["engine"].startswith(_PEERS):
            models.setdefault(row["model"], row["batch_size"])
    figure, axes = pyplot.subplots(figsize=(8, 3.2), layout="constrained")
    for at, (name, prefix) in enumerate(_LIBRARIES.items()):
        best = [
            min(
                (
                    r["ratio"]
                    for r in measured
                    if (r["model"], r["batch_size"]) == chosen and r["engine"].startswith(prefix)
                ),
                default=math.nan,
            )
            for chosen in models.items()
        ]
        places = [i + 0.2 * (at - 1.5) for i in range(len(models))]
        colour = _COLOURS[_OURS] if not at else f"{0.35 + 0.15 * at}"
        bars = axes.bar(places, best, 0.18, label=name, color=colour)
        axes.bar_label(bars, [f"{b:.1f}" if b < 10 else f"{b:.0f}" for b in best], fontsize=7)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_yticks([1, 10, 100], ["1", "10", "100"])
    axes.set_ylabel("private step / plain Keras step")
    axes.set_xticks(range(len(models)), [f"{m}\n{b} rows" for m, b in models.items()])
    axes.legend(ncols=4, loc="upper right", frameon=False)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


if __name__ == "__main__":
    HERE = pathlib.Path(__file__).parent
    compare(json.loads((HERE / "step_time.json").read_text()), HERE / "libraries.png")
