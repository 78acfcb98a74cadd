"""Rows that are computed for each expected example of a batch, and what their limit costs.

    python -m benchmarks.padding

Trains nothing: the plans are made with and without a limit. Prints a table.
"""

import math
from dataclasses import replace

from absl import app
from scipy import stats

from tfdpnorm.privacy import PrivacyBudget, make_plan

DELTA, MULTIPLE = 1e-5, 8
# Number of examples, expected batch size, updates, epsilon.
PLANS = (
    (1_500, 64, 400, 1.0),
    (1_500, 64, 400, 3.0),
    (1_500, 256, 400, 3.0),
    (12_000, 256, 400, 1.0),
    (12_000, 256, 400, 3.0),
    (12_000, 1_024, 400, 3.0),
    (60_000, 64, 2_000, 1.0),
    (60_000, 256, 2_000, 3.0),
    (60_000, 1_024, 2_000, 1.0),
    (60_000, 4_096, 2_000, 3.0),
)
HEAD = """\
| examples, expected batch, updates, epsilon | noise multiplier | S | rows per expected example | \
before | standard deviations | epsilon without the limit |
|---|---|---|---|---|---|---|"""


def main(_):
    """Prints the table."""
    print(HEAD)
    for settings in PLANS:
        print(text_of(measure(*settings)))


def measure(num_examples, batch_size, steps, epsilon):
    """Returns what an update computes, a dict."""
    plan = make_plan(
        num_examples=num_examples,
        expected_batch_size=batch_size,
        steps=steps,
        l2_norm_clip=1.0,
        budget=PrivacyBudget(epsilon, DELTA),
        accountant="pld",
    )
    rate = batch_size / num_examples
    stddev = math.sqrt(batch_size * (1 - rate))
    unlimited = replace(plan, most_per_batch=num_examples)
    return {
        "plan": (num_examples, batch_size, steps, epsilon),
        "noise_multiplier": plan.noise_multiplier,
        "most": plan.most_per_batch,
        "rows": plan.most_per_batch / batch_size,
        "rows_before": rows_before(num_examples, rate, steps) / batch_size,
        "stddevs": (plan.most_per_batch - batch_size) / stddev,
        "epsilons": (unlimited.epsilon_after(steps), plan.epsilon_after(steps)),
    }


def rows_before(num_examples, rate, steps):
    """The rows of a batch that no update of the run exceeds, but with delta / 1,000."""
    enough = stats.binom.isf(1e-3 * DELTA / steps, num_examples, rate)
    return MULTIPLE * math.ceil(enough / MULTIPLE)


def text_of(row):
    """Returns a row of the table, in Markdown."""
    examples, batch, steps, epsilon = row["plan"]
    without, with_it = row["epsilons"]
    return (
        f"| {examples:,}, {batch:,}, {steps:,}, {epsilon:g} | {row['noise_multiplier']:.2f} | "
        f"{row['most']:,} | {row['rows']:.2f} | {row['rows_before']:.2f} | {row['stddevs']:.1f} | "
        f"{without:.4f} of {with_it:.4f} |"
    )


if __name__ == "__main__":
    app.run(main)
