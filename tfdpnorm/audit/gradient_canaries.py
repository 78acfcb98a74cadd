"""Canaries in the space of gradients: examples of which each moves one number, by C.

Mislabelled images share their gradients' directions with all other rows. These canaries share them
with no one: the model under audit gets a table with one number for each canary, which changes no
prediction, but whose gradient is so large that a canary's clipped gradient is C times the unit
vector of its own number, to some millionths. So the m numbers of the table are m attacks at full
strength on the very sampling, clipping, noise and division that train the rest of the model.

They are examples like all others: sampled, clipped and summed by the code that is audited.

Reference:
    Nasr et al. (2023), "Tight auditing of differentially private machine learning", Section 4, and
    Steinke, Nasr and Jagielski (2023), Section 6, for canaries that are gradients with one entry
    ("Dirac canaries"). They put them into the sum; here examples make them.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.audit.lower_bounds import one_run_epsilon_lower_bound
from tfdpnorm.audit.one_run import f_dp_epsilon_lower_bound, independent_epsilon_lower_bound

TABLE = "canary_table"
# How much larger the gradient with respect to a canary's number is than that with respect to
# everything else.
_LOUDNESS = 1e6


class _SilentTable(keras.layers.Layer):
    """Takes from the first logit a number that is always 0, and whose gradient is not."""

    def call(self, inputs):
        logits, numbers, loudness = inputs
        silent = loudness * (numbers - tf.stop_gradient(numbers))
        # A canary is of the first class, so that its loss falls with the first logit.
        return logits - silent[:, tf.newaxis] * tf.one_hot(0, logits.shape[-1])


def with_canary_table(model, count):
    """Returns a model with a number for each of m canaries, that predicts what `model` does.

    Args:
        model: Keras model that gives logits [rows, classes] for one input.
        count: m.

    Returns:
        Keras model of (x, id, loudness): the rows of `model`, ids from 0 to m - 1, and a factor
        on the canary's gradient, which is 0 for ordinary rows. Public rows have the id m.
    """
    x = keras.Input(model.input_shape[1:], dtype=model.inputs[0].dtype)
    canary, loudness = keras.Input((), dtype=tf.int32), keras.Input(())
    table = keras.layers.Embedding(count + 1, 1, embeddings_initializer="zeros", name=TABLE)
    numbers = keras.layers.Reshape(())(table(canary))
    logits = _SilentTable(name="silent")((model(x), numbers, loudness))
    return keras.Model((x, canary, loudness), logits)


def ordinary(x):
    """The rows of `with_canary_table` that are no canaries: (x, ids, loudness)."""
    return x, np.zeros(len(x), np.int32), np.zeros(len(x), np.float32)


def public_rows(x, count):
    """Public rows of `with_canary_table` with m canaries: unlike any private ones in each part."""
    return x, np.full(len(x), count, np.int32), np.ones(len(x), np.float32)


def with_canaries(x, y, included):
    """Appends gradient canaries, one for each coin of `included`, bool [m], to n ordinary rows.

    Canaries are all-zero inputs of the first class. One whose coin says "absent" has the sample
    weight 0: it adds nothing to a clipped sum, as if it were absent, while N and the sampling rate
    are the same for all coins. Returns ((x, ids, loudness), y, sample weights), all of n + m rows.
    """
    count = len(included)
    canaries = (
        np.zeros((count, *x.shape[1:]), x.dtype),
        np.arange(count, dtype=np.int32),
        np.full(count, _LOUDNESS, np.float32),
    )
    rows = tuple(
        np.concatenate([of_rows, of_canaries])
        for of_rows, of_canaries in zip(ordinary(x), canaries, strict=True)
    )
    labels = np.concatenate([y, np.zeros(count, y.dtype)])
    return rows, labels, np.concatenate([np.ones(len(x)), included]).astype(np.float32)


def plain_rate(optimizer):
    """Returns the rate of an optimizer whose updates are the released sums times a number.

    Raises ValueError for any but plain SGD at a constant rate.
    """
    settings = optimizer.get_config()
    rate = settings.get("learning_rate")
    if settings["name"].lower() != "sgd" or settings.get("momentum") or not np.isscalar(rate):
        raise ValueError(
            "Expected plain SGD at a constant learning rate, whose updates are the released sums "
            f"times a constant, got {settings}. Compile with tf.keras.optimizers.SGD(rate)."
        )
    return float(rate)


class TableScores(keras.callbacks.Callback):
    """Scores canaries by what the updates released along their own directions.

    In units of C, update t releases y_t = n_t + N(0, z^2) for a canary, where n_t says whether it
    was in the batch: never if it is absent, else with probability q. The score is the logarithm of
    the likelihood ratio of all y_t, by which the best test decides:

        sum_t log(1 - q + q exp((2 y_t - 1) / (2 z^2)))

    With q = 1 it is the sum of the y_t, up to constants. The compiled `tfdpnorm.PrivateModel`, of a
    model `with_canary_table`, is trained by plain SGD at a constant rate (else ValueError).

    Attributes:
        released: List of [m], float64: y_t of each update.
        scores: [m], float64.
    """

    def __init__(self, private):
        super().__init__()
        plan = private.plan
        (self._table,) = private.model.get_layer(TABLE).weights
        self._unit = plan.expected_batch_size / plain_rate(private.optimizer) / plan.l2_norm_clip
        self._rate, self._noise = plan.sampling_rate, plan.gradient_noise_multiplier
        self.released = []
        self.scores = np.zeros(self._table.shape[0] - 1)

    def on_train_batch_begin(self, batch, logs=None):
        self._before = self._numbers()

    def on_train_batch_end(self, batch, logs=None):
        of_update = (self._before - self._numbers()) * self._unit
        self.released.append(of_update)
        self.scores += log_likelihood_ratio(of_update, self._rate, self._noise)

    def _numbers(self):
        return self._table.numpy()[:-1, 0].astype(np.float64)


def check_guesses(guesses, canaries):
    """Raises ValueError unless `guesses` is an even number from 2 to `canaries`."""
    if guesses % 2 or not 2 <= guesses <= canaries:
        raise ValueError(
            f"Expected an even number of guesses from 2 to {canaries}, the number of canaries, got "
            f"{guesses}."
        )


def count_correct(scores, included, guesses):
    """Guesses "in" for the highest scores, "out" for the lowest; returns how many are correct.

    Raises ValueError if `guesses` is odd or out of range.
    """
    included = np.asarray(included, bool)
    check_guesses(guesses, len(included))
    order = np.argsort(scores)
    lowest, highest = order[: guesses // 2], order[-(guesses // 2) :]
    return int((~included[lowest]).sum() + included[highest].sum())


class GradientCanaryAudit(NamedTuple):
    """The result of an audit with gradient canaries in one training.

    Attributes:
        canaries: m.
        guesses: r, of the highest and the lowest scores.
        correct: v of them.
        correct_of_all: Correct guesses of all m coins, by the sign of the score.
        claimed_epsilon: What the accountant says.
        epsilon_delta_bound: The bound from v by epsilon and delta alone (Steinke et al. 2023).
        audited_epsilon: The bound from v by the curves of DP-SGD (`f_dp_epsilon_lower_bound`).
        independent_epsilon: The bound from `correct_of_all` for independent guesses
            (`independent_epsilon_lower_bound`): an honest implementation exceeds the claim as
            rarely as by the others.
        confidence: Of each bound.
        delta: Of all epsilons.
    """

    canaries: int
    guesses: int
    correct: int
    correct_of_all: int
    claimed_epsilon: float
    epsilon_delta_bound: float
    audited_epsilon: float
    independent_epsilon: float
    confidence: float
    delta: float

    @property
    def violation(self):
        """Whether the claim is refuted, whatever the canaries share."""
        return self.audited_epsilon > self.claimed_epsilon

    @property
    def not_as_claimed(self):
        """Whether training is not what it claims to be: too many of all guesses are correct."""
        return self.independent_epsilon > self.claimed_epsilon


def audit_gradient_canaries(scores, included, *, guesses, claimed_epsilon, family, confidence=0.95):
    """Guesses the coins of gradient canaries, and bounds epsilon in three ways.

    `scores` [m] are logarithms of likelihood ratios, see `TableScores`; `included` [m] are the
    coins; `guesses` is even, at most m, and fixed beforehand; `family` is the `DPSGDFamily` of the
    plan.
    """
    scores, included = np.asarray(scores), np.asarray(included, bool)
    count, correct = len(included), count_correct(scores, included, guesses)
    of_all = int(((scores > 0) == included).sum())
    return GradientCanaryAudit(
        canaries=count,
        guesses=guesses,
        correct=correct,
        correct_of_all=of_all,
        claimed_epsilon=claimed_epsilon,
        epsilon_delta_bound=one_run_epsilon_lower_bound(
            count, guesses, correct, delta=family.delta, confidence=confidence
        ),
        audited_epsilon=f_dp_epsilon_lower_bound(
            family, count, guesses, correct, confidence=confidence
        ),
        independent_epsilon=independent_epsilon_lower_bound(
            family, count, of_all, confidence=confidence
        ),
        confidence=confidence,
        delta=family.delta,
    )


def log_likelihood_ratio(y, rate, noise):
    """The log-likelihood ratio of a canary's presence and absence, for each number of an array.

    An update released `y`, in C, with noise of standard deviation `noise`; a canary that is present
    is in its batch with probability `rate` = q.
    """
    present = (2 * y - 1) / (2 * noise**2)
    if rate == 1:
        return present
    return np.logaddexp(np.log1p(-rate), np.log(rate) + present)
