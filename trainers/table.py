"""Makes an experiment's table and plot from the records of its runs.

    python -m trainers.table --experiment=davody_table5
    python -m trainers.table --experiment=davody_figure1 --curves
"""

from trainers import common  # before everything that loads TensorFlow  # isort: skip

import pathlib

from absl import flags

from tfdpnorm.experiments import cells, plots, tables
from tfdpnorm.experiments.audit_report import measured_sensitivities
from tfdpnorm.experiments.audits import SENSITIVITY_FIELDS, path_name
from tfdpnorm.experiments.records import read_records

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
    networks = _networks(FLAGS.experiment)
    table = tables.experiment_table(records, networks, _sensitivities(records, folder / "audits"))
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


def _networks(experiment):
    """The rows of an experiment in the paper's order; none for an experiment that is not listed."""
    if experiment not in cells.EXPERIMENTS:
        return ()
    return tuple(dict.fromkeys(s.cell.split("/")[0] for s in cells.cells(experiment)))


def _sensitivities(records, folder):
    """A column of measured sensitivities, for an experiment that compares statistics."""
    if len({r["flags"].get("statistics") for r in records}) < 2 or not folder.is_dir():
        return {}
    audits = read_records(folder, "audit_sensitivity", fields=SENSITIVITY_FIELDS)
    by_model, column = {}, {}
    for record in records:
        flags = record["flags"]
        rows = [row for audit in audits for row in audit["rows"]]
        model = flags["model"]
        by_model.setdefault(model, measured_sensitivities(rows, model))
        path = path_name(flags["norm"], flags["statistics"], flags["statistics_gradient"])
        if path in by_model[model]:
            column[record["cell"].split("/")[0]] = f"{by_model[model][path]:.4g} C"
    return {"an added row moves the sum by (audited on lots of 16)": column}


if __name__ == "__main__":
    define_flags()
    common.run_app(main)
