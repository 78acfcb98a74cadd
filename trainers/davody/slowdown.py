"""Figure 1 of Davody et al. (2020): by which factor noise in the weights slows training down.

The paper: from 1 to 10 "by a factor of order 7 for LeNet and ResNet models".
"""

from trainers.report.markdown import table
from trainers.report.tables import mean_curve

FAST, SLOW = 1.0, 10.0  # standard deviations of the noise
PAPER = 7
_LEVELS = (15, 20, 30, 50, 70, 90, 95)  # percent of the validation examples


def notes(records):
    """Returns what stands below the figure's table, a list: a table of factors, by network."""
    rows, unreached = [], []
    for network in dict.fromkeys(record["network"] for record in records):
        of_network = [record for record in records if record["network"] == network]
        groups = ([r for r in of_network if r["weight_noise_stddev"] == s] for s in (FAST, SLOW))
        place, field = (lambda _, point: point["epoch"]), "validation_accuracy"
        fast, slow = (list(mean_curve(group, place, field).values()) for group in groups)
        for level in sorted({*_LEVELS, *([max(slow)] if slow else [])}):
            if (texts := factor(fast, slow, level)) is not None:
                rows.append((network, f"{level:.4g}", *texts))
        if fast and epochs_to(slow, fast[-1]) is None:
            end = f"reaches what the one at {FAST:g} does in the end."
            unreached.append(f"{network}: no curve at {SLOW:g} {end}")
    epochs = (f"epochs at {stddev:g}" for stddev in (FAST, SLOW))
    said = (
        f"Slow-down from noise of {FAST:g} to noise of {SLOW:g}: epochs until the validation "
        f"accuracy is reached, and their ratio. The paper has a factor of order {PAPER}. A curve "
        "has one point an epoch, so a factor is known within bounds."
    )
    return [said, table(("network", "validation accuracy %", *epochs, "factor"), rows), *unreached]


def factor(fast, slow, level):
    """Returns how much later one curve reaches a level than another; None if `fast` never does.

    The curves are lists of validation accuracies after epochs 1, 2, ..., in percent. Returns three
    texts: epochs of either curve, and the bounds of the ratio. An accuracy that is reached at epoch
    e was so between epochs e - 1 and e.
    """
    first, second = epochs_to(fast, level), epochs_to(slow, level)
    if first is None:
        return None
    if second is None:
        return str(first), f"more than {len(slow)}", f"over {len(slow) / first:.3g}"
    least = (second - 1) / first
    if first == 1:
        bounds = f"over {least:.3g}" if least else "not known"
    else:
        bounds = f"{least:.3g} to {second / (first - 1):.3g}"
    return str(first), str(second), bounds


def epochs_to(curve, level):
    """Returns after how many epochs a curve is at a level or above; None if it never is."""
    return next((epoch for epoch, value in enumerate(curve, 1) if value >= level), None)
