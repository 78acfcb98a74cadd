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
    flags.DEFINE_float("epsilon", 3.0, "Target epsilon.")
    flags.DEFINE_integer("seed", 0, "Seeds initial weights and the public images.")
    flags.DEFINE_integer("steps", None, "Updates; default: the experiment's own.")
    flags.DEFINE_string("output_dir", "outputs/demo", "Folder for records and plot.")
    common.define("dry_run", "mixed_precision")


def main():
    settings, precision = {"seed": FLAGS.seed, "steps": FLAGS.steps}, common.given_precision()
    specs = {n: in_precision(digits_spec(n, FLAGS.epsilon, **settings), precision) for n in DIGITS}
    if FLAGS.dry_run:
        for spec in specs.values():
            common.show_dry_run(spec)
        return
    from trainers.registry import run_cell
    from trainers.report import captions, plots, tables
    from trainers.runs.data import load_experiment_data

    folder = pathlib.Path(FLAGS.output_dir)
    results = {}
    for name, spec in specs.items():
        data = load_experiment_data(spec)
        if not results:
            print(
                f"DIGITS: {data.num_examples:,} private images to train on, {len(data.test_y)} to "
                "test on.\n"
                "Public images, for the one network that uses them, are synthetic.\n"
            )
        # A folder that no other run has: it keeps its ledger.
        folders = (folder / f"{name}-run{number}" for number in itertools.count(1))
        run_dir = next(path for path in folders if not path.exists())
        spec = common.declared(spec)
        results[name] = run_cell(spec, data=data, output_dir=folder, run_dir=run_dir)
        print()
    records = [result.record for result in results.values()]
    print(tables.run_table(records))
    print("\n" + results[name].model.privacy_statement() + "\n")
    title = captions.title("davody_digits", records)
    print(f"Plot: {plots.plot_experiment(records, folder / 'demo.png', title)}")


if __name__ == "__main__":
    common.run(__name__)
