"""Flags that every experiment shares, and the way from flags to a run."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # before TensorFlow is loaded

from absl import app, flags, logging

from tfdpnorm.data import DatasetCorruptError, DatasetNotFoundError
from tfdpnorm.experiments.registry import run_cell
from tfdpnorm.experiments.runs import private as runner
from tfdpnorm.experiments.runs.data import load_experiment_data
from tfdpnorm.experiments.runs.pretraining import CACHE_DIR
from tfdpnorm.experiments.spec import OPTIMIZERS, SCHEDULES, VOCABULARIES
from tfdpnorm.layers.public_batch_normalization import STATISTICS_GRADIENTS
from tfdpnorm.layers.public_moments_layer import STATISTICS
from tfdpnorm.models import NORMS
from tfdpnorm.training import ENGINES
from tfdpnorm.training.step.noise import GENERATORS

FLAGS = flags.FLAGS
_OURS = "default: the experiment's own"

# Fields of the specs that are flags of the same name; None leaves the experiment's value.
_CELL_FLAGS = (
    "epochs",
    "steps",
    "optimizer",
    "learning_rate",
    "learning_rate_schedule",
    "momentum",
    "seed",
    "max_examples",
    "vocabulary",
    "vocabulary_size",
    "vocabulary_file",
    "sequence_length",
)
_PRIVATE_FLAGS = (
    "noise_multiplier",
    "delta",
    "accountant",
    "expected_batch_size",
    "physical_batch_size",
    "l2_norm_clip",
    "augmentation_multiplicity",
    "ema_decay",
    "statistics",
    "statistics_gradient",
    "pull_back_weight",
    "statistics_budget_share",
    "public_dataset",
    "public_batch_size",
    "pretraining_dataset",
    "pretraining_epochs",
    "engine",
    "noise_generator",
    "insecure_seed",
    "evaluations",
)
_WEIGHT_NOISE_FLAGS = ("batch_size", "validation_examples")


def define_weight_noise_flags():
    """Defines the flags of training with noise in the weights."""
    flags.DEFINE_enum("norm", "batch", NORMS, "Normalisation of the network.")
    flags.DEFINE_float("stddev", 0.0, "Standard deviation of each weight, in training and testing.")
    flags.DEFINE_integer("batch_size", None, f"Examples of an update ({_OURS}).")
    flags.DEFINE_integer(
        "validation_examples", None, f"Training examples held out, for the curve ({_OURS})."
    )
    _define_cell_flags()


def define_flags():
    """Defines the flags of private training."""
    flags.DEFINE_enum("norm", "public_batch", NORMS, "Normalisation of the network.")
    flags.DEFINE_float(
        "epsilon",
        None,
        "Target epsilon; the noise is calibrated to it. inf: without privacy. Or "
        "--noise_multiplier.",
    )
    flags.DEFINE_float(
        "noise_multiplier", None, "Noise on the sum of clipped gradients / clipping norm."
    )
    flags.DEFINE_float("delta", None, f"Delta of the guarantee ({_OURS}).")
    flags.DEFINE_enum("accountant", None, ["rdp", "pld"], f"Accountant ({_OURS}).")
    flags.DEFINE_enum(
        "statistics",
        None,
        STATISTICS,
        "Whose moments public-batch normalisation takes; lot is the paper's Algorithm 1 as "
        f"printed, which is NOT private ({_OURS}).",
    )
    flags.DEFINE_enum(
        "statistics_gradient",
        None,
        STATISTICS_GRADIENTS,
        f"Gradient through the public statistics ({_OURS}).",
    )
    flags.DEFINE_float(
        "pull_back_weight",
        None,
        f"Weight of public-batch gammas' and betas' gradients in the clip ({_OURS}).",
    )
    flags.DEFINE_float(
        "statistics_budget_share",
        None,
        f"Share of the budget for the running averages of norm noised_batch ({_OURS}).",
    )
    flags.DEFINE_integer("expected_batch_size", None, f"Expected lot size ({_OURS}).")
    flags.DEFINE_integer(
        "physical_batch_size", None, "Rows through the network at once; default: the whole lot."
    )
    flags.DEFINE_float("l2_norm_clip", None, f"Clipping norm ({_OURS}).")
    flags.DEFINE_integer(
        "augmentation_multiplicity",
        None,
        f"Views of each image, moved by a pixel, behind one clipped gradient: 1, 5 or 9 ({_OURS}).",
    )
    flags.DEFINE_float("ema_decay", None, f"Decay of the weight average ({_OURS}).")
    flags.DEFINE_string("public_dataset", None, f"Where the public rows come from ({_OURS}).")
    flags.DEFINE_integer("public_batch_size", None, f"Number of public rows ({_OURS}).")
    flags.DEFINE_string(
        "pretraining_dataset",
        None,
        f"Public set to train convolutions on, which are then frozen ({_OURS}).",
    )
    flags.DEFINE_integer("pretraining_epochs", None, f"Passes over it ({_OURS}).")
    flags.DEFINE_enum("engine", None, ENGINES, f"How clipped gradient sums are computed ({_OURS}).")
    flags.DEFINE_enum(
        "noise_generator",
        None,
        GENERATORS,
        f"Where noise comes from; shake256 is a cryptographic generator ({_OURS}).",
    )
    flags.DEFINE_integer(
        "insecure_seed", None, "For tests: repeatable noise and lots. No guarantee holds."
    )
    flags.DEFINE_integer(
        "evaluations", None, f"About how many times to take the test accuracy ({_OURS})."
    )
    flags.DEFINE_integer(
        "checkpoint_every", None, "Updates between checkpoints; default: one after each epoch."
    )
    flags.DEFINE_bool("dry_run", False, "Print noise, updates and cost; train nothing.")
    _define_cell_flags()
    # Zero is a value for these two: only one of them may be given at all.
    _at_most_one("epsilon", "noise_multiplier", required=True)


def _define_cell_flags():
    """Defines the flags that all training has."""
    flags.DEFINE_string("model", None, f"Network ({_OURS}).")
    flags.DEFINE_float("epochs", None, f"Passes over the data; or --steps ({_OURS}).")
    flags.DEFINE_integer("steps", None, "Updates; or --epochs.")
    flags.DEFINE_enum("optimizer", None, OPTIMIZERS, f"Keras optimizer ({_OURS}).")
    flags.DEFINE_float("learning_rate", None, f"Learning rate at the start ({_OURS}).")
    flags.DEFINE_enum(
        "learning_rate_schedule", None, SCHEDULES, f"Its course, down to 0 or not ({_OURS})."
    )
    flags.DEFINE_float("momentum", None, f"Momentum of sgd ({_OURS}).")
    flags.DEFINE_integer(
        "seed", None, "Seeds initial weights and public rows; never lots or the noise of privacy."
    )
    flags.DEFINE_integer("max_examples", None, "Use only the first training examples.")
    flags.DEFINE_enum(
        "vocabulary",
        None,
        VOCABULARIES,
        "For texts. private: counted in the training texts, NO GUARANTEE; public: counted in "
        f"--vocabulary_file ({_OURS}).",
    )
    flags.DEFINE_integer("vocabulary_size", None, f"For texts: number of token ids ({_OURS}).")
    flags.DEFINE_string("vocabulary_file", None, "A text file that is nobody's secret.")
    flags.DEFINE_integer("sequence_length", None, f"For texts: tokens kept of each ({_OURS}).")
    flags.DEFINE_bool("mixed_precision", False, "Compute in half precision (mixed_float16).")
    flags.DEFINE_string(
        "data_dir", None, "TFDS directory; default: TFDS_DATA_DIR, then TFDS's own."
    )
    flags.DEFINE_string("output_dir", "results", "Folder for the record of the run.")
    flags.DEFINE_string(
        "cache_dir", CACHE_DIR, "Folder for pre-trained networks and their features."
    )
    flags.DEFINE_string(
        "run_dir",
        None,
        "Folder for what the run needs to survive a crash; default: none kept.",
    )
    flags.DEFINE_bool(
        "resume", False, "Go on with the run that --run_dir holds, or begin it if it holds none."
    )
    _at_most_one("epochs", "steps")


def _at_most_one(first, second, required=False):
    flags.register_multi_flags_validator(
        [first, second],
        lambda values: (
            sum(v is not None for v in values.values()) in ((1,) if required else (0, 1))
        ),
        message=f"Expected {'exactly' if required else 'at most'} one of --{first} and --{second}.",
    )


def given_values():
    """Returns the fields of the program's spec that were set by flags."""
    names = (*_CELL_FLAGS, *_PRIVATE_FLAGS, *_WEIGHT_NOISE_FLAGS)
    given = {name: FLAGS[name].value for name in names if name in FLAGS}
    return {name: value for name, value in given.items() if value is not None}


def train(spec):
    """Trains a spec, or with --dry_run says what that would take."""
    if FLAGS.mixed_precision:
        from tensorflow import keras

        keras.mixed_precision.set_global_policy("mixed_float16")
    data = load_experiment_data(spec, FLAGS.data_dir, cache_dir=FLAGS.cache_dir)
    if "dry_run" in FLAGS and FLAGS.dry_run:
        return _dry_run(spec, data)
    options = {"checkpoint_every": FLAGS.checkpoint_every} if "checkpoint_every" in FLAGS else {}
    return run_cell(
        spec,
        data=data,
        output_dir=FLAGS.output_dir,
        run_dir=FLAGS.run_dir,
        resume=FLAGS.resume,
        **options,
    )


def _dry_run(spec, data):
    private = runner.build_private(spec, data)
    print(runner.describe(spec, data, private))
    seconds, megabytes = runner.estimate_cost(spec, data, private)
    memory = "" if megabytes is None else f", {megabytes:,.0f} MB of per-example gradients at once"
    print(f"  estimated cost here: {seconds:,.0f} s{memory}. Nothing was trained.")


def run_app(main):
    """Runs `main()` with parsed flags; what a user can mend ends in one line, not a traceback."""

    def guarded(argv):
        if FLAGS["verbosity"].using_default_value:
            logging.set_verbosity(logging.WARNING)  # not which files TFDS reads
        try:
            if len(argv) > 1:
                raise ValueError(f"Expected --flag=value only, got {argv[1:]}. See --help.")
            main()
        except (ValueError, DatasetNotFoundError, DatasetCorruptError, OSError) as error:
            print(f"Error: {_cause(error)}", file=sys.stderr)
            sys.exit(2)

    app.run(guarded)


def _cause(error):
    """The message of `error`, without the call stack that TensorFlow writes into it."""
    text = str(error)
    return text.rsplit("Error: ", 1)[-1].strip() if text.startswith("in user code:") else text
