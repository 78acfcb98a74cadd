"""An audit of one private update: the claimed epsilon against the one that an attack shows.

Two batches differ in one row. An attacker who knows both, and the weights, sees what the update
released and says which batch it was.
"""

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfdpnorm.audit.lower_bounds import epsilon_from_samples
from tfdpnorm.audit.sensitivity import ClippedSums
from tfdpnorm.keras_compat.variables import raw, trainable_variables
from tfdpnorm.privacy import epsilon_of
from tfdpnorm.privacy.accountants import dp_sgd_event


class EpsilonAudit(NamedTuple):
    """The result of an audit.

    Attributes:
        claimed_epsilon: What the accountant says, whether or not a guarantee holds.
        audited_epsilon: No smaller epsilon is true, with probability `confidence`.
        delta: Of both.
        sensitivity: Change of the clipped sum between the two batches, in C; None if it was not
            measured.
        exact_epsilon: The most that an attack on these two batches can reach, by the accountant:
            that of Gaussian noise on a change of `sensitivity`; None if that was not measured.
    """

    claimed_epsilon: float
    audited_epsilon: float
    confidence: float
    delta: float
    sensitivity: float | None = None
    exact_epsilon: float | None = None

    @property
    def violation(self):
        """Whether the claim is refuted."""
        return self.audited_epsilon > self.claimed_epsilon


def audit_one_step(
    private, frame, row, *, sums=None, samples=200_000, confidence=0.95, black_box=False, seed=0
):
    """Audits one update on a batch with a row against the same batch without it.

    The model itself computes the sums S and S' over the batches, once. An update releases a sum
    with noise N(0, (z C)^2) in each coordinate; along the best direction, u = (S - S') / ||S -
    S'||, that is exactly N(<S, u>, (z C)^2), so that samples of this one number say as much as the
    whole vector. They are drawn here, by NumPy.

    Args:
        private: A compiled `tfdpnorm.PrivateModel`, planned for one noisy update on the whole data
            set: steps = 1 and expected_batch_size = num_examples (else ValueError).
        frame: `tfdpnorm.audit.neighbours.Frame`, the batch.
        row: `tfdpnorm.audit.neighbours.Row`, the row that only one of the batches has.
        sums: `ClippedSums` of the model, if they are traced already.
        samples: Number of released numbers from each batch.
        confidence: Of the lower bound.
        black_box: Whether to run the model's own training step, with its own noise and optimizer,
            for every sample instead; see `training_step_samples`.
        seed: Of the samples that NumPy draws.
    """
    plan = private.plan
    if plan.steps != 1 or plan.sampling_rate != 1 or plan.noise_multiplier == 0:
        raise ValueError(
            "Expected a plan of one noisy update on the whole data set, got "
            f"steps={plan.steps}, sampling_rate={plan.sampling_rate:g}, "
            f"noise_multiplier={plan.noise_multiplier:g}. Plan with steps=1 and "
            "expected_batch_size=num_examples."
        )
    lots = [frame.lot(present, private.physical_batch_size) for present in (row, None)]
    sums = sums or ClippedSums(private, seed)
    difference = np.subtract(*map(sums, lots), dtype=np.float64)
    change = float(np.linalg.norm(difference))
    if black_box:
        drawn = [training_step_samples(private, lot, difference, samples) for lot in lots]
    else:
        rng = np.random.default_rng(seed)
        stddev = plan.noise_multiplier * plan.l2_norm_clip
        drawn = [rng.normal(mean, stddev, samples) for mean in (change, 0.0)]
    sensitivity = change / plan.l2_norm_clip
    audited = epsilon_from_samples(*drawn, delta=plan.delta, confidence=confidence)
    return EpsilonAudit(
        claimed_epsilon=plan.claimed_epsilon_after(1),
        audited_epsilon=audited,
        confidence=confidence,
        delta=plan.delta,
        sensitivity=sensitivity,
        exact_epsilon=gaussian_epsilon(sensitivity, plan.noise_multiplier, plan.delta),
    )


def gaussian_epsilon(sensitivity, noise_multiplier, delta):
    """The epsilon of one Gaussian mechanism, by the "pld" accountant; 0 for no change.

    Its sum changes by `sensitivity` >= 0, in C, and its noise has the standard deviation
    `noise_multiplier` > 0, in C.
    """
    if sensitivity == 0:
        return 0.0
    event = dp_sgd_event(1.0, noise_multiplier / sensitivity, 1)
    return epsilon_of(event, delta, "pld")


def training_step_samples(private, lot, direction, count):
    """Runs the training step `count` times from the same weights, and projects its updates.

    **Not private**: every run is one more release of the same batch, and none is in the ledger.
    Afterwards the weights and the optimizer's state are unchanged. Returns the weights' decrease
    along `direction`, a vector like those of `ClippedSums`: float64 [count].
    """
    trained = trainable_variables(private.model)
    private.optimizer.build(trained)
    # The others too: a step also releases running averages.
    others = raw(list(private.model.non_trainable_variables))
    restored = [*trained, *others, *private.optimizer.variables]
    kept = [tf.identity(v) for v in restored]
    # Gradients that only the pull-back needs come last in the sum; they belong to no weight.
    ends = np.cumsum([math.prod(v.shape) for v in trained])
    parts = np.split(np.asarray(direction, np.float32)[: ends[-1]], ends[:-1])
    along = [part.reshape(v.shape) for part, v in zip(parts, trained, strict=True)]

    @tf.function
    def run():
        for variable, value in zip(restored, kept, strict=True):
            variable.assign(value)
        private.train_step(lot)
        return tf.add_n(
            [
                tf.reduce_sum(tf.cast((before - v) * part, tf.float64))
                for before, v, part in zip(kept, trained, along, strict=False)
            ]
        )

    try:
        return np.array([run().numpy() for _ in range(count)])
    finally:
        for variable, value in zip(restored, kept, strict=True):
            variable.assign(value)
        private.reset_metrics()
