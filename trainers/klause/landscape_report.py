"""Tables and plots of loss landscapes and activations, made from their records and nothing else."""

import math

import numpy as np

from trainers.klause import published
from trainers.klause.landscape_settings import LandscapeSettings
from trainers.report import figure as figures
from trainers.report.markdown import table
from trainers.specs.options import options

_FLOOR = 1e-9  # of the density that is drawn
_METHOD = (
    "The trace is Hutchinson's estimate and its standard error, the outer eigenvalues are Ritz "
    "values of Lanczos steps. The paper has power iteration and Hutchinson's estimate, of at "
    "most 1,000 products and a tolerance of 0.001 each, and does not say on how many examples.\n\n"
    "Negative eigenvalues are counted among the Ritz values, and depend on how many there are. The "
    "paper does not say how many it had: "
)
_CONDITION = (
    "The condition number is the smallest absolute Ritz value over the largest. Nearly all "
    "eigenvalues are close to 0, and how close their common Ritz value comes is chance: do not "
    "compare condition numbers. The paper does not say how it computed its own."
)
_ALIKE = "ours may be compared with each other, not with the paper's."
_OTHERWISE = (
    "ours may not be compared with the paper's, **nor with each other, since {names} differ**."
)
_PATHS = {
    "residual": "V_R, residual path",
    "convolutional": "V_F, convolutional path",
    "output": "V_A, output of the block",
}


def landscape_table(with_scale_norm, without):
    """Returns a table of two records and the paper's figures, and how it was made; Markdown."""
    pair = with_scale_norm, without

    def row(name, show, paper=("", "")):
        return (name, *(show(r) for r in pair), *paper)

    def estimate(name, key, paper=()):
        return row(name, _estimate(key), [_plain(x) for x in paper] or ("", ""))

    made = table(
        ("", *(r["cell"] for r in pair), "paper, ScaleResNet-9", "paper, ResNet-9"),
        [
            estimate("Hessian trace", "trace", published.HESSIAN_TRACE),
            estimate("largest eigenvalue", "largest_eigenvalue", published.LARGEST_EIGENVALUE),
            estimate("smallest eigenvalue", "smallest_eigenvalue"),
            row(
                "negative eigenvalues",
                lambda r: f"{r['negative_ritz_values']} of {len(r['ritz_values'])} Ritz values",
                published.NEGATIVE_EIGENVALUES,
            ),
            row(
                "condition number",
                lambda r: f"{r['condition_number']:.1e}",
                [f"{x:.1e}" for x in published.CONDITION_NUMBER],
            ),
            row("relative tolerance", lambda r: f"{r['flags']['tolerance']:g}"),
            row("rows", lambda r: f"{r['rows']:,}"),
            row("products with the Hessian", lambda r: f"{r['products']:,}"),
            row("seconds", lambda r: f"{r['seconds']:.0f}"),
            *(
                row(f"block {place}, {path}: mean, standard deviation", _moments(place, path))
                for place in (1, 2)
                for path in _PATHS
            ),
        ],
    )
    commands = (
        _command(flag, record)
        for flag, record in zip(("with_scale_norm", "without_scale_norm"), pair, strict=True)
    )
    parts = ("Made from 2 records, by", "\n".join(commands), made, _claim(pair), _method(pair))
    return "\n\n".join(parts)


def _claim(pair):
    """Whether two records show the paper's smoother landscape, in words."""
    said = []
    for name, key in (("trace", "trace"), ("largest eigenvalue", "largest_eigenvalue")):
        first, second = (record[key] for record in pair)
        difference = first["value"] - second["value"]
        clear = abs(difference) > 2 * math.hypot(first["error"], second["error"])
        word = ("larger" if difference > 0 else "smaller") if clear else "no other"
        word += "" if clear else " beyond two standard errors"
        said.append(f"the {name} with ScaleNorm is {word}")
    return (
        "**The paper: ScaleNorm smooths the loss landscape, with a smaller trace and largest "
        f"eigenvalue.** Undecided here, by one pair of networks: {', '.join(said)}."
    )


def _method(pair):
    """How the numbers were found, and what they may be compared with."""
    first, second = (record["flags"] for record in pair)
    other = [name for name in options(LandscapeSettings) if first.get(name) != second.get(name)]
    compared = _OTHERWISE.format(names=", ".join(other)) if other else _ALIKE
    return f"{_METHOD}{compared}\n\n{_CONDITION}"


def _command(flag, record):
    flags = record["flags"]
    used = {flag: flags.get("model_file"), "dataset": flags.get("dataset")}
    used |= {name: flags[name] for name in options(LandscapeSettings)}
    shown = " ".join(f"--{name}={value}" for name, value in used.items() if value is not None)
    return f"    python -m trainers.klause_landscape {shown}"


def _estimate(name):
    def show(record):
        found = record[name]
        text, met = _plain(found["value"]), "" if found["converged"] else ", tolerance not met"
        if found["error"] <= 5e-6 * abs(found["value"]):  # below the digits that are shown
            return text
        return f"{text} +- {_plain(found['error'], digits=2)}{met}"

    return show


def _plain(value, digits=5):
    """A number of so many digits, never as a power of ten."""
    value = float(f"{value:.{digits}g}")
    places = digits - 1 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{max(places, 0)}f}"


def _moments(place, path):
    def show(record):
        blocks = list(record["activations"].values())
        if len(blocks) < place:
            return ""
        return f"{blocks[place - 1][path]['mean']:.3f}, {blocks[place - 1][path]['stddev']:.3f}"

    return show


def plot_spectra(records, path, width=0.01):
    """Draws the density of eigenvalues of each record; returns the path of the PNG.

    By stochastic Lanczos quadrature (Ghorbani, Krishnan and Xiao 2019), with Gaussians of a `width`
    relative to the range.
    """
    figure = figures.new(7, 4)
    axes = figure.subplots()
    every = np.concatenate([r["ritz_values"] for r in records])
    spread = np.ptp(every) or 1.0
    grid = np.linspace(every.min() - 0.05 * spread, every.max() + 0.05 * spread, 2000)
    for record in records:
        values, weights = np.array(record["ritz_values"]), np.array(record["ritz_weights"])
        bells = np.exp(-0.5 * np.square((grid[:, None] - values) / (width * spread)))
        density = bells @ weights / (width * spread * np.sqrt(2 * np.pi))
        (line,) = axes.semilogy(grid, np.maximum(density, 1e-12), label=record["cell"])
        # How high the curve is at an outer one depends on the random start; that it is there, not.
        level = _FLOOR * 2.0 ** (1 + records.index(record))
        axes.plot(values, np.full(len(values), level), "|", color=line.get_color(), markersize=9)
    axes.set(
        xlabel="eigenvalue of the Hessian; a tick for each Ritz value",
        ylabel="density",
        ylim=(_FLOOR, None),
        title="Hessian of the loss at the end of training, with and without ScaleNorm",
    )
    axes.grid(alpha=0.3)
    axes.legend()
    return figures.save(figure, path)


def plot_activations(records, path, block=-1):
    """Draws the histograms of a block's activations, as Klause et al. (2022) do in Figure 2."""
    figure = figures.new(10, 2.8 * len(records))
    grid = figure.subplots(len(records), len(_PATHS), squeeze=False, sharex="col")
    for row, record in zip(grid, records, strict=True):
        name, paths = list(record["activations"].items())[block]
        for axes, (key, title) in zip(row, _PATHS.items(), strict=True):
            of_path = paths[key]
            counts = np.array(of_path["counts"], float)
            edges = np.linspace(*of_path["limits"], len(counts) + 1)
            axes.stairs(counts / counts.sum() / np.diff(edges), edges, fill=True, alpha=0.7)
            axes.axvline(of_path["mean"], color="black", linewidth=1)
            axes.set_title(
                f"{title}\nmean {of_path['mean']:.2f}, standard deviation {of_path['stddev']:.2f}",
                fontsize=9,
            )
        row[0].set_ylabel(f"{record['cell']}\n{name}", fontsize=9)
    figures.entitle(figure, "Activations of a residual block, with and without ScaleNorm")
    return figures.save(figure, path)
