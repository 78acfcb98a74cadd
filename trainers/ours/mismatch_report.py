"""The table of public rows that differ from the private ones, made from records."""

import statistics

from trainers.report.markdown import table

_COLUMNS = ("shift", "scale", "uneven", "correlation")


def mismatch_text(records):
    """Returns the table of sets of public rows, in Markdown, the best accuracy first.

    Args:
        records: Records of "method_mismatch" with `SENSITIVITY_FIELDS`.
    """
    by_name = {}
    for record in records:
        for row in record["rows"]:
            by_name.setdefault(row["public_rows"], []).append(row)
    lines = [(_mean(rows, "test_accuracy"), name, rows) for name, rows in by_name.items()]
    cells = [
        (
            name,
            str(rows[0]["count"]),
            _accuracies(rows),
            *(_over_layers(rows, column) for column in _COLUMNS),
            _largest(rows, "amplification"),
            f"{statistics.mean(max(row['noise'].values()) for row in rows):.1f}",
        )
        for _, name, rows in sorted(lines, key=lambda line: -line[0])
    ]
    flags = records[0]["flags"]
    header = ("public rows", "M", "test accuracy %", *_COLUMNS, "1 / (v + eps)", "noise")
    return "\n\n".join(
        [
            f"Made from {len(records)} records by `python -m trainers.method_mismatch "
            f"--nocompute --output_dir=...`. LeNet-5 on {flags['dataset']}, epsilon "
            f"{flags['epsilon']:g}, "
            f"{flags['steps']} batches of {flags['expected_batch_size']}; only the public rows "
            '("own": images of the private set, as if they were public) differ.',
            table(header, cells),
            "After the last update, over the layers: *shift* of the private mean, in public "
            "standard deviations (first and last layer); *scale*, the private standard deviation "
            "over the public one; *uneven*, how much that ratio differs among channels (standard "
            "deviation of its logarithm); *correlation*, the difference of the channels' "
            "correlations over their size; the largest *1 / (v + eps)*; *noise*, what the "
            "pull-back adds to each number of the kernel that it hits hardest, in standard "
            "deviations of the noise that the number has already (with a `pull_back_weight` of 1).",
        ]
    )


def _mean(rows, field):
    return statistics.mean(row[field] for row in rows)


def _accuracies(rows):
    values = [row["test_accuracy"] for row in rows]
    spread = f" +- {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread}"


def _over_layers(rows, field):
    """Means over records of the first and the last layer after the last update."""
    last = [_last(row) for row in rows]
    first, final = (statistics.mean(layers[i][field] for layers in last) for i in (0, -1))
    return f"{first:.2f}, {final:.2f}"


def _largest(rows, field):
    return f"{statistics.mean(max(x[field] for x in _last(row)) for row in rows):.0f}"


def _last(row):
    update = max(found["update"] for found in row["moments"])
    return [found for found in row["moments"] if found["update"] == update]
