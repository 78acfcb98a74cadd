"""The one runner of all experiments: a spec goes in, a record comes out."""

import dataclasses
import math
import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm import models
from tfdpnorm.data import poisson_batches
from tfdpnorm.experiments.records.record import make_folder, paper_text, provenance, write_record
from tfdpnorm.experiments.runs.augmentation import augmentations
from tfdpnorm.experiments.runs.data import load_experiment_data
from tfdpnorm.experiments.runs.optimizers import make_optimizer
from tfdpnorm.experiments.runs.settings import claim_run_dir, settings
from tfdpnorm.privacy import PrivacyBudget
from tfdpnorm.privacy.rounding import ceil_text
from tfdpnorm.training import PrivateModel, WeightAverage, make_private

TEST_ROWS = 1000


class RunResult(NamedTuple):
    """What a run gives.

    Attributes:
        record: Dict with the fields of `tfdpnorm.experiments.records.record.FIELDS`.
        private: The trained `PrivateModel`.
        curve: List of (updates, epsilon spent, test accuracy in percent) during the run.
    """

    record: dict
    private: PrivateModel
    curve: list


def run(
    spec, *, data_dir=None, output_dir=None, data=None, echo=print, callbacks=(), **run_options
):
    """Trains one cell and writes its record.

    Args:
        spec: `ExperimentSpec`.
        data_dir: TFDS directory.
        output_dir: Folder for the record; None writes none.
        data: `ExperimentData` if already loaded.
        echo: Function that shows a line.
        callbacks: Further Keras callbacks.
        **run_options: `run_dir`, `resume` and `checkpoint_every` of `make_private`: a run that can
            be taken up again after a crash.

    Returns:
        A `RunResult`; its seconds and its curve are those since the run was last taken up.

    Raises:
        ValueError: before training, if `run_dir` holds a run and `resume` is False, or another run.
        OSError: before training, if `output_dir` cannot be written to.
    """
    if output_dir is not None:
        make_folder(output_dir)
    with claim_run_dir(run_options.get("run_dir"), spec, run_options.get("resume", False)):
        data = data or load_experiment_data(spec, data_dir, echo=echo)
        private = build_private(spec, data, **run_options)
    echo(describe(spec, data, private))
    average = WeightAverage(spec.ema_decay) if spec.ema_decay is not None else None
    updates = private.plan.steps
    private.compile(
        optimizer=make_optimizer(spec, updates),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    batches = poisson_batches(
        data.train_x, data.train_y, expected_batch_size=spec.expected_batch_size
    )
    progress = Progress(private, data, spec.evaluations, echo)
    callbacks = [progress, *([average] if average else []), *callbacks]
    private.restore_run(callbacks)
    if private.ledger.position:
        echo(f"  taken up again after update {private.ledger.position} of {updates}")
    before, started = private.ledger.position, time.perf_counter()
    if private.ledger.remaining_updates:
        private.fit(batches, verbose=0, callbacks=callbacks)
    seconds = time.perf_counter() - started
    accuracy = test_accuracy(private, data)
    accuracy_ema = None
    if average is not None:
        with average.applied():
            accuracy_ema = test_accuracy(private, data)
    made = private.ledger.position - before
    record = make_record(spec, data, private, accuracy, accuracy_ema, progress.curve, seconds, made)
    echo(summary(record))
    if output_dir is not None:
        echo(f"Record: {write_record(output_dir, record)}")
    if run_options.get("run_dir") is not None:
        private.ledger.close()  # so that others may read and resume
    return RunResult(record, private, progress.curve)


def build_private(spec, data, **run_options):
    """Builds the network of a spec and makes it private; nothing is trained yet.

    Args:
        spec: `ExperimentSpec`.
        data: `ExperimentData`.
        **run_options: `run_dir`, `resume`, `checkpoint_every` of `make_private`.
    """
    keras.utils.set_random_seed(spec.seed)  # initial weights; never noise or lots
    options = {**dict(spec.model_options), **data.model_options}
    if spec.needs_public_rows:
        options.update(statistics=spec.statistics, statistics_gradient=spec.statistics_gradient)
    model = models.build(
        spec.model,
        norm=spec.norm,
        num_classes=data.num_classes,
        input_shape=data.train_x.shape[1:],
        **options,
    )
    if spec.is_unclipped:
        # The baseline without privacy goes the same way, with nothing clipped and no noise.
        privacy = dict(noise_multiplier=0.0, delta=spec.delta, l2_norm_clip=math.inf)
    elif spec.epsilon is not None:
        budget = PrivacyBudget(epsilon=spec.epsilon, delta=spec.delta)
        privacy = dict(budget=budget, l2_norm_clip=spec.l2_norm_clip)
    else:
        privacy = dict(
            noise_multiplier=spec.noise_multiplier, delta=spec.delta, l2_norm_clip=spec.l2_norm_clip
        )
    private = make_private(
        model,
        num_examples=data.num_examples,
        expected_batch_size=spec.expected_batch_size,
        steps=spec.updates(data.num_examples),
        public_batch=data.public_x,
        accountant=spec.accountant,
        engine=spec.engine,
        physical_batch_size=spec.physical_batch_size,
        pull_back_weight=spec.pull_back_weight,
        statistics_budget_share=spec.statistics_budget_share,
        augmentation_multiplicity=spec.augmentation_multiplicity,
        augmentation=augmentations(spec.augmentation_multiplicity, data.train_x.shape[1:]),
        noise_generator=spec.noise_generator,
        insecure_seed=spec.insecure_seed,
        **privacy,
        **run_options,
    )
    for reason in data.no_guarantee_because:
        private.ledger.void(reason)
    return private


def describe(spec, data, private):
    """Returns in words what is about to be trained."""
    plan, reasons = private.plan, private.ledger.no_guarantee_because
    views = spec.augmentation_multiplicity
    lines = [
        f"{spec.experiment} {spec.cell}: {spec.model}, {private.model.count_params():,} "
        f"parameters, norm {spec.norm}"
        + (f" (statistics {spec.statistics})" if spec.needs_public_rows else ""),
        f"  private data: {spec.dataset}, N = {data.num_examples:,} ({data.scale}); "
        f"public rows: {data.public_source or 'none'}",
        *([f"  public: {data.pretrained}"] if data.pretrained else []),
        *([f"  each image in {views} views, moved by a pixel"] if views > 1 else []),
        f"  T = {plan.steps} updates, expected lot {plan.expected_batch_size}, q = "
        f"{plan.sampling_rate:.5f}, z = {plan.noise_multiplier:.4f}, C = {plan.l2_norm_clip:g}, "
        f"delta = {plan.delta:g}, engine {private.engine}, seed {spec.seed}",
    ]
    if not reasons:
        lines.append(
            f"  epsilon after all updates: {ceil_text(plan.epsilon_after(plan.steps))} "
            f"({plan.accountant}, add or remove one example, Poisson sampling)"
        )
    else:
        lines.append(f"  NO GUARANTEE: {'; '.join(reasons)}")
        if _is_claimed(spec):
            lines.append(f"  {_claimed(plan.claimed_epsilon_after(plan.steps))}")
    return "\n".join(lines)


class Progress(keras.callbacks.Callback):
    """Shows the updates made, the epsilon spent so far, and the test accuracy during a run.

    The test accuracy is that of benchmark images; nothing is chosen by it during the run.

    Args:
        private: `PrivateModel`.
        data: `ExperimentData`.
        evaluations: About how many times; the last time is after the last update.
        echo: Function that shows a line.

    Attributes:
        curve: List of (updates, epsilon spent, test accuracy in percent).
    """

    def __init__(self, private, data, evaluations, echo):
        super().__init__()
        self.curve = []
        self._private = private
        self._data = data
        self._echo = echo
        self._every = max(1, private.plan.steps // evaluations)

    def on_train_begin(self, logs=None):
        self._started = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        ledger = self._private.ledger
        if ledger.updates % self._every and ledger.remaining_updates:
            return
        accuracy = test_accuracy(self._private, self._data)
        self.curve.append((ledger.updates, ledger.epsilon(), accuracy))
        spent = "no guarantee"
        if ledger.guarantee_holds:
            spent = f"epsilon {ceil_text(ledger.epsilon())}"
        self._echo(
            f"  update {ledger.updates}/{self._private.plan.steps}  {spent} so far  test accuracy "
            f"{accuracy:.1f} %  {time.perf_counter() - self._started:.0f} s"
        )


def test_accuracy(model, data):
    """Test accuracy in percent of the present weights, `TEST_ROWS` rows at a time.

    That is what shares a draw where the weights are drawn at every call.
    """
    logits = model.predict(data.test_x, batch_size=TEST_ROWS, verbose=0)
    return float(100 * np.mean(np.argmax(logits, axis=-1) == data.test_y))


def make_record(spec, data, private, accuracy, accuracy_ema, curve, seconds, made):
    """Returns the record of a finished run (see `tfdpnorm.experiments.records.record.FIELDS`).

    `made` updates took `seconds`; they are fewer than all where the run was taken up again.
    """
    plan, ledger = private.plan, private.ledger
    holds = ledger.guarantee_holds
    by_accountant = {name: ledger.epsilon(accountant=name) for name in ("rdp", "pld")}
    return {
        "experiment": spec.experiment,
        "cell": spec.cell,
        "paper_value": spec.paper_value,
        "test_accuracy": round(accuracy, 4),
        "test_accuracy_ema": None if accuracy_ema is None else round(accuracy_ema, 4),
        "epsilon": ledger.epsilon(),
        "epsilon_target": spec.epsilon,
        "epsilon_rdp": by_accountant["rdp"],
        "epsilon_pld": by_accountant["pld"],
        "epsilon_claimed": ledger.claimed_epsilon() if _is_claimed(spec) else None,
        "accountant": plan.accountant,
        "delta": plan.delta,
        "guarantee_holds": holds,
        "no_guarantee_because": list(ledger.no_guarantee_because),
        "num_examples": plan.num_examples,
        "expected_batch_size": plan.expected_batch_size,
        "sampling_rate": plan.sampling_rate,
        "noise_multiplier": plan.noise_multiplier,
        "l2_norm_clip": plan.l2_norm_clip,
        "updates": ledger.updates,
        "weight_noise_stddev": None,
        "statistics": private.statistics,
        "engine": private.engine,
        "noise_generator": spec.noise_generator,
        "insecure_seed": spec.insecure_seed,
        "resumes": ledger.resumes,
        "seed": spec.seed,
        "scale": data.scale,
        "search": spec.search,
        "curve": [
            {"updates": updates, "epsilon": epsilon, "test_accuracy": round(value, 4)}
            for updates, epsilon, value in curve
        ],
        "seconds": round(seconds, 1),
        "examples_per_second": round(made * plan.expected_batch_size / seconds, 1),
        **provenance(settings(spec)),
    }


def summary(record):
    """Returns the result of a run in words, the paper's figure beside ours."""
    ours = f"test accuracy {record['test_accuracy']:.2f} %"
    if record["test_accuracy_ema"] is not None:
        ours += f" (weight average {record['test_accuracy_ema']:.2f} %)"
    if paper_text(record):
        ours += f"; the paper: {paper_text(record)}"
    if record["guarantee_holds"]:
        spent = (
            f"epsilon {ceil_text(record['epsilon'])} at delta {record['delta']:g} "
            f"({record['accountant']})"
        )
    else:
        spent = f"NO GUARANTEE: {'; '.join(record['no_guarantee_because'])}"
        if record["epsilon_claimed"] is not None:
            spent += f"\n  {_claimed(record['epsilon_claimed'])}"
    return f"  {ours}\n  {spent}; {record['seconds']:.0f} s"


def _is_claimed(spec):
    """Whether the paper claims an epsilon for what this spec does, and we do not."""
    return spec.needs_public_rows and spec.statistics == "lot" and not spec.is_unclipped


def _claimed(epsilon):
    return f"{ceil_text(epsilon)} is the epsilon claimed by the paper, not a guarantee"


def estimate_cost(spec, data, private):
    """Times a few updates on random rows and returns seconds and megabytes for the whole run.

    No private row is looked at, and no update of `private` is spent.

    Returns:
        Pair (seconds for all updates, megabytes of per-example gradients held at once, or None
        for an engine whose memory is not known).
    """
    rows = min(spec.physical_batch_size or spec.expected_batch_size, data.num_examples)
    rng = np.random.default_rng(0)
    shape = (rows, *data.train_x.shape[1:])
    if data.train_x.dtype.kind == "f":
        x = rng.random(shape, np.float32)
    else:
        x = rng.integers(1, data.model_options["vocabulary_size"], shape, np.int32)
    trial = dataclasses.replace(
        data,
        train_x=x,
        train_y=rng.integers(0, data.num_classes, rows),
    )
    trial_spec = dataclasses.replace(
        spec,
        epsilon=None,
        noise_multiplier=1.0,
        delta=1e-9,  # of random rows; the run's own was checked against its own N
        steps=5,
        epochs=None,
        expected_batch_size=rows,
    )
    model = build_private(trial_spec, trial)
    model.compile(
        optimizer=make_optimizer(trial_spec, 5),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    times = []
    clock = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda *_: times.append(time.perf_counter())
    )
    model.fit(trial.train_x, trial.train_y, verbose=0, callbacks=[clock])
    per_row = (times[-1] - times[0]) / (len(times) - 1) / rows
    seconds = per_row * private.plan.expected_batch_size * private.plan.steps
    megabytes = None
    if private.engine in ("per_example", "tfp_model"):
        megabytes = rows * private.model.count_params() * tf.float32.size / 1e6
    return seconds, megabytes
