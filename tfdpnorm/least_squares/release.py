"""One noisy release of X'X and X'Y, and the linear head that follows from it."""

from __future__ import annotations

import math
import os
import warnings
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm import arguments
from tfdpnorm.errors import PrivacyWarning
from tfdpnorm.layers import ScaleToBounds
from tfdpnorm.least_squares.products import SENSITIVITY, Coding, Products, row_weights
from tfdpnorm.least_squares.ridge import gram_share_for, solved
from tfdpnorm.noise.gaussian import GaussianNoise
from tfdpnorm.privacy import (
    PrivacyLedger,
    create_ledger,
    make_plan,
    privacy_statement,
    statement_json,
)
from tfdpnorm.privacy.added_delta import check_plan
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.entries import Declaration, Updates
from tfdpnorm.privacy.metadata import write_metadata
from tfdpnorm.privacy.phases import caveats_of_phases
from tfdpnorm.training.provenance import Provenance, warn_of_initial_weights

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import ArrayLike

    from tfdpnorm.privacy.budget import PrivacyBudget
    from tfdpnorm.privacy.plan import PrivacyPlan


_INTERCEPT = 0.1  # of the largest norm of features: shorter than any row with signal
_LEAST_SIGNAL = 5.0
_SHORTEST_CLIP = 1e-100  # squares of smaller numbers are no float64
_INCOMPLETE = (
    "Some rows count as nothing: their features are not finite, or their labels are out of range. "
    "This message is for the data holder: it depends on private rows."
)


class LeastSquaresHead:
    """The result of `private_least_squares`: a Keras model and its ledger.

    Attributes:
        model: Keras model from features [rows, d] to scores [rows, outputs]: one dense layer, after
            `ScaleToBounds` if there are bounds; or, of `behind`, from what computes the features.
        ledger: `PrivacyLedger`, whose one update is spent.
        gram: X'X as it was released, float64 [d + 1, d + 1], with the intercept last: noisy,
            symmetric, in units of l2_norm_clip^2. It may have negative eigenvalues.
        cross: X'Y as it was released, float64 [d + 1, outputs], in units of l2_norm_clip.
        gram_noise: Standard deviation of the noise in `gram` off its diagonal; on it, sqrt(2)
            times that.
    """

    def __init__(  # noqa: DOC101, DOC103
        self,
        model: keras.Model,
        ledger: PrivacyLedger,
        gram: np.ndarray,
        cross: np.ndarray,
        gram_noise: float,
    ) -> None:
        self.model, self.ledger = model, ledger
        self.gram, self.cross, self.gram_noise = gram, cross, gram_noise
        self._provenance = Provenance(model, ledger)

    @property
    def plan(self) -> PrivacyPlan:
        """The `PrivacyPlan`: one update at sampling rate 1."""
        return self.ledger.plan

    def epsilon(self) -> float:
        """Returns the epsilon guaranteed at the plan's delta, a float; infinite without one."""
        return self.ledger.epsilon()

    def privacy_statement(self) -> str:
        """Returns what is guaranteed, for whom, and what is not covered, in plain English."""
        self._provenance.check()
        return privacy_statement(self._provenance.stated_ledger, self._provenance.digest())

    def privacy_statement_json(self) -> dict[str, Any]:
        """Returns the same as a dict that JSON can hold; see `tfdpnorm.privacy.statement_json`."""
        self._provenance.check()
        return statement_json(self._provenance.stated_ledger, self._provenance.digest())

    def behind(self, front: keras.Model) -> LeastSquaresHead:
        """Returns a head whose `model` begins with the model that computes the features.

        Args:
            front: Keras model with one input, from it to the features [rows, d]; is frozen.

        Returns:
            A `LeastSquaresHead` with the same ledger, which also says what is known of earlier
            training of `front`, as `make_private` does of initial weights.

        Warns:
            PrivacyWarning: if `front` was trained before, and the declaration does not say on what.
        """
        self._provenance.check()
        front.trainable = False
        scores = front.outputs[0]
        for layer in self.model.layers:
            scores = layer(scores)
        whole = keras.Model(front.inputs[0], scores, name=front.name)
        ledger = self._provenance.stated_ledger
        head = LeastSquaresHead(whole, ledger, self.gram, self.cross, self.gram_noise)
        # The check above was of the head's own weights: those of `front` are not of this release.
        head._provenance.begin(front)
        head._provenance.note()
        warn_of_initial_weights(head._provenance.stated_ledger, is_new=True)
        return head

    def servable(self) -> keras.Model:
        """Returns `model`, as a `PrivateModel` does."""
        self._provenance.check()
        return self.model

    def privacy_metadata(self, saved: keras.Model | None = None) -> dict[str, Any]:
        """Returns what files of the model say of it; see `PrivateModel.privacy_metadata`."""
        self._provenance.check()
        return self._provenance.metadata(self.model if saved is None else saved)

    def save(self, filepath: str | os.PathLike, **options: Any) -> None:
        """Saves `model` as Keras does, with privacy metadata: what was spent on its weights."""
        self.servable().save(filepath, **options)
        if isinstance(filepath, (str, os.PathLike)):
            write_metadata(filepath, self.privacy_metadata())


def private_least_squares(
    features: ArrayLike,
    labels: ArrayLike,
    *,
    budget: PrivacyBudget | None = None,
    noise_multiplier: float | None = None,
    delta: float | None = None,
    num_classes: int | None = None,
    target_norm_clip: float | None = None,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    l2_norm_clip: float | None = None,
    person: ArrayLike | None = None,
    most_per_person: int | None = None,
    accountant: str = "pld",
    noise_generator: str | None = None,
    insecure_seed: int | None = None,
    after: PrivacyLedger | str | os.PathLike | None = None,
    ledger_file: str | os.PathLike | None = None,
    declaration: Declaration | None = None,
) -> LeastSquaresHead:
    """Solves for a linear head on fixed features by one noisy release of X'X and X'Y.

    There is nothing to tune and nothing to train: one Gaussian mechanism, and a kernel by rules
    from public numbers (`tfdpnorm.least_squares.ridge`). Where the budget or the data are small,
    that is better than DP-SGD (docs/one_release.md has figures).

    Each row of features, with an intercept, is scaled down to `l2_norm_clip`, so that an example
    moves the released vector by at most 1 (`tfdpnorm.least_squares.products` has the proof). The
    noise of standard
    deviation z lies on a grid and accounts for the rounding of the sum. The number of examples is
    public, as everywhere in this library.

    A row with a number that is not finite, or with a label out of range, counts as nothing.

    Args:
        features: [M, d], finite numbers. **What computes them must not have learnt from private
            data**, and the features of a row must depend on that row alone. Without `bounds`,
            columns with large numbers hide the others: scale them, or centre and whiten them by
            public examples.
        labels: With `num_classes` [M], whole numbers from 0; else targets, [M] or [M, outputs].
        budget: `PrivacyBudget`; the noise is calibrated to it.
        noise_multiplier: z instead, >= 0; needs `delta`.
        delta: Only with `noise_multiplier`.
        num_classes: K >= 2, public; None for targets.
        target_norm_clip: b > 0, public: the largest norm of a target; longer ones are scaled down.
        bounds: The pair of low and high of `ScaleToBounds`, public: a column's range, not that of
            the private values. Columns are scaled to it, and the model does the same.
        l2_norm_clip: C > 0, public: the largest norm of a row of features, divided by sqrt(d) after
            `bounds`. A value below all of them gives each row the same length, which suits classes:
            the scores of a row are then off by a factor that does not change their order. None for
            1; with bounds and classes, for one length.
        person: [M] whose each row is, integers or texts: persons are then protected, with all of
            their rows, and count as examples. None where each row is an example.
        most_per_person: With `person`, k >= 1, public: the first k rows of a person are read, and
            the person adds the mean of what these would.
        accountant: "pld", which is nearly exact here, or "rdp".
        noise_generator: "openssl", a cryptographic generator, or "philox", which is not; None for
            the first, or the second with `insecure_seed`.
        insecure_seed: For tests: makes the noise repeatable. No guarantee holds.
        after: `PrivacyLedger` of what was released of the same examples before, or the path of its
            file: the budget, and every epsilon, are of all together.
        ledger_file: Path of a file, which must not be there yet, for the ledger; it is written
            before the noise is drawn, and stays open until `head.ledger.close()`. None keeps the
            ledger in memory.
        declaration: `tfdpnorm.privacy.Declaration`: who is responsible, and how the settings were
            found, for the statement.

    Returns:
        `LeastSquaresHead`.

    Raises:
        TypeError, ValueError: with what was expected, for arguments that are out of their range or
            do not fit together.
        FileExistsError: if `ledger_file` is there: what it counts is spent, and a second release
            needs a ledger of its own, `after` that one.

    Warns:
        PrivacyWarning: if N / (z K), with K outputs, is below 5: noise hides the classes. And if
            rows count as nothing; this is not private: it is for the data holder.

    Example::

        head = tfdpnorm.private_least_squares(features, y, num_classes=3, budget=budget)
        scores = head.model.predict(features, verbose=0)
        print(head.privacy_statement())

    Reference:
        Mehta, Krichene, Thakurta, Kurakin and Cutkosky (2023), "Differentially private image
        classification from features"; Sheffet (2017), "Differentially private ordinary least
        squares", for the release.
    """
    features, labels, coding = _checked_data(features, labels, num_classes, target_norm_clip)
    scaling = None if bounds is None else _scaling(bounds, features.shape[1])
    clip, intercept = _lengths(l2_norm_clip, scaling, coding)
    if declaration is not None:
        arguments.instance("declaration", declaration, Declaration)
    reasons = ()
    if insecure_seed is not None:
        arguments.integer("insecure_seed", insecure_seed, at_least=0, wrong_type=ValueError)
        reasons = ("the noise comes from a seed that is not secret",)
    noise = GaussianNoise(insecure_seed, noise_generator)
    count, weights = _checked_weights(len(features), person, most_per_person)
    plan = make_plan(
        num_examples=count,
        expected_batch_size=count,
        steps=1,
        l2_norm_clip=SENSITIVITY,
        budget=budget,
        noise_multiplier=noise_multiplier,
        delta=delta,
        accountant=accountant,
        no_guarantee_because=reasons,
        after=after,
        most_per_person=most_per_person,
    )
    _warn_of_noise(plan, coding)
    width = features.shape[1]
    share = gram_share_for(count, plan.noise_multiplier, width, coding.outputs)
    products = Products(width + 1, coding, clip, share, intercept)
    unit = 1.0 if scaling is None else 1 / math.sqrt(width)
    if scaling is not None:
        features = scaling(features).numpy() * unit
    total, complete = products.total(features, labels, weights)
    if not complete:
        warnings.warn(_INCOMPLETE, PrivacyWarning, stacklevel=2)
    ledger = _opened(ledger_file, plan, products, noise)
    if declaration is not None:
        ledger.record(declaration)
    ledger.record(Updates(1))  # Spent from here on, whatever becomes of the noise.
    stddev = plan.noise_multiplier * SENSITIVITY * (1 + products.rounding(count))
    if stddev:
        with tf.device("/cpu:0"):
            (noisy,) = noise.noised([tf.constant(total)], stddev, noise.next_number())
        total = noisy.numpy()
    gram, cross = products.matrices(total)
    gram_noise = products.gram_noise(stddev)
    kernel = solved(gram, cross, gram_noise, count) / clip
    dense = keras.layers.Dense(coding.outputs, name="least_squares")
    scalings = [] if scaling is None else [scaling]
    model = keras.Sequential([keras.Input((width,), name="features"), *scalings, dense])
    dense.set_weights(
        [(kernel[:-1] * unit).astype(np.float32), (kernel[-1] * intercept).astype(np.float32)]
    )
    head = LeastSquaresHead(model, ledger, gram, cross, gram_noise)
    head._provenance.note()
    return head


def _checked_data(features, labels, num_classes, target_norm_clip):
    """The triple of features [M, d], labels, and their `Coding`."""
    features, labels = np.asarray(features), np.asarray(labels)
    if features.ndim != 2 or features.dtype.kind not in "fiub" or 0 in features.shape:
        raise ValueError(
            "Expected features to be numbers [examples, features], at least one of each, got "
            f"{features.dtype} of shape {list(features.shape)}. Flatten features with more axes."
        )
    if (num_classes is None) == (target_norm_clip is None):
        got = "neither" if num_classes is None else "both"
        raise ValueError(
            f"Expected exactly one of num_classes and target_norm_clip, got {got}. Give "
            "num_classes for labels that are whole numbers from 0, or the largest norm of a target."
        )
    is_of_classes = num_classes is not None
    ranks, kinds = ((1,), "iu") if is_of_classes else ((1, 2), "fiub")
    if labels.ndim not in ranks or labels.dtype.kind not in kinds or 0 in labels.shape:
        form = "whole numbers [examples]" if is_of_classes else "numbers [examples, outputs]"
        raise ValueError(
            f"Expected labels to be {form}, got {labels.dtype} of shape {list(labels.shape)}."
            + (" Take the argmax of one-hot labels." if is_of_classes else "")
        )
    if len(labels) != len(features):
        raise ValueError(
            f"Expected a label for each of {len(features)} rows of features, got {len(labels)}. "
            "Give both in the same order."
        )
    if is_of_classes:
        count = arguments.integer("num_classes", num_classes, at_least=2, wrong_type=ValueError)
        return features, labels, Coding.of_classes(count)
    bound = arguments.within("target_norm_clip", target_norm_clip, _SHORTEST_CLIP, 1e100)
    return features, labels, Coding(None, int(np.prod(labels.shape[1:])), bound)


def _scaling(bounds, width):
    """The `ScaleToBounds` of bounds for so many columns."""
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise arguments.refusal("bounds", "to be a pair (low, high)", bounds)
    for bound in bounds:
        if np.shape(bound) not in ((), (width,)):
            raise ValueError(
                f"Expected bounds to be numbers, or [{width}], one for each column of the features,"
                f" got {list(np.shape(bound))}."
            )
    return ScaleToBounds(*bounds, name="scale_to_bounds")


def _lengths(l2_norm_clip, scaling, coding):
    """The pair of the clipping norm and the intercept."""
    if l2_norm_clip is None:
        # No row with an intercept is shorter than that: one length for all.
        one_length = scaling is not None and coding.num_classes is not None
        return (_INTERCEPT if one_length else 1.0), _INTERCEPT
    clip = arguments.within("l2_norm_clip", l2_norm_clip, _SHORTEST_CLIP, 1e100)
    return clip, _INTERCEPT * (clip if scaling is None else 1.0)


def _warn_of_noise(plan, coding):
    """Warns if the noise in the sums of a class exceeds what tells one from another."""
    signal = math.inf
    if plan.noise_multiplier:
        signal = plan.num_examples / (plan.noise_multiplier * coding.outputs)
    if signal < _LEAST_SIGNAL:
        warnings.warn(
            f"Little will be learnt: signal to noise is N / (z K) = {signal:.2g}, and below "
            f"{_LEAST_SIGNAL:g} the noise hides the classes. Take more {plan.unit}s or a larger "
            f"epsilon: {_LEAST_SIGNAL / signal:.2g} times as many would do.",
            PrivacyWarning,
            stacklevel=3,
        )


def _checked_weights(count, person, most_per_person):
    """The pair of `row_weights`."""
    if (person is None) != (most_per_person is None):
        raise ValueError(
            "Expected person and most_per_person together, got "
            f"most_per_person={most_per_person!r} {'without' if person is None else 'with'} "
            "person. Give the person of each row, and how many rows of a person are read."
        )
    if person is not None and np.shape(person) != (count,):
        raise ValueError(
            f"Expected person to be [{count}], one for each row, got {list(np.shape(person))}."
        )
    return row_weights(count, person, most_per_person)


def _opened(ledger_file, plan, products, noise):
    """The `PrivacyLedger`, in a file or in memory, with the caveats of the release."""
    settings = {
        "noise_generator": noise.generator,
        "noise_grid": "stddev / 32",
        "sum_rounding": products.rounding(plan.num_examples),
        "insecure_seed": noise.insecure_seed,
    }
    ledger = PrivacyLedger(plan, settings)
    check_plan(ledger)
    if ledger_file is not None:
        ledger = create_ledger(ledger_file, plan, settings)
    about = {
        "features": products.columns - 1,
        "share": products.gram_share,
        "most_per_person": plan.drawn_per_person,
    }
    for known in (
        caveat("one_release", **about),
        caveat("given_features"),
        *caveats_of_phases(plan.earlier),
    ):
        ledger.record(known)
    return ledger
