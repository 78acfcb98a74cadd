"""Makes an experiment's table and plot from the records of its runs.

python -m trainers.table --experiment=davody_table5
python -m trainers.table --experiment=davody_figure1 --curves
"""

from trainers import common  # before everything that loads TensorFlow  # isort: skip

import pathlib

from absl import flags

from tfdpnorm.experiments import registry as cells
from tfdpnorm.experiments.records.record import read_records
from tfdpnorm.experiments.report import plots, tables
from tfdpnorm.experiments.report.audits import sensitivity_column
from tfdpnorm.experiments.runs.audits import SENSITIVITY_FIELDS

FLAGS = flags.FLAGS


def define_flags():
    """Defines this program's flags."""
    flags.DEFINE_string("experiment", "davody_table5", "Which experiment's records to show.")
    flags.DEFINE_string("results_dir", "results", "Folder of the records; table and plot go there.")
    flags.DEFINE_bool(
        "curves", False, "Draw the course of training with noise in the weights, for each network."
    )


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
    networks = cells.networks(FLAGS.experiment)
    more = sensitivity_column(records, _audited(folder / "audits"))
    table = tables.experiment_table(records, networks, more)
    print(table)
    text = folder / f"{FLAGS.experiment}.md"
    noisy = [r for r in records if r["weight_noise_stddev"] is not None]
    kind = "Trained without privacy, with noise in the weights. " if noisy else ""
    text.write_text(
        f"Made from {len(records)} records by `python -m trainers.table "
        f"--experiment={FLAGS.experiment}`. {kind}Test accuracy in percent: mean +- standard "
        f"deviation over runs [weight average]; the paper's figure.\n\n{table}\n"
    )
    draw = plots.plot_weight_noise if noisy else plots.plot_experiment
    made = [draw(records, folder / f"{FLAGS.experiment}.png", FLAGS.experiment, networks)]
    curves = [r["cell"].split("/")[0] for r in noisy if r["curve"]] if FLAGS.curves else []
    for network in dict.fromkeys(curves):
        made.append(
            plots.plot_curves(
                [r for r in noisy if r["cell"].split("/")[0] == network],
                folder / f"{FLAGS.experiment}-{network}.png",
                f"{FLAGS.experiment}: {network}",
            )
        )
    print(f"Written: {', '.join(str(path) for path in [text, *made])}")


def _audited(folder):
    if not folder.is_dir():
        return []
    audits = read_records(folder, "audit_sensitivity", fields=SENSITIVITY_FIELDS)
    return [row for audit in audits for row in audit["rows"]]


if __name__ == "__main__":
    define_flags()
    common.run_app(main)
