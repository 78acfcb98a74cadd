"""Ours: training per person compared with training per row, at equal epsilon of a person.

    python -m trainers.per_person --dataset=digits
    python -m trainers.per_person --nocompute --output_dir=results/persons

Gives the rows of DIGITS and MNIST to synthetic persons, who have 1 to 10 of them, of any class or
of one class, and trains on them in several ways. Each run writes a record; a run whose record is in
--output_dir already is not repeated. Table and plot are made from the records.
"""

from trainers import common  # before everything that loads TensorFlow  # isort: skip

import numpy as np
from absl import flags

from trainers.ours.persons_runs import CHOSEN, EPSILONS, KINDS, ROWS, runs
from trainers.records.fields import PERSONS_FIELDS
from trainers.records.store import read_records, write_record

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
        _train(common.make_output_dir())
    from trainers.ours.persons_report import persons_text, plot_persons

    common.show_records("per_person", PERSONS_FIELDS, persons_text, plot_persons)


def _train(folder):
    from trainers.data.sources import load_examples
    from trainers.ours.persons import persons_record

    known = read_records(folder, "per_person", fields=PERSONS_FIELDS)
    known = {(record["cell"], record["seed"]) for record in known}
    sets = {
        name: [load_examples(name, split, FLAGS.data_dir) for split in ("train", "test")]
        for name in FLAGS.dataset
    }
    for name, (train, test) in sets.items():
        if name in ROWS:
            sets[name] = train.take(np.arange(ROWS[name])), test
    for run in runs(FLAGS.dataset, FLAGS.epsilon, FLAGS.seed):
        if (run.cell, run.seed) in known or run.kind not in FLAGS.persons:
            continue
        precision = common.given_precision() or "float32"
        record = persons_record(run, *sets[run.dataset], precision)
        write_record(folder, record, PERSONS_FIELDS)
        print(f"  {run.cell}, seed {run.seed}: {record['test_accuracy']:.2f} %", flush=True)


if __name__ == "__main__":
    common.run(__name__)
