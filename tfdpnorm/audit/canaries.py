"""An audit of a whole training in one run: can an attacker guess which canaries were trained on?

Canaries are rows among the private ones; the toss of a coin decides for each whether it is in the
data. After one ordinary private training an attacker who saw every update guesses the coins. If
the training is private, the guesses are hardly better than chance.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.arguments import choice
from tfdpnorm.audit.lower_bounds import one_run_epsilon_lower_bound
from tfdpnorm.audit.neighbours import row_weights
from tfdpnorm.choices import CANARY_KINDS
from tfdpnorm.data import Lot
from tfdpnorm.gradients.map_rows import map_rows

# Times the mean squared length of a clipped gradient: keeps estimates of similar canaries stable.
_RIDGE = 0.1


class Canaries(NamedTuple):
    """Rows [m, ...] with labels [m] whose presence is secret; the coins `included`, bool [m]."""

    x: np.ndarray
    y: np.ndarray
    included: np.ndarray

    def join(self, x, y):
        """Appends the canaries to private rows; returns x [n + m, ...], y and sample weights.

        Those whose coin says "absent" get the sample weight 0. Such a row adds nothing to a clipped
        sum, as if it were absent, while N and the sampling rate are the same for all coins.
        """
        weights = np.concatenate([np.ones(len(x), np.float32), self.included.astype(np.float32)])
        return np.concatenate([x, self.x]), np.concatenate([y, self.y]), weights


def make_canaries(x, y, num_classes, *, kind="mislabelled", insecure_seed=None):
    """Makes `Canaries` of rows that are not trained on.

    Args:
        x: [m, ...], rows that are not among the private ones.
        y: [m] int labels.
        num_classes: Number of labels, at least 2.
        kind: "mislabelled": the rows, each with another label. "random_pixels": independent uniform
            numbers within the range of x, with random labels. ValueError for another one.
        insecure_seed: For tests: makes canaries and coins repeatable. None: the coins come from the
            operating system.
    """
    choice("kind", kind, CANARY_KINDS)
    rng = np.random.default_rng(insecure_seed)
    count = len(x)
    if kind == "mislabelled":
        y = (y + rng.integers(1, num_classes, count)) % num_classes
    else:
        x = rng.uniform(x.min(), x.max(), x.shape).astype(x.dtype)
        y = rng.integers(num_classes, size=count)
    return Canaries(x, y, rng.integers(2, size=count).astype(bool))


class CanaryScores(keras.callbacks.Callback):
    """Estimates, while a model trains, how often each canary was in the batches.

    The attacker of differential privacy knows everything but the coins. From the weights before an
    update he computes q times the clipped sum of all other rows, and the clipped gradient g_i of
    each canary. What the update released beyond the former is sum_i n_i g_i, plus noise and the
    randomness of sampling. The scores are the least-squares estimates of the n_i over all updates.

    Each update takes the memory and time of m clipped gradients, each of the size of the model.
    Where the released numbers go through a pull-back (public-batch normalisation with the full
    gradient) the estimates are rough, and the audit is weaker. Raises ValueError if the optimizer
    is not plain SGD at a constant rate, or the model's statistics are those of the batch, in which
    a row of weight 0 still counts.

    Args:
        private: The compiled `tfdpnorm.PrivateModel` that will be trained, by plain SGD.
        canaries: `Canaries`; the scores do not use their coins.
        x: [n, ...], the other private rows. For a plan of persons, these and the canaries are
            persons, with all their rows: [n, R, ...] with R = `most_per_person`.
        y: [n], or [n, R].
        rows_at_a_time: How many rows go through the model at once.

    Reference:
        Nasr et al. (2023), Section 4, and Steinke, Nasr and Jagielski (2023), Section 6, for
        white-box scores of updates; they take inner products <update, g_i>, which confuse canaries
        with similar gradients.
    """

    def __init__(self, private, canaries, x, y, *, rows_at_a_time=256):
        super().__init__()
        if "lot" in private.statistics:
            raise ValueError(
                "Expected statistics on which a row of weight 0 has no effect, got "
                f"{private.statistics!r}, whose moments include it. Audit one step instead."
            )
        self._private = private
        self._rate = plain_rate(private.optimizer)
        self._others = [
            self._lot(x[i : i + rows_at_a_time], y[i : i + rows_at_a_time], rows_at_a_time)
            for i in range(0, len(x), rows_at_a_time)
        ]
        self._canaries = tf.constant(canaries.x), tf.constant(canaries.y)
        count = len(canaries.x)
        self._products, self._moments = np.zeros((count, count)), np.zeros(count)
        self._sum = tf.function(self._weights_part)
        self._each = tf.function(self._each_canary)

    def on_train_batch_begin(self, batch, logs=None):
        plan = self._private.plan
        self._weights = self._weight_vector()
        self._expected = plan.sampling_rate * sum(self._sum(lot).numpy() for lot in self._others)
        self._gradients = self._each().numpy()

    def on_train_batch_end(self, batch, logs=None):
        plan = self._private.plan
        decrease = self._weights - self._weight_vector()
        beyond = decrease * (plan.expected_batch_size / self._rate) - self._expected
        self._products += self._gradients @ self._gradients.T
        self._moments += self._gradients @ beyond

    @property
    def scores(self):
        """[m], float64: higher for a canary that was probably trained on."""
        ridge = _RIDGE * np.trace(self._products) / len(self._moments)
        return np.linalg.solve(self._products + ridge * np.eye(len(self._moments)), self._moments)

    def _weight_vector(self):
        return np.concatenate([v.numpy().ravel() for v in self._private.model.trainable_variables])

    def _weights_part(self, lot):
        # Gradients that only a pull-back needs come last; they belong to no weight.
        count = len(self._private.model.trainable_variables)
        return tf.concat([tf.reshape(g, [-1]) for g in self._private.clipped_sum(lot)[:count]], 0)

    def _each_canary(self):
        def one(row):
            return self._weights_part(Lot(*(t[tf.newaxis, tf.newaxis] for t in row)))

        ones = tf.ones(len(self._moments))
        weights = row_weights(ones, self._private.plan.drawn_per_person)
        return map_rows(one, (*self._canaries, weights, ones))

    def _lot(self, x, y, rows):
        """One physical batch of `rows` rows, padded with zeros."""
        mask = tf.constant((np.arange(rows) < len(x)).astype(np.float32)[np.newaxis])

        def laid_out(leaf):
            full = np.zeros((1, rows, *leaf.shape[1:]), leaf.dtype)
            full[0, : len(leaf)] = leaf
            return tf.constant(full)

        weights = row_weights(mask, self._private.plan.drawn_per_person)
        return Lot(laid_out(x), laid_out(y), weights, mask)


class CanaryAudit(NamedTuple):
    """The result of an audit with canaries in one run.

    Attributes:
        canaries: m.
        guesses: r.
        correct: v.
        claimed_epsilon: What the accountant says, whether or not a guarantee holds.
        audited_epsilon: No smaller epsilon is true, with probability `confidence`.
        delta: Of both epsilons.
    """

    canaries: int
    guesses: int
    correct: int
    claimed_epsilon: float
    audited_epsilon: float
    confidence: float
    delta: float

    @property
    def violation(self):
        """Whether the claim is refuted."""
        return self.audited_epsilon > self.claimed_epsilon


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


def audit_canaries(scores, included, *, guesses, claimed_epsilon, delta, confidence=0.95):
    """Returns the `CanaryAudit` of guesses by `count_correct`.

    `scores` [m] are higher for canaries that were probably trained on; `included` [m] are the
    coins; `guesses` is even, at most m, and fixed beforehand.
    """
    correct = count_correct(scores, included, guesses)
    return CanaryAudit(
        canaries=len(included),
        guesses=guesses,
        correct=correct,
        claimed_epsilon=claimed_epsilon,
        audited_epsilon=one_run_epsilon_lower_bound(
            len(included), guesses, correct, delta=delta, confidence=confidence
        ),
        confidence=confidence,
        delta=delta,
    )


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
