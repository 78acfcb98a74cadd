"""Makes an experiment's table and plot from the records of its runs.

    python -m trainers.table --experiment=davody_table5
"""

import pathlib

from absl import flags

from tfdpnorm.experiments import tables
from tfdpnorm.experiments.records import read_records
from trainers import common

FLAGS = flags.FLAGS


def define_flags():
    """Defines this program's flags."""
    flags.DEFINE_string("experiment", "davody_table5", "Which experiment's records to show.")
    flags.DEFINE_string("results_dir", "results", "Folder of the records; table and plot go there.")


def main():
    """Prints the table, and writes it and the plot beside the records."""
    folder = pathlib.Path(FLAGS.results_dir)
    records = read_records(folder, FLAGS.experiment)
    if not records:
        others = sorted({record["experiment"] for record in read_records(folder)})
        raise ValueError(
            f"Expected records of --experiment={FLAGS.experiment} in {folder}, got none; there are "
            f"some of {', '.join(others) or 'no experiment'}. Train a cell first."
        )
    table = tables.experiment_table(records)
    print(table)
    text = folder / f"{FLAGS.experiment}.md"
    text.write_text(
        f"Made from {len(records)} records by `python -m trainers.table "
        f"--experiment={FLAGS.experiment}`. Test accuracy in percent: mean +- standard deviation "
        f"over runs [weight average]; the paper's figure.\n\n{table}\n"
    )
    plot = tables.plot_experiment(records, folder / f"{FLAGS.experiment}.png", FLAGS.experiment)
    print(f"Written: {text}, {plot}")


if __name__ == "__main__":
    define_flags()
    common.run_app(main)
