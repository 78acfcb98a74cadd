"""The table of public rows that differ from the private ones, made from records."""

import statistics

from trainers.report.markdown import mean_text, table

_COLUMNS = ("shift", "scale", "uneven", "correlation")


def mismatch_text(records):
    """Returns the table of sets of public rows, in Markdown, the best accuracy first."""
    by_name = {}
    for record in records:
        for row in record["rows"]:
            by_name.setdefault(row["public_rows"], []).append(row)

    def accuracy(named):
        return statistics.mean(row["test_accuracy"] for row in named[1])

    by_accuracy = sorted(by_name.items(), key=accuracy, reverse=True)
    cells = [
        (
            name,
            str(rows[0]["count"]),
            mean_text([row["test_accuracy"] for row in rows]),
            *(_over_layers(rows, column) for column in _COLUMNS),
            f"{statistics.mean(max(x['amplification'] for x in _last(row)) for row in rows):.0f}",
            f"{statistics.mean(max(row['noise'].values()) for row in rows):.1f}",
        )
        for name, rows in by_accuracy
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


def _over_layers(rows, field):
    """Means over records of the first and the last layer after the last update."""
    last = [_last(row) for row in rows]
    first, final = (statistics.mean(layers[i][field] for layers in last) for i in (0, -1))
    return f"{first:.2f}, {final:.2f}"


def _last(row):
    update = max(found["update"] for found in row["moments"])
    return [found for found in row["moments"] if found["update"] == update]
