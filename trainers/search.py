"""Searches for the settings of a cell; the epsilon of the winner covers the search.

    python -m trainers.search --experiment=davody_table5 --cell=layer/eps=3 \
        --over=learning_rate,l2_norm_clip --expected_trials=8
    python -m trainers.search --experiment=davody_table5 --cell=layer/eps=3 --dry_run \
        --over=learning_rate=0.3:1:3,norm=layer:group --tuner=bayesian

The cell's epsilon, or --epsilon, is the budget of all trials together. With
--tuner=private_random the best of a random number of trials is released; bayesian chooses settings
by scores, and all of its trials are composed. Cells without privacy are searched by Keras Tuner
alone, --tuner=random or bayesian, and nothing is paid for. Writes the record of the winner, a table
of the trials in it, and a plot of these.
"""

from trainers import common, spec_flags  # before everything that loads TensorFlow  # isort: skip

import pathlib

from absl import flags

from trainers import registry
from trainers.specs import PrivateSpec, SearchSpec, search_spec
from trainers.specs.options import defaults_of
from trainers.specs.private import DECLARED

FLAGS = flags.FLAGS
# What may differ from the cell, and what the user declares.
_OF_THE_CELL = ("epsilon", "delta", "precision", "insecure_seed", *DECLARED)


def define_flags():
    flags.DEFINE_enum(
        "experiment", "davody_table5", registry.EXPERIMENTS, "Experiment of the cell."
    )
    flags.DEFINE_string("cell", None, "Which cell of it, such as layer/eps=3.", required=True)
    flags.DEFINE_integer("seed", 0, "Seeds initial weights and held-out examples; never noise.")
    spec_flags.define(
        SearchSpec,
        default=lambda name: "" if name == "over" else defaults_of(SearchSpec)[name],
    )
    spec_flags.define(
        PrivateSpec,
        default=lambda name: "the cell's",
        only=_OF_THE_CELL,
        help={
            "epsilon": "Budget of the search; default: the epsilon of the cell.",
            "search": "For the privacy statement: how the ranges and the other settings were "
            "found; default: the tuner and what it searched over.",
        },
    )
    flags.mark_flag_as_required("over")
    common.define(*common.OF_PRIVATE_RUNS)


def main():
    cells = registry.cells(FLAGS.experiment)
    known = {cell.cell: cell for cell in cells}
    if FLAGS.cell not in known:
        raise ValueError(
            f"Expected --cell to be one of {', '.join(known)}, got {FLAGS.cell!r}. Choose one."
        )
    settings = {**common.parsed(PrivateSpec), **spec_flags.parsed(SearchSpec)}
    spec = search_spec(known[FLAGS.cell], **settings)
    if FLAGS.dry_run:
        common.train(spec)
        return
    record = common.train(spec).record
    from trainers.report import searches

    path = pathlib.Path(FLAGS.output_dir) / f"search-{searches.name_of(record)}"
    table = searches.trials_table(record)
    path.with_name(f"{path.name}.md").write_text(table)
    plot = searches.plot_searches([record], path.with_name(f"{path.name}.png"), record["cell"])
    print(f"{table}\nWritten: {path}.md, {plot}")


if __name__ == "__main__":
    common.run(__name__)
