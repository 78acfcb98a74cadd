"""The flags of all programs, and the way from flags to a run.

A program is a module with `define_flags` and `main`; one that trains a single spec has `spec` in
place of `main`, or beside it for the defaults that --help shows.
"""

import functools
import logging as standard_logging
import os
import sys

# Before TensorFlow is loaded. By default it takes all memory of a GPU at once, from everybody else.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")

from absl import app, flags, logging

from tfdpnorm import files
from trainers import spec_flags
from trainers.cell_defaults import show_if_help_is_asked
from trainers.data.catalogue import check_there
from trainers.data.errors import DatasetCorruptError
from trainers.scale import SCALES, at_scale
from trainers.specs.training import CACHE_DIR

FLAGS = flags.FLAGS

# They count as flags of the program that asks for them, so that its --help lists them.
flags.disclaim_key_flags()

# By name, of flags that several programs have: how they are defined, default and help.
_SHARED = {
    "data_dir": (
        flags.DEFINE_string, None, "TFDS directory; default: TFDS_DATA_DIR, then TFDS's own."
    ),
    "dry_run": (flags.DEFINE_bool, False, "Print noise, updates and time; load and train nothing."),
    "mixed_precision": (
        flags.DEFINE_bool, None, "Compute in half precision: mixed_bfloat16, or mixed_float16 on a "
        "GPU without bfloat16; --nomixed_precision is float32 (default: that of --precision).",
    ),
    "scale": (
        functools.partial(flags.DEFINE_enum, enum_values=SCALES), "ours", "Settings: ours, which "
        "two cores can train; or those that the paper states, with as many rows at once as fit "
        "into memory. Flags override both.",
    ),
    "devices": (
        flags.DEFINE_string, None, "Devices that share each update (MirroredStrategy): all, or "
        "how many; default: one.",
    ),
    "compute": (flags.DEFINE_bool, True, "Train; otherwise show the records of the folder again."),
    # Not results/, whose records are kept and averaged into the papers' tables.
    "output_dir": (flags.DEFINE_string, "outputs/results", "Folder for the record of the run."),
    "save_model": (
        flags.DEFINE_string, None, "Keras file (.keras) for the trained model; its privacy "
        "statement is written next to it, and so is the model with averaged weights "
        "(...-average.keras), if weights were averaged.",
    ),
    "cache_dir": (
        flags.DEFINE_string, CACHE_DIR, "Folder for pre-trained networks and their features."
    ),
    "run_dir": (
        flags.DEFINE_string, None, "Folder for the checkpoints and the ledger, from which the run "
        "resumes after a crash; default: none.",
    ),
    "resume": (
        flags.DEFINE_bool, False, "Resume the run that --run_dir holds, or begin it if it holds "
        "none.",
    ),
    "checkpoint_every": (
        flags.DEFINE_integer, None, "Updates between checkpoints; default: a fiftieth of all "
        "updates.",
    ),
}  # fmt: skip
_OF_RUNS = (
    *("dry_run", "mixed_precision", "devices", "data_dir", "output_dir"),
    *("save_model", "cache_dir", "run_dir", "resume"),
)
OF_PRIVATE_RUNS = (*_OF_RUNS, "checkpoint_every")


def define(*names):
    """Defines flags that several programs have, by their names."""
    for name in names:
        define_flag, default, text = _SHARED[name]
        define_flag(name, default, help=text)


def define_run(spec_class, *more, **fields):
    """Defines the flags of a program that trains a spec: its fields, those of runs, and `more`.

    `fields` are the arguments of `trainers.spec_flags.define`.
    """
    spec_flags.define(spec_class, **fields)
    define(*(OF_PRIVATE_RUNS if spec_class.kind == "private" else _OF_RUNS), *more)


def parsed(spec_class):
    """Returns the settings of a spec that were given by flags, a dict."""
    settings, precision = spec_flags.parsed(spec_class), given_precision()
    if precision is None:
        return settings
    if "precision" in settings:
        flag = "--mixed_precision" if FLAGS.mixed_precision else "--nomixed_precision"
        raise ValueError(
            f"Expected one flag for the precision, got {flag} and --precision="
            f"{settings['precision']}. Leave one out."
        )
    return {**settings, "precision": precision}


def given_precision():
    """Returns the precision that --mixed_precision or --nomixed_precision asks for, or None."""
    if FLAGS.mixed_precision is None:
        return None
    from tfdpnorm.keras_compat.devices_and_precision import half_precision

    return half_precision() if FLAGS.mixed_precision else "float32"


def train(spec):
    """Trains a spec and returns its `RunResult`; or with --dry_run says what that would take."""
    spec_flags.check_effect(spec)
    if FLAGS.resume and FLAGS.run_dir is None:
        raise ValueError("--resume needs --run_dir. Name the folder of the run.")
    private = _of_private_runs(spec)
    check_datasets(spec)
    spec = declared(spec)
    if FLAGS.dry_run:
        return show_dry_run(spec)
    from trainers.registry import run_cell

    return run_cell(
        spec,
        data_dir=FLAGS.data_dir,
        cache_dir=FLAGS.cache_dir,
        output_dir=FLAGS.output_dir,
        run_dir=FLAGS.run_dir,
        resume=FLAGS.resume,
        model_file=FLAGS.save_model,
        devices=FLAGS.devices,
        **private,
    )


def declared(spec):
    """Returns a spec that says how its settings were found only where that is known.

    The words of a table's cell hold for this cell alone, with its own settings and data. For any
    other private training only the user can say it, by --search.
    """
    if spec.kind != "private" or "search" in spec_flags.parsed(type(spec)):
        return spec
    from trainers import registry
    from trainers.runs.settings import differences

    cells = []
    for scale in [FLAGS.scale] if "scale" in FLAGS else SCALES:
        with at_scale(scale):
            is_known = spec.experiment in registry.EXPERIMENTS
            cells += registry.cells(spec.experiment) if is_known else []
    is_a_cell = any(not differences(cell, spec.settings) for cell in cells)
    return spec if is_a_cell else spec.replaced(search=None)


def check_datasets(spec):
    """Raises unless the data sets that a spec's run reads are there; they are not read."""
    for name in spec.run.datasets:
        check_there(name, FLAGS.data_dir)


def show_dry_run(spec):
    """Prints what a spec's run would be, by the flags for data (if there are any) and records."""
    from trainers.records.store import KEPT
    from trainers.registry import run_class
    from trainers.runs.dry_run import dry_run

    folders = (KEPT, FLAGS.output_dir)
    data_dir = FLAGS.data_dir if "data_dir" in FLAGS else None
    print(dry_run(run_class(spec), spec, data_dir=data_dir, folders=folders))


def _of_private_runs(spec):
    """The arguments that only private runs take, a dict."""
    if "checkpoint_every" not in FLAGS or FLAGS.checkpoint_every is None:
        return {}
    if spec.run.kind != "private" or spec.run.variational.reading != "sound":
        raise ValueError(
            "Expected a private training with --checkpoint_every, got "
            f"--checkpoint_every={FLAGS.checkpoint_every} where it has no effect. Leave it out."
        )
    if spec.kind == "private" and FLAGS.run_dir is None:
        raise ValueError("--checkpoint_every needs --run_dir. Name the folder of the run.")
    return {"checkpoint_every": FLAGS.checkpoint_every}


def make_output_dir():
    """Returns the folder that --output_dir names, which is made if absent."""
    return files.make_folder(FLAGS.output_dir, "output_dir")


def make_missing(experiment, fields, runs, record_of):
    """Writes a record into --output_dir of each run that has none there.

    Runs have a `cell` and a `seed`; `record_of` is a function of one.
    """
    from trainers.records.store import read_records, write_record

    folder = make_output_dir()
    known = {(r["cell"], r["seed"]) for r in read_records(folder, experiment, fields=fields)}
    for run in runs:
        if (run.cell, run.seed) not in known:
            record = record_of(run)
            write_record(folder, record, fields)
            print(f"  {run.cell}, seed {run.seed}: {record['test_accuracy']:.2f} %", flush=True)


def show_records(experiment, fields, text_of, plot=None, newest=False):
    """Prints the table of the records in --output_dir, and writes it there, with their plot.

    Args:
        text_of: Function from the records, or from the `newest` alone, to the table.
        plot: Function from the same and a path to the path of the plot; None for no plot.
    """
    from trainers.records.store import read_records

    folder = make_output_dir()
    records = read_records(folder, experiment, fields=fields)
    if not records:
        raise ValueError(f"There are no records in {folder}. Leave --nocompute out.")
    shown = records[-1] if newest else records
    text, path = text_of(shown), folder / f"{experiment}.md"
    path.write_text(text + "\n", "utf-8")
    plotted = f"; plot: {plot(shown, path.with_suffix('.png'))}" if plot else ""
    print(f"{text}\n\nTable: {path}{plotted}")


def spec_of(program):
    """Returns the spec that the flags of a program describe, at their --scale."""
    with at_scale(FLAGS.scale if "scale" in FLAGS else "ours"):
        return program.spec()


def main_of(program):
    """Returns what a program does with parsed flags, a function."""
    return getattr(program, "main", None) or (lambda: train(spec_of(program)))


def run(name, **usual):
    """Runs the program in the module of this name; for `usual` see `run_app`."""
    program = sys.modules[name]
    program.define_flags()
    spec = functools.partial(spec_of, program) if hasattr(program, "spec") else None
    run_app(main_of(program), spec, **usual)


def run_app(main, spec=None, **usual):
    """Runs `main()` with parsed flags; a user's mistakes end in one line, not in a traceback.

    `main` imports what loads TensorFlow, so that --help and wrong flags are answered at once.
    `spec` returns the spec of the parsed flags, for the defaults that --help shows; None where the
    help has them. For `usual` see `trainers.cell_defaults.show_if_help_is_asked`.
    """

    def guarded(argv):
        # absl has set INFO by now. Not which files TFDS reads, unless --verbosity asks for it.
        if not FLAGS["verbosity"].present:
            logging.set_verbosity(logging.WARNING)
        # Keras 2's: users of programs have no callbacks. Those of the programs test the network
        # meanwhile, which may well take longer than a batch.
        standard_logging.getLogger("tensorflow").addFilter(
            lambda line: "is slow compared to the batch time" not in line.getMessage()
        )
        try:
            if len(argv) > 1:
                raise ValueError(f"Expected --flag=value only, got {argv[1:]}. See --help.")
            main()
        except (ValueError, OSError, DatasetCorruptError) as error:
            print(f"Error: {_cause(error)}", file=sys.stderr)
            sys.exit(2)

    if spec is not None:
        show_if_help_is_asked(spec, usual)
    app.run(guarded)


def _cause(error):
    """The message of `error`, without the call stack that TensorFlow writes into it."""
    text = str(error)
    return text.rsplit("Error: ", 1)[-1].strip() if text.startswith("in user code:") else text
