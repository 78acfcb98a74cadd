"""Audits of what this library promises: a spec goes in, a record comes out."""

import dataclasses
import time
from typing import NamedTuple

import numpy as np
from tensorflow import keras

from tfdpnorm import models
from tfdpnorm.audit.attacks.canaries import (
    CanaryScores,
    audit_canaries,
    check_guesses,
    make_canaries,
)
from tfdpnorm.audit.attacks.one_step import audit_one_step
from tfdpnorm.audit.attacks.sensitivity import measure_sensitivity
from tfdpnorm.data import load_examples, match_images, poisson_batches, split_public
from tfdpnorm.experiments.records.record import provenance
from tfdpnorm.privacy import PrivacyBudget
from tfdpnorm.training import make_private

AUDIT_FIELDS = (
    "experiment",
    "cell",
    "check",
    "claimed_epsilon",
    "audited_epsilon",
    "confidence",
    "violation",
    "delta",
    "guarantee_holds",
    "no_guarantee_because",
    "model",
    "statistics",
    "engine",
    "noise_multiplier",
    "l2_norm_clip",
    "expected_batch_size",
    "sensitivity",
    "samples",
    "details",
    "seed",
    "seconds",
    "flags",
    "versions",
    "commit",
)
SENSITIVITY_FIELDS = (
    "experiment",
    "cell",
    "rows",
    "seed",
    "seconds",
    "flags",
    "versions",
    "commit",
)

_IMAGE, _WORDS = (28, 28, 1), (64,)
_INPUT_SHAPES = {
    "bilstm": _WORDS,
    "transformer": _WORDS,
    **dict.fromkeys(("resnet9", "resnet18", "tf_tutorial", "vgg", "wrn_16_4"), (32, 32, 3)),
}
_MODEL_OPTIONS = {"mlp": {"hidden_units": (100,)}}
_BRIGHTNESS_LEVELS = 16


@dataclasses.dataclass(frozen=True)
class AuditSpec:
    """What is audited.

    Attributes:
        model: Name of the network (`tfdpnorm.models.build`); its weights are fresh ones. "mlp" has
            100 hidden units here.
        norm: Its normalisation, one of `tfdpnorm.models.NORMS`.
        statistics: Of public-batch normalisation.
        statistics_gradient: Likewise.
        engine: One of `tfdpnorm.training.ENGINES`; None for the one that `make_private` takes.
        epsilon: What is claimed: the noise is calibrated to it.
        delta: The claim's.
        l2_norm_clip: C.
        expected_batch_size: L, the rows of the lot.
        physical_batch_size: Rows through the network at once; None for the lot.
        clipping: See `make_private`.
        clip_function: Likewise.
        augmentation_multiplicity: K; above 1 with random horizontal flips.
        dataset: Name of the dataset of the rows (`tfdpnorm.data.load_examples`).
        public_batch_size: M, rows of the same set that serve as public ones.
        seed: Of the initial weights, the choice of rows and the audit's own samples.
    """

    model: str = "lenet5"
    norm: str = "public_batch"
    statistics: str = "public"
    statistics_gradient: str = "full"
    engine: str | None = None
    epsilon: float = 1.0
    delta: float = 1e-5
    l2_norm_clip: float = 1.0
    expected_batch_size: int = 64
    physical_batch_size: int | None = None
    clipping: str = "flat"
    clip_function: str = "abadi"
    augmentation_multiplicity: int = 1
    dataset: str = "digits"
    public_batch_size: int = 32
    seed: int = 0

    @property
    def needs_public_rows(self):
        """Whether the network has public-batch normalisation."""
        return self.norm == "public_batch"

    @property
    def path(self):
        """The normalisation, and where its statistics come from, in words."""
        return path_name(self.norm, self.statistics, self.statistics_gradient)


def path_name(norm, statistics, statistics_gradient):
    """A normalisation, and where its statistics come from, in words."""
    if norm != "public_batch":
        return norm
    stopped = "" if statistics_gradient == "full" else ", gradient stopped"
    return f"{norm} ({statistics}{stopped})"


class AuditRows(NamedTuple):
    """Rows for an audit: x [n, ...], y [n], public_x [M, ...] and the number of labels."""

    x: np.ndarray
    y: np.ndarray
    public_x: np.ndarray
    num_classes: int


def load_audit_rows(spec, count, data_dir=None):
    """Loads rows in the form that the model of a spec takes.

    Models of words get images as 64 words: the brightness of each pixel, in steps of a sixteenth.

    Args:
        spec: `AuditSpec`.
        count: n, how many rows.
        data_dir: TFDS directory, or None for its default.

    Raises:
        DatasetNotFoundError: if the set is not there and cannot be downloaded.
        ValueError: if it has too few rows.
    """
    examples = load_examples(spec.dataset, "train", data_dir)
    public, private = split_public(examples, spec.public_batch_size, seed=spec.seed)
    if not 2 <= count <= len(private):
        raise ValueError(
            f"Expected 2 to {len(private)} private rows of {spec.dataset}, got {count}. Choose a "
            "smaller lot, or fewer canaries."
        )
    shape = _INPUT_SHAPES.get(spec.model, _IMAGE)
    inputs = [_inputs(x, shape) for x in (private.x[:count], public.x)]
    return AuditRows(inputs[0], private.y[:count], inputs[1], examples.num_classes)


def _inputs(images, shape):
    if shape != _WORDS:
        return match_images(images, shape)
    side = int(np.sqrt(shape[0]))
    small = match_images(images, (side, side, 1)).reshape(len(images), -1)
    return np.rint(_BRIGHTNESS_LEVELS * small).astype(np.int32)


def build_private(spec, rows, *, num_examples, steps, learning_rate=1.0):
    """Returns the compiled `PrivateModel` of an `AuditSpec`, untrained, with plain SGD.

    Args:
        spec: `AuditSpec`.
        rows: `AuditRows`.
        num_examples: N.
        steps: T.
        learning_rate: Of the SGD.
    """
    keras.utils.set_random_seed(spec.seed)  # initial weights; never noise or lots
    options = dict(_MODEL_OPTIONS.get(spec.model, {}))
    if spec.needs_public_rows:
        options.update(statistics=spec.statistics, statistics_gradient=spec.statistics_gradient)
    model = models.build(
        spec.model,
        norm=spec.norm,
        num_classes=rows.num_classes,
        input_shape=rows.x.shape[1:],
        **options,
    )
    flips = keras.layers.RandomFlip("horizontal") if spec.augmentation_multiplicity > 1 else None
    private = make_private(
        model,
        num_examples=num_examples,
        expected_batch_size=spec.expected_batch_size,
        steps=steps,
        l2_norm_clip=spec.l2_norm_clip,
        budget=PrivacyBudget(epsilon=spec.epsilon, delta=spec.delta),
        public_batch=rows.public_x if spec.needs_public_rows else None,
        accountant="pld",  # the tighter claim is the one to refute
        engine=spec.engine,
        physical_batch_size=spec.physical_batch_size,
        clipping=spec.clipping,
        clip_function=spec.clip_function,
        augmentation_multiplicity=spec.augmentation_multiplicity,
        augmentation=flips,
    )
    private.compile(
        keras.optimizers.SGD(learning_rate),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return private


def run_sensitivity(spec, *, ascent_steps=0, data_dir=None):
    """Measures how far one row moves the clipped sum.

    Args:
        spec: `AuditSpec`.
        ascent_steps: See `tfdpnorm.audit.attacks.sensitivity.measure_sensitivity`.
        data_dir: TFDS directory.

    Returns:
        Pair of the compiled `PrivateModel` and its `Sensitivity`.
    """
    rows = load_audit_rows(spec, spec.expected_batch_size, data_dir)
    private = build_private(spec, rows, num_examples=spec.expected_batch_size, steps=1)
    return private, measure_sensitivity(
        private, rows.x, rows.y, ascent_steps=ascent_steps, seed=spec.seed
    )


def run_one_step(spec, *, samples, confidence=0.95, black_box=False, ascent_steps=0, data_dir=None):
    """Audits the epsilon of one update on a whole lot, where one row moves it farthest.

    Args:
        spec: `AuditSpec`.
        samples: Released numbers from each of the two lots.
        confidence: Of the lower bound.
        black_box: See `tfdpnorm.audit.attacks.one_step.audit_one_step`.
        ascent_steps: See `tfdpnorm.audit.attacks.sensitivity.measure_sensitivity`.
        data_dir: TFDS directory.

    Returns:
        The record, a dict with the keys `AUDIT_FIELDS`.
    """
    started = time.perf_counter()
    private, measured = run_sensitivity(spec, ascent_steps=ascent_steps, data_dir=data_dir)
    found = audit_one_step(
        private,
        measured.frame,
        measured.row,
        sums=measured.sums,
        samples=samples,
        confidence=confidence,
        black_box=black_box,
        seed=spec.seed,
    )
    return _record(
        spec,
        private,
        found,
        check="black_box" if black_box else "mechanism",
        seconds=time.perf_counter() - started,
        samples=samples,
        sensitivity=found.sensitivity,
        details={
            "case": measured.add_remove_case,
            "exact_epsilon": found.exact_epsilon,
            "replace": measured.replace,
            "replace_case": measured.replace_case,
        },
    )


def run_canaries(
    spec,
    *,
    canaries,
    guesses,
    num_examples,
    steps,
    kind="mislabelled",
    learning_rate=0.1,
    confidence=0.95,
    data_dir=None,
    insecure_seed=None,
):
    """Trains once with canaries among the rows, and audits what that gave away.

    Args:
        spec: `AuditSpec`.
        canaries: m.
        guesses: r, even.
        num_examples: Private rows that are no canaries.
        steps: T updates.
        kind: See `tfdpnorm.audit.attacks.canaries.make_canaries`.
        learning_rate: Of the SGD.
        confidence: Of the lower bound.
        data_dir: TFDS directory.
        insecure_seed: For tests: repeatable canaries and coins.

    Returns:
        The record, a dict with the keys `AUDIT_FIELDS`.
    """
    check_guesses(guesses, canaries)  # before minutes of training
    started = time.perf_counter()
    rows = load_audit_rows(spec, num_examples + canaries, data_dir)
    x, y = rows.x[:num_examples], rows.y[:num_examples]
    planted = make_canaries(
        rows.x[num_examples:],
        rows.y[num_examples:],
        rows.num_classes,
        kind=kind,
        insecure_seed=insecure_seed,
    )
    private = build_private(
        spec,
        rows,
        num_examples=num_examples + canaries,
        steps=steps,
        learning_rate=learning_rate,
    )
    scores = CanaryScores(private, planted, x, y)
    joined_x, joined_y, weights = planted.join(x, y)
    batches = poisson_batches(
        joined_x, joined_y, sample_weight=weights, expected_batch_size=spec.expected_batch_size
    )
    private.fit(batches, verbose=0, callbacks=[scores])
    found = audit_canaries(
        scores.scores,
        planted.included,
        guesses=guesses,
        claimed_epsilon=private.plan.claimed_epsilon_after(steps),
        delta=spec.delta,
        confidence=confidence,
    )
    return _record(
        spec,
        private,
        found,
        check="canaries",
        seconds=time.perf_counter() - started,
        details={
            "canaries": found.canaries,
            "kind": kind,
            "guesses": found.guesses,
            "correct": found.correct,
            "num_examples": private.plan.num_examples,
            "steps": steps,
        },
    )


def _record(spec, private, found, *, check, seconds, details, samples=None, sensitivity=None):
    plan = private.plan
    return {
        "experiment": "audit",
        "cell": f"{spec.model}/{spec.path}/{check}",
        "check": check,
        "claimed_epsilon": found.claimed_epsilon,
        "audited_epsilon": found.audited_epsilon,
        "confidence": found.confidence,
        "violation": found.violation,
        "delta": found.delta,
        "guarantee_holds": plan.guarantee_holds,
        "no_guarantee_because": list(plan.no_guarantee_because),
        "model": spec.model,
        "statistics": private.statistics,
        "engine": private.engine,
        "noise_multiplier": plan.noise_multiplier,
        "l2_norm_clip": plan.l2_norm_clip,
        "expected_batch_size": plan.expected_batch_size,
        "sensitivity": sensitivity,
        "samples": samples,
        "details": details,
        "seed": spec.seed,
        "seconds": round(seconds, 1),
        **provenance(dataclasses.asdict(spec)),
    }
