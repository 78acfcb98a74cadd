"""The table of planted faults, made from its record and nothing else."""

import math

from tfdpnorm.privacy.rounding import ceil_text
from trainers.report.markdown import table

_NO_FAULT = "no fault"


def planted_text(record):
    """Returns the table of faults and audits, what it costs, and its scale, in Markdown.

    Args:
        record: Record with `SENSITIVITY_FIELDS` of the experiment "audit_planted".
    """
    rows, flags = record["rows"], record["flags"]
    names = list(rows[0]["audits"])
    cells = [
        (
            f"{row['fault']} ({row['path']})",
            _epsilon(row["true_epsilon"]),
            *(_verdict(row, name) for name in names),
        )
        for row in rows
    ]
    header = ("fault", f"epsilon (claimed: {ceil_text(rows[0]['claimed_epsilon'])})", *names)
    seconds = [max(row["audits"][name]["seconds"] for row in rows) for name in names]
    costs = ("seconds, at most", "", *(f"{s:.0f}" for s in seconds))
    training = max(row["training_seconds"] for row in rows)
    total = flags["num_examples"] + flags["canaries"]
    return "\n\n".join(
        [
            table(header, [*cells, costs]),
            f"Claim: epsilon {flags['epsilon']:g} at delta {flags['delta']:g}, {flags['model']}. "
            f"Trainings with canaries: {flags['canaries']:,} gradient canaries among {total:,} "
            f"rows, q = {flags['expected_batch_size'] / total:.3g}, T = {flags['steps']}, "
            f"z = {rows[0]['noise_multiplier']:.3f}, {flags['guesses']:,} guesses; they take up to "
            f"{training:.0f} s, which the audits of lot sizes, noise and canaries share. One step: "
            f"2 x {flags['one_step_samples']:,} runs. Each audit may raise a false alarm in "
            f"{flags['level']:.0%} of honest trainings. In brackets: how often theory expects "
            "canaries to show the fault, from 50 simulated trainings with exactly this fault; no "
            "figure where what is wrong is not the noise, the clip or the rate of a canary.",
            f"{_caught(rows)} Caught by none, or alarmed without a fault: "
            f"{'; '.join(surprises(record)) or 'nothing'}.",
        ]
    )


def surprises(record):
    """Returns in words the faults that no audit caught, and the audits that raised false alarms.

    Args:
        record: As of `planted_text`.
    """
    found = []
    for row in record["rows"]:
        caught = [name for name, audit in row["audits"].items() if audit["caught"]]
        if row["fault"] == _NO_FAULT:
            found += [f"false alarm of {name}" for name in caught]
        elif not caught:
            found.append(row["fault"])
    return found


def _caught(rows):
    faults = [row for row in rows if row["fault"] != _NO_FAULT]
    caught = sum(any(audit["caught"] for audit in row["audits"].values()) for row in faults)
    return f"{caught} of {len(faults)} planted faults were caught by at least one audit."


def _epsilon(value):
    if value is None:
        return "no figure"
    return "none holds" if math.isinf(value) else ceil_text(value)


def _verdict(row, name):
    verdict = "**caught**" if row["audits"][name]["caught"] else "-"
    share = (row["expected"] or {}).get(name)
    return verdict if share is None else f"{verdict} ({share:.0%})"
