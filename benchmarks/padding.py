"""Rows that are computed for each expected example of a batch, before and after fixed slots.

    python -m benchmarks.padding --num_examples=60000 --batch_sizes=64,256,1024,4096

Trains nothing: the slots, and the sizes of Poisson-sampled batches, are known exactly. Prints a
table.
"""

import math

import numpy as np
from absl import flags
from scipy import stats

from benchmarks.step_time import run_app
from tfdpnorm.privacy.slots import slots_for

FLAGS = flags.FLAGS


def define_flags():
    """Defines this program's flags."""
    flags.DEFINE_integer("num_examples", 60_000, "N.", lower_bound=1)
    flags.DEFINE_list("batch_sizes", ["64", "256", "1024", "4096"], "Expected batch sizes.")
    flags.DEFINE_integer("physical_batch_size", 64, "Rows at once, for half of the table.")
    flags.DEFINE_integer("steps", 1_000, "T, updates of the run.", lower_bound=1)
    flags.DEFINE_float("delta", 1e-5, "Of the run.")


def main():
    """Prints what the flags ask for."""
    print(
        "| expected batch | rows at once | K x P | rows per expected row | before | "
        "standard deviations |\n|---|---|---|---|---|---|"
    )
    for text in FLAGS.batch_sizes:
        for physical in (None, FLAGS.physical_batch_size):
            settings = (FLAGS.num_examples, int(text), FLAGS.steps, FLAGS.delta, physical)
            print(text_of(measure(*settings)))


def measure(num_examples, batch_size, steps, delta, physical_batch_size=None):
    """Returns what an update computes, a dict.

    Args:
        num_examples: N.
        batch_size: L, expected.
        steps: T.
        delta: Of the run.
        physical_batch_size: Most rows at once, or None.
    """
    slots = slots_for(
        num_examples,
        batch_size,
        updates=steps,
        delta=delta,
        physical_batch_size=physical_batch_size,
    )
    rate = batch_size / num_examples
    sizes = np.arange(num_examples + 1)
    weights = stats.binom.pmf(sizes, num_examples, rate)
    stddev = math.sqrt(batch_size * (1 - rate))

    before = rows_before(num_examples, batch_size, physical_batch_size)

    def computed(least, rows):
        return float(weights @ (rows * np.maximum(least, -(-sizes // rows))))

    return {
        "batch_size": batch_size,
        "physical_batch_size": physical_batch_size,
        "slots": (slots.batches, slots.rows),
        "rows": computed(slots.batches, slots.rows) / batch_size,
        "rows_before": computed(1, before) / batch_size,
        "stddevs": (slots.batches * slots.rows - batch_size) / stddev if stddev else 0.0,
    }


def rows_before(num_examples, batch_size, physical_batch_size):
    """The rows of a physical batch by the earlier rule: 4 standard deviations above the mean.

    A batch took as many physical batches as it needed.
    """
    rate = batch_size / num_examples
    enough = batch_size + 4 * math.sqrt(rate * (1 - rate) * num_examples)
    rows = 8 * math.ceil(min(enough, num_examples) / 8)
    return rows if physical_batch_size is None else min(rows, physical_batch_size)


def text_of(row):
    """Returns a row of the table, in Markdown."""
    at_once = "all" if row["physical_batch_size"] is None else row["physical_batch_size"]
    slots = " x ".join(f"{n:,}" for n in row["slots"])
    return (
        f"| {row['batch_size']:,} | {at_once} | {slots} | {row['rows']:.2f} | "
        f"{row['rows_before']:.2f} | {row['stddevs']:.1f} |"
    )


if __name__ == "__main__":
    define_flags()
    run_app(main)
