"""Tables and plots of loss landscapes and activations, made from their records and nothing else."""

import pathlib

import numpy as np

from tfdpnorm.experiments.report.audits import table

# Klause et al. (2022), Section 3.1: with and without scale normalisation.
PAPER = {
    "Hessian trace": (6637.3, 9045.7),
    "largest eigenvalue": (2654.2, 3920.4),
    "negative eigenvalues": (115, 119),
    "condition number": (2.1e-3, 2.3e-3),
}
_FLOOR = 1e-9  # of the density that is drawn
_OF_RITZ_VALUES = (
    "Negative eigenvalues and the condition number are of the Ritz values, and depend on how many "
    "there are. The paper does not say how many it had: ours may be compared with each other, not "
    "with the paper's."
)
_PATHS = {
    "residual": "V_R, residual path",
    "convolutional": "V_F, convolutional path",
    "output": "V_A, output of the block",
}


def landscape_table(with_scale_norm, without):
    """Returns a Markdown table of two records beside the paper's figures.

    Args:
        with_scale_norm: Record with `LANDSCAPE_FIELDS`.
        without: The same, of the network without scale normalisation.
    """
    pair = with_scale_norm, without

    def row(name, show):
        paper = PAPER.get(name)
        return (name, *(show(r) for r in pair), *(paper or ("", "")))

    made = table(
        ("", *(r["cell"] for r in pair), "paper, ScaleResNet-9", "paper, ResNet-9"),
        [
            row("Hessian trace", _estimate("trace")),
            row("largest eigenvalue", _estimate("largest_eigenvalue")),
            row("smallest eigenvalue", _estimate("smallest_eigenvalue")),
            row(
                "negative eigenvalues",
                lambda r: f"{r['negative_ritz_values']} of {len(r['ritz_values'])} Ritz values",
            ),
            row("condition number", lambda r: f"{r['condition_number']:.2g}"),
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
    return f"{made}\n\n{_OF_RITZ_VALUES}"


def _estimate(name):
    def show(record):
        found = record[name]
        text, met = f"{found['value']:.5g}", "" if found["converged"] else ", tolerance not met"
        # Below the digits that are shown: of the bound, what float32 adds is no part.
        if found["error"] <= 5e-6 * abs(found["value"]):
            return text
        return f"{text} +- {found['error']:.2g}{met}"

    return show


def _moments(place, path):
    def show(record):
        blocks = list(record["activations"].values())
        if len(blocks) < place:
            return ""
        return f"{blocks[place - 1][path]['mean']:.3f}, {blocks[place - 1][path]['stddev']:.3f}"

    return show


def plot_spectra(records, path, width=0.01):
    """Draws the density of eigenvalues of each record; returns the path of the PNG.

    Args:
        records: Records with `LANDSCAPE_FIELDS`.
        path: File to write.
        width: Of the Gaussians around Ritz values, relative to the range.

    Reference:
        Ghorbani, Krishnan and Xiao (2019): stochastic Lanczos quadrature.
    """
    from matplotlib.figure import Figure  # not pyplot: it would look for a screen

    figure = Figure(figsize=(7, 4), layout="constrained")
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
        title="Hessian of the loss at the end of training",
    )
    axes.grid(alpha=0.3)
    axes.legend()
    return _saved(figure, path)


def plot_activations(records, path, block=-1):
    """Draws the histograms of a residual block's activations, a row for each record.

    Args:
        records: Records with `LANDSCAPE_FIELDS`.
        path: File to write.
        block: Which residual block, counted in the model's order.

    Reference:
        Klause et al. (2022), Figure 2.
    """
    from matplotlib.figure import Figure  # not pyplot: it would look for a screen

    figure = Figure(figsize=(10, 2.8 * len(records)), layout="constrained")
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
    return _saved(figure, path)


def _saved(figure, path):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return path
