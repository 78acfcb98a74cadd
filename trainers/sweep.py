"""Trains those runs of a table whose records are missing; the same command resumes it.

python -m trainers.sweep --experiment=davody_table5 --seeds=3 --dry_run
python -m trainers.sweep --experiment=davody_table5 --seeds=3 --workers=2
python -m trainers.sweep --experiment=davody_table5 --cells='*/eps=1,layer/eps=7'
"""

from trainers import common  # before everything that loads TensorFlow  # isort: skip

import sys

from absl import flags

from trainers import registry as cells
from trainers.cells import in_precision
from trainers.scale import at_scale

FLAGS = flags.FLAGS


def define_flags():
    flags.DEFINE_enum("experiment", "davody_table5", cells.EXPERIMENTS, "Which table to train.")
    flags.DEFINE_integer("seeds", 1, "How many seeds each cell is trained with: 0, 1, ...")
    flags.DEFINE_integer("seed", None, "Train this seed alone.", lower_bound=0)
    flags.DEFINE_list(
        "cells", [], "Which cells: names or shell-style patterns such as */eps=1; default: all."
    )
    flags.DEFINE_integer(
        "workers",
        None,
        "How many runs are trained at once, a process each, with a GPU each if there are any; "
        "default: one for each GPU.",
    )
    common.define("scale", "mixed_precision", "data_dir")
    flags.DEFINE_string("output_dir", "results", "Folder of the records.")
    flags.DEFINE_string("runs_dir", "outputs/runs", "Folder of unfinished runs and of the logs.")
    flags.DEFINE_string(
        "models_dir",
        None,
        "Folder for the trained models and their privacy statements; default: none are kept.",
    )
    flags.DEFINE_bool("dry_run", False, "Print finished and remaining runs; train nothing.")


def main():
    from trainers.records.store import KEPT
    from trainers.sweeps import pool, sweep

    table = f"All done. The table: python -m trainers.table --experiment={FLAGS.experiment}"
    if FLAGS.output_dir != FLAGS["output_dir"].default:
        table += f" --results_dir={FLAGS.output_dir}"
    precision = common.given_precision()
    with at_scale(FLAGS.scale):
        specs = cells.cells(FLAGS.experiment)
    code = sweep.sweep(
        [in_precision(cell, precision) for cell in specs],
        run_cell=cells.run_cell,
        seeds=FLAGS.seeds if FLAGS.seed is None else 1,
        first_seed=FLAGS.seed or 0,
        patterns=FLAGS.cells,
        workers=max(1, len(pool.gpus())) if FLAGS.workers is None else FLAGS.workers,
        data_dir=FLAGS.data_dir,
        output_dir=FLAGS.output_dir,
        runs_dir=FLAGS.runs_dir,
        models_dir=FLAGS.models_dir,
        kept_dir=KEPT,
        dry_run=FLAGS.dry_run,
        when_done=table,
    )
    sys.exit(code)


if __name__ == "__main__":
    common.run(__name__)
