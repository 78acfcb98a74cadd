"""Makes an experiment's table and plot from the records of its runs.

python -m trainers.table --experiment=davody_table5
python -m trainers.table --experiment=davody_figure1 --curves
python -m trainers.table --experiment=klause_table1 --curves
"""

from trainers import common  # before everything that loads TensorFlow  # isort: skip

import functools
import pathlib

from absl import flags

from trainers import registry as cells
from trainers.records.fields import SENSITIVITY_FIELDS
from trainers.records.store import read_records

FLAGS = flags.FLAGS


def define_flags():
    flags.DEFINE_string("experiment", "davody_table5", "Which experiment's records to show.")
    flags.DEFINE_string(
        "results_dir", "results", "Folder of the records; table and plot are written there."
    )
    flags.DEFINE_bool(
        "curves",
        False,
        "Draw training curves: a plot for each column of the table; with noise in the "
        "weights, for each network.",
    )


def main():
    from trainers.audits.report import sensitivity_column
    from trainers.ermis import plots as ermis_plots
    from trainers.ours import fixed_plot
    from trainers.report import captions, plots, searches, tables

    folder = pathlib.Path(FLAGS.results_dir)
    records = _records(folder)
    if not records:
        others = sorted({record["experiment"] for record in read_records(folder)})
        remedy = "Choose one of these."
        if FLAGS.experiment in cells.EXPERIMENTS:
            remedy = f"Train its cells: python -m trainers.sweep --experiment={FLAGS.experiment}"
        raise ValueError(
            f"There are no records of --experiment={FLAGS.experiment} in {folder}; there are "
            f"records of {', '.join(others) or 'no experiment'}. {remedy}"
        )
    networks = cells.networks(FLAGS.experiment)
    audits = []
    if (folder / "audits").is_dir():
        audits = read_records(folder / "audits", "audit_sensitivity", fields=SENSITIVITY_FIELDS)
    more = sensitivity_column(records, [row for audit in audits for row in audit["rows"]])
    form = cells.table_form(FLAGS.experiment)
    table = tables.experiment_table(records, networks, more, form)
    if known := tables.public_knowledge(records):
        table += f"\n\n{known}"
    if any(map(searches.has_search, records)):
        table += f"\n\n{searches.searches_table(records)}"
    if said := cells.notes(FLAGS.experiment, records):
        table += f"\n\n{said}"
    print(table)
    text = folder / f"{FLAGS.experiment}.md"
    has_noisy_weights = records[0]["weight_noise_stddev"] is not None
    theirs = "paper's" if form.beside == "paper" else form.beside
    text.write_text(
        f"Made from {len(records)} records by `python -m trainers.table "
        f"--experiment={FLAGS.experiment}`. {tables.caption(records)}Test accuracy in "
        f"percent: {form.caption()}; the {theirs} figure.\n\n"
        f"{table}\n"
    )
    draw = functools.partial(plots.plot_experiment, form=form)
    if has_noisy_weights:
        draw = plots.plot_weight_noise
    draw = (ermis_plots.PLOTS | fixed_plot.PLOTS).get(FLAGS.experiment, draw)
    if any(map(searches.has_search, records)):
        draw = searches.plot_searches
    title = captions.title(FLAGS.experiment, records)
    made = [draw(records, folder / f"{FLAGS.experiment}.png", title, networks)]
    if FLAGS.curves:
        made += (_curves if has_noisy_weights else _training)(records, folder)
    print(f"Written: {', '.join(str(path) for path in [text, *made])}")


def _records(folder):
    """The records that the table is made of: those of its cells, if another experiment's."""
    sources = cells.sources(FLAGS.experiment)
    records = [record for source in sources for record in read_records(folder, source)]
    if sources == (FLAGS.experiment,):
        return records
    names = {spec.cell for spec in cells.cells(FLAGS.experiment)}
    return [record for record in records if record["cell"] in names]


def _curves(records, folder):
    from trainers.report import captions, plots

    paths = []
    for network in dict.fromkeys(r["network"] for r in records if r["curve"]):
        path = folder / f"{FLAGS.experiment}-{network}.png"
        of_network = [record for record in records if record["network"] == network]
        title = captions.title(FLAGS.experiment, of_network, network)
        paths.append(plots.plot_curves(of_network, path, title))
    return paths


def _training(records, folder):
    from trainers.report import captions, plots

    # A run without privacy, or on frozen features, is not evaluated on the way.
    with_curve = [r for r in records if len(r["curve"] or ()) > 1 and r["sampling_rate"]]
    paths, networks = [], cells.networks(FLAGS.experiment)
    for column in dict.fromkeys(record["column"] for record in with_curve):
        of_column = [record for record in with_curve if record["column"] == column]
        title = captions.title(FLAGS.experiment, of_column, column.replace("eps=", "epsilon "))
        path = folder / f"{FLAGS.experiment}-{column}-training.png"
        paths.append(plots.plot_training(of_column, path, title, networks))
    return paths


if __name__ == "__main__":
    common.run(__name__)
