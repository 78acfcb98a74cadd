"""Ours: training per person compared with training per row, at equal epsilon of a person.

    python -m trainers.per_person --dataset=digits
    python -m trainers.per_person --nocompute --output_dir=results/persons

Gives the rows of DIGITS and MNIST to synthetic persons, who have 1 to 10 of them, of any class or
of one class, and trains on them in several ways. Each run writes a record; a run whose record is in
--output_dir already is not repeated. Table and plot are made from the records.
"""

from trainers import common  # before everything that loads TensorFlow  # isort: skip

import functools

import numpy as np
from absl import flags

from trainers.ours.persons_runs import CHOSEN, EPSILONS, KINDS, ROWS, runs
from trainers.records.fields import PERSONS_FIELDS

FLAGS = flags.FLAGS


def define_flags():
    flags.DEFINE_multi_enum("dataset", list(CHOSEN), list(CHOSEN), "Data set; may be repeated.")
    flags.DEFINE_multi_enum(
        "persons", list(KINDS), list(KINDS), "Kind of persons; may be repeated."
    )
    flags.DEFINE_multi_float("epsilon", EPSILONS, "Epsilon of a person; may be repeated.")
    flags.DEFINE_multi_integer("seed", [0, 1, 2], "Seeds persons and weights; may be repeated.")
    common.define("compute", "mixed_precision", "data_dir")
    flags.DEFINE_string("output_dir", "outputs/persons", "Folder of records, table and plot.")


def main():
    if not set(FLAGS.epsilon) <= set(EPSILONS):
        raise ValueError(f"Expected --epsilon among {EPSILONS}, got {FLAGS.epsilon}.")
    if FLAGS.compute:
        every = runs(FLAGS.dataset, FLAGS.epsilon, FLAGS.seed)
        chosen = [run for run in every if run.kind in FLAGS.persons]
        common.make_missing("per_person", PERSONS_FIELDS, chosen, _record)
    from trainers.ours.persons_report import persons_text, plot_persons

    common.show_records("per_person", PERSONS_FIELDS, persons_text, plot_persons)


@functools.cache
def _sets(name):
    from trainers.data.sources import load_examples

    train, test = (load_examples(name, split, FLAGS.data_dir) for split in ("train", "test"))
    return train.take(np.arange(ROWS[name])) if name in ROWS else train, test


def _record(run):
    from trainers.ours.persons import persons_record

    return persons_record(run, *_sets(run.dataset), common.given_precision() or "float32")


if __name__ == "__main__":
    common.run(__name__)
