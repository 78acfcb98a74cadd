"""Ours: how public rows may differ from the private ones, on MNIST as if it were public.

    python -m trainers.method_mismatch

Trains LeNet-5 once with each of some twenty sets of public rows, most of them MNIST images altered
in one way (mean, scale, covariance, number), and compares the moments of public and private rows at
every layer. Record and table go to --output_dir. The accuracies are of private training; the
moments of private rows are not private.
"""

from trainers import common  # before everything that loads TensorFlow  # isort: skip

from absl import flags

from trainers.cells import in_precision
from trainers.ours.method_cells import mismatch_spec
from trainers.records.fields import SENSITIVITY_FIELDS
from trainers.records.store import write_record

FLAGS = flags.FLAGS


def define_flags():
    flags.DEFINE_float("epsilon", 7.0, "Target epsilon.")
    flags.DEFINE_integer("seed", 0, "Seeds initial weights and public rows.")
    flags.DEFINE_integer("steps", 400, "Updates, with batches of 32.")
    flags.DEFINE_list("rows", [], "Names of sets of public rows; default: all.")
    common.define("compute", "data_dir", "dry_run", "mixed_precision")
    flags.DEFINE_string("output_dir", "outputs/mismatch", "Folder of record and table.")


def main():
    spec = mismatch_spec(FLAGS.epsilon, seed=FLAGS.seed, steps=FLAGS.steps)
    spec = in_precision(spec, common.given_precision())
    if FLAGS.dry_run:
        common.show_dry_run(spec)
        print("  That is one of the trainings: there is one for each set of public rows.")
        return
    from trainers.ours.mismatch_report import mismatch_text

    if FLAGS.compute:
        write_record(common.make_output_dir(), _measured(spec), SENSITIVITY_FIELDS)
    common.show_records("method_mismatch", SENSITIVITY_FIELDS, mismatch_text)


def _measured(spec):
    from trainers.ours.mismatch import altered_rows, mismatch_record
    from trainers.runs.data import load_experiment_data

    data = load_experiment_data(spec, FLAGS.data_dir)
    rows = altered_rows(data.public_x, seed=FLAGS.seed, data_dir=FLAGS.data_dir)
    unknown = sorted(set(FLAGS.rows) - set(rows))
    if unknown:
        raise ValueError(f"Expected --rows among {', '.join(rows)}, got {', '.join(unknown)}.")
    return mismatch_record(spec, data, {name: rows[name] for name in FLAGS.rows or rows})


if __name__ == "__main__":
    common.run(__name__)
