"""Ours: trainings with nothing chosen but model, budget and number of examples.

    python -m trainers.defaults --dataset=digits
    python -m trainers.defaults --nocompute --output_dir=results/defaults

Trains with the settings that `make_private` suggests, and shows the accuracy next to that of the
cells whose settings were searched. Each run writes a record; a run whose record is in --output_dir
already is not repeated.
"""

from trainers import common  # before everything that loads TensorFlow  # isort: skip

import itertools

from absl import flags

from trainers.ours.defaults_runs import DATASETS, EPSILONS, NORMS, DefaultsRun
from trainers.records.fields import DEFAULTS_FIELDS
from trainers.records.store import read_records

FLAGS = flags.FLAGS


def define_flags():
    flags.DEFINE_multi_enum("dataset", ["digits"], DATASETS, "Data set; may be repeated.")
    flags.DEFINE_multi_enum("norm", list(NORMS), NORMS, "Normalisation; may be repeated.")
    flags.DEFINE_multi_float("epsilon", EPSILONS, "Target epsilon; may be repeated.")
    flags.DEFINE_multi_enum("optimizer", ["sgd"], ("sgd", "adam"), "Optimizer; may be repeated.")
    flags.DEFINE_multi_integer("seed", [0, 1, 2], "Seeds initial weights; may be repeated.")
    flags.DEFINE_multi_float(
        "times_rate", [1.0], "What the suggested learning rate is multiplied by; may be repeated."
    )
    common.define("compute", "mixed_precision", "data_dir", "cache_dir")
    flags.DEFINE_string("results_dir", "results", "Folder of the records of searched cells.")
    flags.DEFINE_string("output_dir", "outputs/defaults", "Folder of records and table.")


def main():
    from trainers.ours.defaults import TUNED, defaults_text

    if FLAGS.compute:
        names = ("dataset", "norm", "epsilon", "optimizer", "seed", "times_rate")
        every = itertools.product(*(FLAGS[name].value for name in names))
        runs = (DefaultsRun(*values) for values in every)
        common.make_missing("defaults", DEFAULTS_FIELDS, runs, _record)

    def text_of(records):
        tuned = [r for experiment in TUNED for r in read_records(FLAGS.results_dir, experiment)]
        return defaults_text(records, tuned)

    common.show_records("defaults", DEFAULTS_FIELDS, text_of)


def _record(run):
    from trainers.ours.defaults import defaults_record, load_task

    precision = common.given_precision() or "float32"
    task = load_task(run, precision, data_dir=FLAGS.data_dir, cache_dir=FLAGS.cache_dir)
    return defaults_record(run, task, precision)


if __name__ == "__main__":
    common.run(__name__)
