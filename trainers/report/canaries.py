"""Table and plot of audits by gradient canaries, made from their records and nothing else."""

from tfdpnorm.privacy.rounding import ceil_text
from trainers.report import figure as figures
from trainers.report.audits import path_of, table

_BOUNDS = (
    ("by epsilon and delta", lambda record: record["details"]["epsilon_delta_bound"]),
    ("by f-DP", lambda record: record["audited_epsilon"]),
    ("independent guesses", lambda record: record["details"]["independent_epsilon"]),
)


def gradient_canary_table(records):
    """Returns a Markdown table of audits by gradient canaries, by model and claim.

    Args:
        records: List of records with `AUDIT_FIELDS` whose check is "gradient_canaries".
    """
    header = (
        "model", "normalisation", "canaries", "q", "updates", "noise multiplier",
        "claimed epsilon", *(f"audited {name}" for name, _ in _BOUNDS), "correct guesses",
        "seconds",
    )  # fmt: skip
    return table(
        header,
        [
            (
                r["model"],
                path_of(r),
                f"{r['details']['canaries']:,}",
                f"{r['details']['sampling_rate']:.3g}",
                r["details"]["steps"],
                f"{r['noise_multiplier']:.3f}",
                ceil_text(r["claimed_epsilon"]),
                *(f">= {bound(r):.2f}" for _, bound in _BOUNDS),
                f"{r['details']['correct']:,} of {r['details']['guesses']:,}; "
                f"{r['details']['correct_of_all']:,} of all",
                f"{r['seconds']:.0f}",
            )
            for r in _in_order(records)
        ],
    )


def plot_gradient_canaries(records, path):
    """Draws the three bounds of each record beside its claim; returns the path of the PNG.

    Args:
        records: List of records with `AUDIT_FIELDS` whose check is "gradient_canaries".
        path: File to write.
    """
    records = _in_order(records)
    figure = figures.new(1.6 + 1.5 * len(records), 4.2)
    axes = figure.subplots()
    for place, (name, bound) in enumerate(_BOUNDS):
        offsets = [i + 0.27 * (place - 1) for i in range(len(records))]
        axes.bar(offsets, [bound(r) for r in records], width=0.25, label=f"audited {name}")
    claimed = [r["claimed_epsilon"] for r in records]
    axes.hlines(
        claimed,
        [i - 0.42 for i in range(len(records))],
        [i + 0.42 for i in range(len(records))],
        color="black",
        label="claimed: at most this",
    )
    names = [f"{r['model']}, {path_of(r)}\n{r['details']['canaries']:,} canaries" for r in records]
    axes.set_xticks(range(len(records)), names, fontsize=8)
    axes.set(ylabel="epsilon", title="One training: epsilon claimed and audited")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=8)
    return figures.save(figure, path)


def _in_order(records):
    return sorted(records, key=lambda r: (r["claimed_epsilon"], r["model"], path_of(r)))
