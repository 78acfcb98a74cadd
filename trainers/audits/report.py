"""Tables and plot of audits, made from their records and nothing else."""

from tfdpnorm.privacy.rounding import ceil_text
from trainers.report import figure as figures
from trainers.report.markdown import table
from trainers.specs.audit import path_name

_NOT_PRIVATE = "**not private**"


def audit_table(records):
    """Returns a Markdown table of records with `AUDIT_FIELDS`."""
    header = (
        "audited", "model", "engine", "lot", "noise multiplier", "change of the sum / C",
        "claimed epsilon", "audited epsilon", "verdict",
    )  # fmt: skip
    return table(
        header,
        [
            (
                f"{path_of(r)}, {r['check'].replace('_', ' ')}",
                r["model"],
                r["engine"],
                r["expected_batch_size"],
                f"{r['noise_multiplier']:.3f}",
                "" if r["sensitivity"] is None else f"{r['sensitivity']:.4f}",
                _claim(r),
                f">= {r['audited_epsilon']:.2f}",
                _verdict(r),
            )
            for r in records
        ],
    )


def sensitivity_table(rows):
    """Returns a Markdown table of the "rows" of a record with `SENSITIVITY_FIELDS`."""
    header = (
        "model", "normalisation", "engine", "clipping", "rows at once", "views",
        "added row / C (promised 1)", "by", "replaced row / C (promised 2)", "by", "bound",
    )  # fmt: skip
    return table(
        header,
        [
            (
                row["model"],
                row["path"],
                row["engine"],
                f"{row['clipping']}, {row['clip_function']}",
                f"{row['physical_batch_size']} of {row['expected_batch_size']}",
                row["augmentation_multiplicity"],
                f"{row['add_or_remove_one']:.6f}",
                row["add_or_remove_one_case"],
                f"{row['replace']:.4f}",
                row["replace_case"],
                ("holds" if row["bound_holds"] else "broken")
                + ("" if row["guarantee_holds"] else f"; {_NOT_PRIVATE}"),
            )
            for row in rows
        ],
    )


def rounding_summary(rows):
    """Returns in words how far rounding took sums beyond the bound that they keep.

    The rows are those of a record with `SENSITIVITY_FIELDS`.
    """
    kept = [row for row in rows if row["bound_holds"]]
    if not kept:
        return "No bound holds."
    worst = max(kept, key=lambda row: row["add_or_remove_one"])
    return (
        "Where the bound holds, one row moves the sum by at most 1 + "
        f"{worst['add_or_remove_one'] - 1:.1e} C; float32 can round by {worst['tolerance']:.1e} C."
    )


def audit_summary(record):
    """Returns in words the conclusion of an audit of epsilon, and its limits."""
    shown = (
        f"The audit shows epsilon >= {record['audited_epsilon']:.2f} with "
        f"{record['confidence']:.0%} confidence"
    )
    claim = f"Claimed epsilon {ceil_text(record['claimed_epsilon'])} at delta {record['delta']:g}"
    if not record["guarantee_holds"]:
        claim += f" is not a guarantee: {'; '.join(record['no_guarantee_because'])}"
    if record["violation"]:
        shown += ": a violation of the claim"
    elif record["guarantee_holds"]:
        shown += ", which agrees with the claim and proves nothing"
    else:
        shown += ", which does not reveal the violation"
    return f"{claim}. {shown}."


def plot_audits(records, path):
    """Draws claimed and audited epsilon of one update; returns the path of the PNG.

    The records, with `AUDIT_FIELDS`, are of one model, by where its statistics come from.
    """
    figure = figures.new(6.4, 4.4)
    axes = figure.subplots()
    places = range(len(records))
    claimed = [record["claimed_epsilon"] for record in records]
    audited = [record["audited_epsilon"] for record in records]
    colors = ["C3" if record["violation"] else "C2" for record in records]
    axes.bar(places, audited, width=0.5, color=colors, label=_AUDITED.format(**records[0]))
    axes.scatter(places, claimed, marker="_", s=1500, color="black", label="claimed: at most this")
    names = [path_of(r) + ("" if r["guarantee_holds"] else "\nNO GUARANTEE") for r in records]
    axes.set_xticks(list(places), names)
    model = _MODELS.get(records[0]["model"], records[0]["model"])
    axes.set(
        xlabel="where the statistics of the normalisation come from",
        ylabel="epsilon",
        title=f"One update of {model}, attacked (delta = {records[0]['delta']:g})",
    )
    axes.grid(axis="y", alpha=0.3)
    axes.legend(markerscale=0.3)
    return figures.save(figure, path)


def path_of(record):
    """Returns in a word the normalisation of an audit's record, or whose statistics it takes."""
    public = record["statistics"] != "none"
    return record["statistics"] if public else record["flags"]["norm"]


def _claim(record):
    text = ceil_text(record["claimed_epsilon"])
    return text if record["guarantee_holds"] else f"{text}, not a guarantee"


def _verdict(record):
    verdict = "violated" if record["violation"] else "no violation seen"
    return verdict if record["guarantee_holds"] else f"{verdict}; {_NOT_PRIVATE}"


def sensitivity_column(records, rows):
    """Returns a column for `experiment_table`: how far one added example moves the clipped sum.

    A dict from the column's heading to a dict from a network to the largest change measured, in the
    "rows" of records with `SENSITIVITY_FIELDS`, for its model and statistics; empty if all runs
    have the same statistics, or nothing was measured.
    """
    if len({record["flags"].get("statistics") for record in records}) < 2:
        return {}
    measured = {}
    for row in rows:
        measured.setdefault((row["model"], row["path"]), []).append(row)
    column, sizes = {}, set()
    for record in records:
        flags = record["flags"]
        path = path_name(flags["norm"], flags["statistics"], flags["statistics_gradient"])
        found = measured.get((flags["model"], path))
        if found:
            column[record["network"]] = f"{max(row['add_or_remove_one'] for row in found):.4g} C"
            sizes.update(row["expected_batch_size"] for row in found)
    of_sizes = " and ".join(map(str, sorted(sizes)))
    name = f"an added example moves the sum by (audited on batches of {of_sizes})"
    return {name: column} if sizes else {}


# --- gradient canaries ---

_MODELS = {"lenet5": "LeNet-5", "mlp": "MLP"}  # as a title has them
_AUDITED = "audited: at least this, with {confidence:.0%} confidence"
_BOUNDS = (
    ("by epsilon and delta", lambda record: record["details"]["epsilon_delta_bound"]),
    ("by f-DP", lambda record: record["audited_epsilon"]),
    ("if guesses were independent", lambda record: record["details"]["independent_epsilon"]),
)


def gradient_canary_table(records):
    """Returns a Markdown table of records of audits by gradient canaries, by model and claim."""
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
    """Draws the three bounds of each record next to its claim; returns the path of the PNG."""
    records = _in_order(records)
    figure = figures.new(1.6 + 1.5 * len(records), 4.2)
    axes = figure.subplots()
    for place, (name, bound) in enumerate(_BOUNDS):
        offsets = [i + 0.27 * (place - 1) for i in range(len(records))]
        axes.bar(offsets, [bound(r) for r in records], width=0.25, label=f"at least this, {name}")
    claimed = [r["claimed_epsilon"] for r in records]
    axes.hlines(
        claimed,
        [i - 0.42 for i in range(len(records))],
        [i + 0.42 for i in range(len(records))],
        color="black",
        label="claimed: at most this",
    )
    names = [
        f"{_MODELS.get(r['model'], r['model'])}, {path_of(r)}\n"
        f"{r['details']['canaries']:,} canaries\nclaim: {r['claimed_epsilon']:.2g}"
        for r in records
    ]
    axes.set_xticks(range(len(records)), names, fontsize=8)
    of = "delta = {delta:g}, {confidence:.0%} confidence".format(**records[0])
    axes.set(ylabel="epsilon", title=f"Epsilon claimed, and audited from one training ({of})")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=8)
    return figures.save(figure, path)


def _in_order(records):
    return sorted(records, key=lambda r: (r["claimed_epsilon"], r["model"], path_of(r)))
