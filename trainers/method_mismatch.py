"""Ours: how public rows may differ from the private ones, on MNIST as if it were public.

    python -m trainers.method_mismatch

Trains LeNet-5 once with each of some twenty sets of public rows, most of them MNIST images altered
in one way (mean, scale, covariance, number), and compares the moments of public and private rows at
every layer. Record and table go to --output_dir. The accuracies are of private training; the
moments of private rows are not private.
"""

from trainers import common  # before everything that loads TensorFlow  # isort: skip

from absl import flags

from tfdpnorm.files import make_folder
from trainers.cells import in_precision
from trainers.ours.method_cells import mismatch_spec
from trainers.records.fields import SENSITIVITY_FIELDS
from trainers.records.store import read_records, write_record

FLAGS = flags.FLAGS


def define_flags():
    """Defines this program's flags."""
    flags.DEFINE_float("epsilon", 7.0, "Target epsilon.")
    flags.DEFINE_integer("seed", 0, "Seeds initial weights and public rows.")
    flags.DEFINE_integer("steps", 400, "Updates, with batches of 32.")
    flags.DEFINE_list("rows", [], "Names of sets of public rows; default: all.")
    flags.DEFINE_bool("compute", True, "Train; otherwise show the records of the folder again.")
    common.define_data_dir()
    common.define_dry_run()
    common.define_mixed_precision()
    flags.DEFINE_string("output_dir", "outputs/mismatch", "Folder of record and table.")


def main():
    """Trains and measures, or reads the records, and shows the table."""
    if FLAGS.dry_run:
        common.show_dry_run(_spec())
        print("  That is one of the trainings: there is one for each set of public rows.")
        return
    from trainers.ours.mismatch_report import mismatch_text

    folder = make_folder(FLAGS.output_dir, "output_dir")
    if FLAGS.compute:
        write_record(folder, _measured(), SENSITIVITY_FIELDS)
    records = read_records(folder, "method_mismatch", fields=SENSITIVITY_FIELDS)
    if not records:
        raise ValueError(f"There is no record in {folder}. Leave --nocompute out.")
    text = mismatch_text(records)
    (folder / "method_mismatch.md").write_text(text + "\n", "utf-8")
    print(f"{text}\n\nTable: {folder / 'method_mismatch.md'}")


def _spec():
    spec = mismatch_spec(FLAGS.epsilon, seed=FLAGS.seed, steps=FLAGS.steps)
    return in_precision(spec, common.given_precision())


def _measured():
    from trainers.ours.mismatch import altered_rows, mismatch_record
    from trainers.runs.data import load_experiment_data

    spec = _spec()
    data = load_experiment_data(spec, FLAGS.data_dir)
    rows = altered_rows(data.public_x, seed=FLAGS.seed, data_dir=FLAGS.data_dir)
    unknown = sorted(set(FLAGS.rows) - set(rows))
    if unknown:
        raise ValueError(f"Expected --rows among {', '.join(rows)}, got {', '.join(unknown)}.")
    chosen = {name: rows[name] for name in FLAGS.rows or rows}
    return mismatch_record(spec, data, chosen)


if __name__ == "__main__":
    define_flags()
    common.run_app(main)
