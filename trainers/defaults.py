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

from tfdpnorm.files import make_folder
from trainers.ours.defaults_runs import DATASETS, EPSILONS, NORMS, DefaultsRun
from trainers.records.fields import DEFAULTS_FIELDS
from trainers.records.store import read_records, write_record

FLAGS = flags.FLAGS


def define_flags():
    """Defines this program's flags."""
    flags.DEFINE_multi_enum("dataset", ["digits"], DATASETS, "Data set; may be repeated.")
    flags.DEFINE_multi_enum("norm", list(NORMS), NORMS, "Normalisation; may be repeated.")
    flags.DEFINE_multi_float("epsilon", EPSILONS, "Target epsilon; may be repeated.")
    flags.DEFINE_multi_enum("optimizer", ["sgd"], ("sgd", "adam"), "Optimizer; may be repeated.")
    flags.DEFINE_multi_integer("seed", [0, 1, 2], "Seeds initial weights; may be repeated.")
    flags.DEFINE_multi_float(
        "times_rate", [1.0], "What the suggested learning rate is multiplied by; may be repeated."
    )
    flags.DEFINE_bool("compute", True, "Train; otherwise show the records of the folder again.")
    common.define_mixed_precision()
    common.define_data_dir()
    common.define_cache_dir()
    flags.DEFINE_string("results_dir", "results", "Folder of the records of searched cells.")
    flags.DEFINE_string("output_dir", "outputs/defaults", "Folder of records and table.")


def main():
    """Trains what has no record yet, and shows the table."""
    folder = make_folder(FLAGS.output_dir, "output_dir")
    if FLAGS.compute:
        _train(folder)
    records = read_records(folder, "defaults", fields=DEFAULTS_FIELDS)
    if not records:
        raise ValueError(f"There are no records in {folder}. Leave out --nocompute.")
    from trainers.ours.defaults import TUNED, defaults_text

    tuned = [
        record for experiment in TUNED for record in read_records(FLAGS.results_dir, experiment)
    ]
    text = defaults_text(records, tuned)
    (folder / "defaults.md").write_text(text + "\n", "utf-8")
    print(f"{text}\n\nTable: {folder / 'defaults.md'}")


def _train(folder):
    from trainers.ours.defaults import defaults_record
    from trainers.ours.defaults_data import load_task

    known = read_records(folder, "defaults", fields=DEFAULTS_FIELDS)
    known = {(record["cell"], record["seed"]) for record in known}
    precision = common.given_precision() or "float32"
    chosen = (
        *(FLAGS.dataset, FLAGS.norm, FLAGS.epsilon, FLAGS.optimizer, FLAGS.seed),
        FLAGS.times_rate,
    )
    for values in itertools.product(*chosen):
        run = DefaultsRun(*values)
        if (run.cell, run.seed) in known:
            continue
        task = load_task(run, precision, data_dir=FLAGS.data_dir, cache_dir=FLAGS.cache_dir)
        record = defaults_record(run, task, precision)
        write_record(folder, record, DEFAULTS_FIELDS)
        print(f"  {run.cell}, seed {run.seed}: {record['test_accuracy']:.2f} %", flush=True)


if __name__ == "__main__":
    define_flags()
    common.run_app(main)
