"""The skeleton of all training runs: a spec goes in, a record comes out.

A kind of run is a subclass of `Run`, which has only what differs.
"""

import math
import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm import files
from tfdpnorm.keras_compat.devices_and_precision import emulates_bfloat16
from tfdpnorm.training import PrivateModel
from trainers.records.fields import FIELDS, NO_GUARANTEE, paper_text
from trainers.records.made_with import made_with
from trainers.records.store import record_of_run, write_record
from trainers.runs.data import CACHE_DIR, load_experiment_data
from trainers.runs.kept import average_file, check_model_file, claim_run_dir, save_model

_SLOW = (
    "  mixed_bfloat16 is slow here, since this processor has no instructions for it: on one such "
    "processor --nomixed_precision took a seventh of the time"
)


class RunResult(NamedTuple):
    """A run's record, the trained model, private or not, and points in the form of its kind."""

    record: dict
    model: keras.Model
    curve: list


class Run:
    """One run, step by step: its model is built, described, restored, trained, measured, closed.

    `can_resume` says whether `run_dir` keeps what was trained, `can_share` whether devices of a
    strategy share the updates. The curve is a list of points.
    """

    can_resume, can_share = True, False

    def __init__(
        self, spec, data, *, run_dir=None, resume=False, echo=print, callbacks=(), strategy=None
    ):
        if strategy is not None and not self.can_share:
            raise ValueError(
                f"Expected no devices with {spec.run.cell}, which one device computes. Leave them "
                "out."
            )
        self.strategy = strategy
        self.spec, self.data, self.echo = spec, data, echo
        self.run_dir, self.resume, self.callbacks = run_dir, resume, list(callbacks)
        self.curve = []

    def describe(self):
        """Returns in words what is about to be trained."""
        raise NotImplementedError

    def restore(self):
        """Makes the model ready to train, and brings it to where it was if it is resumed."""
        raise NotImplementedError

    def train(self):
        """Trains to the end; returns how many examples went through the model."""
        raise NotImplementedError

    def measured(self):
        """Returns the fields of the record that this kind of run fills in, a dict."""
        raise NotImplementedError

    def shown_seconds(self, seconds):
        """Returns what the record says of how long it took, where it took so many seconds."""
        return seconds

    def spent(self, record):
        """Returns in words what the run cost in privacy; "" for nothing to say."""
        return ""

    def released(self):
        """Returns the model that is saved, and what holds of its privacy, in words."""
        if isinstance(self.model, PrivateModel):
            return self.model, self.model.privacy_statement()
        return self.model, "Trained without privacy: no epsilon holds for this model."

    def statement(self):
        """Returns the privacy statement as JSON has it, a dict; None without a private model."""
        is_private = isinstance(self.model, PrivateModel)
        return self.model.privacy_statement_json() if is_private else None

    def averaged(self):
        """Returns a context in which the model has averaged weights, or None without an average."""

    def close(self):
        """Ends the run, once its record is written."""


def run(
    kind,
    spec,
    *,
    data_dir=None,
    cache_dir=CACHE_DIR,
    output_dir=None,
    data=None,
    echo=print,
    run_dir=None,
    resume=False,
    model_file=None,
    devices=None,
    **more,
):
    """Trains one cell, a spec of the `kind`, a subclass of `Run`, and writes its record.

    Args:
        cache_dir: Folder for pre-trained networks and their features.
        output_dir: Folder for the record; None writes none.
        data: `ExperimentData` if already loaded.
        run_dir: Folder from which the run can be resumed after a crash; None keeps none. One that
            holds a run needs `resume`, and the same run.
        model_file: Keras file for the trained model; its privacy statement goes beside it, and so
            does the model with averaged weights, if they were averaged. None saves none.
        devices: How many devices share each update, or "all"; None for one.
        **more: What the kind takes besides, such as `callbacks`.

    Returns:
        A `RunResult`; its seconds are those since the run was last resumed.
    """
    if output_dir is not None:
        files.make_folder(output_dir, "output_dir")
    if model_file is not None:
        check_model_file(model_file)
    with claim_run_dir(run_dir, spec, resume):
        data = data or load_experiment_data(spec.run, data_dir, cache_dir=cache_dir, echo=echo)
        more["strategy"] = None if devices is None else strategy_of(devices)
        training = kind(spec, data, run_dir=run_dir, resume=resume, echo=echo, **more)
    echo(training.describe())
    if spec.run.precision == "mixed_bfloat16" and emulates_bfloat16():
        echo(_SLOW)
    training.restore()
    started = time.perf_counter()
    examples = training.train()
    seconds = training.shown_seconds(time.perf_counter() - started)
    record = make_record(training, seconds, examples)
    echo(_summary(training, record))
    if output_dir is not None:
        echo(_recorded(training, output_dir, record, run_dir))
    if model_file is not None:
        # The average first: saving leaves public moments of what was saved in the layers.
        if (average := training.averaged()) is not None:
            with average:
                saved = save_model(average_file(model_file), *training.released())
            echo("Weight average: {}, {}".format(*saved))
        echo("Model: {}, {}".format(*save_model(model_file, *training.released())))
    training.close()
    return RunResult(record, training.model, training.curve)


def strategy_of(devices):
    """Returns the strategy by which so many devices, or "all", share updates; GPUs, if any."""
    known = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    count = len(known) if devices == "all" else devices
    if not (str(count).isdecimal() and 1 <= int(count) <= len(known)):
        raise ValueError(
            f"Expected devices to be all, or 1 to {len(known)}, which there are, got {devices!r}."
        )
    return tf.distribute.MirroredStrategy([device.name for device in known[: int(count)]])


def make_record(training, seconds, examples):
    """Returns the record of a finished run; `examples` went through the model in the `seconds`.

    Fields that its kind does not fill in are None, and those of privacy say that there is none.
    """
    spec, cell = training.spec, training.spec.run
    return {
        **dict.fromkeys(FIELDS),
        **NO_GUARANTEE,
        "experiment": cell.experiment,
        "kind": spec.kind,
        "cell": cell.cell,
        "network": cell.network,
        "column": cell.column,
        "paper_value": cell.paper_value,
        **training.measured(),
        "statement": training.statement(),
        "seed": cell.seed,
        "scale": training.data.scale,
        "search": cell.search,
        "seconds": round(seconds, 1),
        "examples_per_second": round(examples / seconds, 1),
        **made_with(spec.settings, cell),
    }


def _recorded(training, output_dir, record, run_dir):
    """Writes a record, but no second one of a run that is resumed after its end; says where."""
    if (written := record_of_run(output_dir, record)) is not None:
        return f"Record: {written}, written when this run ended"
    try:
        return f"Record: {write_record(output_dir, record)}"
    except OSError as error:
        again = "train again; the epsilons of private runs on the same data add up"
        if run_dir is not None and training.can_resume:
            again = f"run the same command with --resume: {run_dir} keeps the trained state"
        raise OSError(f"{error} Free space or remove another cause, then {again}.") from error


def _summary(training, record):
    """Returns the result of a run in words, with the paper's figure next to ours."""
    of = "test accuracy"
    if training.spec.run.held_out:
        of = "accuracy on the held-out examples"
    ours = f"{of} {record['test_accuracy']:.2f} %"
    if record["test_accuracy_ema"] is not None:
        ours += f" (weight average {record['test_accuracy_ema']:.2f} %)"
    if paper_text(record):
        ours += f"; the paper: {paper_text(record)}"
    spent = training.spent(record)
    return f"  {ours}; {record['seconds']:.0f} s" + (f"\n  {spent}" if spent else "")


# --- test accuracy ---

_TEST_ROWS = 1000
_NUMBERS_AT_ONCE = 4_000_000  # of inputs: 1,000 images of 32 x 32 in colour, 52 of 160 x 160
_TOP = 5


def test_rows(x, model=None):
    """How many of these rows are predicted at a time, without training: no more than a physical
    batch of the model, if it has any."""
    most = getattr(model, "physical_batch_size", None) or _TEST_ROWS
    return max(1, min(_TEST_ROWS, most, _NUMBERS_AT_ONCE // max(1, math.prod(np.shape(x)[1:]))))


def _logits(model, data):
    rows = test_rows(data.test_x, model)
    return model.predict(data.test_x, batch_size=rows, verbose=0)


def test_accuracy(model, data):
    """Test accuracy in percent of the present weights, `test_rows` at a time.

    Where weights are drawn at every call, that many rows share a draw.
    """
    return _top1(_logits(model, data), data.test_y)


def test_accuracies(model, data):
    """Pair of `test_accuracy` and the share of labels among the five largest logits, in percent.

    The latter is None for five classes or fewer. Logits that tie with the label's count as larger.
    """
    logits = _logits(model, data)
    if data.num_classes <= _TOP:
        return _top1(logits, data.test_y), None
    own = np.take_along_axis(logits, np.asarray(data.test_y)[:, np.newaxis], axis=-1)
    # Counted so that NaN is no hit.
    not_below = logits.shape[-1] - np.sum(logits < own, axis=-1)
    return _top1(logits, data.test_y), float(100 * np.mean(not_below <= _TOP))


def rounded(values):
    """List of percentages as records have them: four digits, or None."""
    return [None if value is None else round(value, 4) for value in values]


def _top1(logits, labels):
    return float(100 * np.mean(np.argmax(logits, axis=-1) == labels))
