"""Tables and plot of Ermis & Cemgil's accountants."""

from tfdpnorm.privacy.rounding import ceil_text
from trainers.ermis.comparison import ADJACENCIES, ALL_ACCOUNTANTS, stated
from trainers.ermis.published import SIGMAS
from trainers.report import figure as figures
from trainers.report.markdown import table
from trainers.specs.parts import CLAIMING_ACCOUNTANTS

_ADJACENCIES = {"add_or_remove_one": "add/remove", "replace_one": "replace one"}
_COLOURS = {"ac": "C3", "zcdp": "C1", "rdp": "C0", "pld": "C2"}


def accounting_text(record):
    """Returns the readings, and what the quoted sigmas give, in Markdown."""
    keys = ["/".join(key) for key in SIGMAS]
    readings = [
        (
            f"**{reading['name']}**" if reading["name"] == record["nearest"] else reading["name"],
            *(f"{reading['sigmas'][key]:.2f}" for key in keys),
            f"{reading['deviation']:.1%}",
        )
        for reading in record["readings"]
    ]
    names = [(adjacency, name) for adjacency in _ADJACENCIES for name in ("rdp", "pld")]
    quoted = [
        (
            f"{row['dataset']}, {row['accountant']}",
            f"{row['sigma']:.2f}",
            f"{row['sampling_rate']:.4g}",
            f"{row['updates']:,}",
            row["noise"],
            *(_verdict(row["epsilon"][which][name], row) for which, name in names),
        )
        for row in record["quoted"]
    ]
    headers = [f"{_ADJACENCIES[adjacency]}, {name}" for adjacency, name in names]
    return "\n\n".join(
        [
            "## The sigma required for epsilon = 1, for several readings of the paper's text",
            table(
                ("reading", *keys, "at most off by"),
                [("the paper", *(f"{sigma:.2f}" for sigma in SIGMAS.values()), ""), *readings],
            ),
            "## The epsilon that the paper's sigmas give, at delta 1e-5",
            "The paper claims epsilon = 1 for all of them. RDP and PLD hold, for Poisson-sampled "
            "batches; bold where they are above the claim.",
            table(("", "sigma", "q", "T", "reading", *headers), quoted),
            "## Sigma against epsilon (noise 2 C sigma)",
            *(_curve_table(curve) for curve in record["curves"]),
        ]
    )


def comparison_text(sampling_rate, noise_multiplier, updates, delta):
    """Returns what four accountants say of the same updates (see `stated`), in Markdown."""
    settings = (sampling_rate, noise_multiplier, updates, delta)
    results = [stated(name, *settings, which) for which in ADJACENCIES for name in ALL_ACCOUNTANTS]
    rows = [
        (
            _ADJACENCIES[said.adjacency],
            said.accountant,
            ceil_text(said.epsilon),
            "yes" if said.holds else f"NO GUARANTEE: {said.because}",
        )
        for said in results
    ]
    return table(("neighbours", "accountant", "epsilon (rounded up)", "holds"), rows)


def plot_accounting(record, path):
    """Draws the paper's Figure 3 and the accountants that hold; returns the path of the PNG."""
    figure = figures.new(12, 6)
    all_axes = figure.subplots(1, 2, sharey=True)
    for axes, curve in zip(all_axes, record["curves"], strict=True):
        for name, sigmas in curve["sigmas"].items():
            accountant, reading = name.split(", ", 1)
            look = dict(color=_COLOURS[accountant], markersize=4)
            if accountant in CLAIMING_ACCOUNTANTS:
                look["linestyle"] = "--" if reading == record["nearest"] else ":"
            elif reading == "replace_one":
                look["marker"] = "o"
            axes.plot(curve["epsilons"], sigmas, label=_label(accountant, reading), **look)
        for (dataset, accountant), sigma in SIGMAS.items():
            if dataset == curve["dataset"]:
                axes.plot(1.0, sigma, "*", color=_COLOURS[accountant], markersize=13, zorder=5)
        axes.set(
            xscale="log",
            yscale="log",
            xlabel="epsilon, claimed or guaranteed",
            title=f"{curve['dataset']}: q = {curve['sampling_rate']:g}, T = {curve['updates']:,}",
        )
        axes.grid(alpha=0.3, which="both")
    all_axes[0].set_ylabel("sigma (noise over two clipping norms)")
    figure.legend(
        *all_axes[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=4,
        fontsize=8,
        title="stars: quoted by the paper",
        title_fontsize=8,
    )
    figures.entitle(figure, "Noise for an epsilon at delta = 1e-5, by accountant")
    return figures.save(figure, path)


def _label(accountant, reading):
    if accountant in CLAIMING_ACCOUNTANTS:
        return f"{accountant} of the paper, {reading}"
    return f"{accountant}, {_ADJACENCIES[reading]} (holds)"


def _verdict(epsilon, row):
    text = ceil_text(epsilon)
    return f"**{text}**" if epsilon > row["claimed_epsilon"] else text


def _curve_table(curve):
    shown = [i for i, epsilon in enumerate(curve["epsilons"]) if epsilon in (0.1, 0.5, 1, 3, 10)]
    rows = [
        (_label(*name.split(", ", 1)), *(f"{sigmas[i]:.4g}" for i in shown))
        for name, sigmas in curve["sigmas"].items()
    ]
    header = (curve["dataset"], *(f"epsilon {curve['epsilons'][i]:g}" for i in shown))
    return table(header, rows)
