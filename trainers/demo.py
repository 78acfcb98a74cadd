"""The main job in small: DIGITS, privately, with three normalisations. `make demo` runs it.

Trains LeNet-5 on the 1,797 real images that come with scikit-learn, to a target epsilon, once
without normalisation, once with layer normalisation and once with public-batch normalisation, whose
public images are synthetic.
"""

from trainers import common  # before everything that loads TensorFlow  # isort: skip

import itertools
import pathlib

from absl import flags

from trainers.cells import in_precision
from trainers.ours.method_cells import DIGITS, digits_spec

FLAGS = flags.FLAGS


def define_flags():
    """Defines this program's flags."""
    flags.DEFINE_float("epsilon", 3.0, "Target epsilon.")
    flags.DEFINE_integer("seed", 0, "Seeds initial weights and the public images.")
    flags.DEFINE_integer("steps", None, "Updates; default: the experiment's own.")
    flags.DEFINE_string("output_dir", "outputs/demo", "Folder for records and plot.")
    common.define_dry_run()
    common.define_mixed_precision()


def main():
    """Trains the three networks and shows what they reached."""
    specs = [
        in_precision(
            digits_spec(name, FLAGS.epsilon, seed=FLAGS.seed, steps=FLAGS.steps),
            common.given_precision(),
        )
        for name in DIGITS
    ]
    if FLAGS.dry_run:
        for spec in specs:
            common.show_dry_run(spec)
        return
    from trainers.registry import run_cell
    from trainers.report import captions, plots, tables
    from trainers.runs.data import load_experiment_data

    folder = pathlib.Path(FLAGS.output_dir)
    records, curves = [], {}
    for name, spec in zip(DIGITS, specs, strict=True):
        data = load_experiment_data(spec)
        if not records:
            print(
                f"DIGITS: {data.num_examples:,} private images to train on, {len(data.test_y)} to "
                "test on.\n"
                "Public images, for the one network that uses them, are synthetic.\n"
            )
        spec = common.declared(spec)
        result = run_cell(spec, data=data, output_dir=folder, run_dir=_new_folder(folder, name))
        records.append(result.record)
        curves[name] = result.curve
        print()
    print(tables.run_table(records))
    print("\n" + result.model.privacy_statement() + "\n")
    title = captions.title("davody_digits", records)
    print(f"Plot: {plots.plot_runs(curves, folder / 'demo.png', title)}")


def _new_folder(folder, name):
    """Returns a folder for the run of a network that no other run has: it keeps its ledger."""
    for number in itertools.count(1):
        found = folder / f"{name}-run{number}"
        if not found.exists():
            return found


if __name__ == "__main__":
    define_flags()
    common.run_app(main)
