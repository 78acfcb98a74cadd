"""The cost of a search for hyperparameters: its plan, fixed before the first trial.

A trial is one private training with settings of its own, and a score. Two kinds of search have an
epsilon. One draws a random number of trials in secret, with settings that are drawn independently
of all scores, and releases the best of them and nothing else: that costs two to three times what a
trial does (Liu and Talwar 2019, Papernot and Steinke 2022). The other has a fixed number of trials,
may choose the settings by the scores so far, and releases whatever it likes: all its trials are
composed.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from tfdpnorm import arguments
from tfdpnorm.checked import Checked, field
from tfdpnorm.privacy.accountants import (
    RDP_ORDERS,
    composed_rdp,
    of_rdp,
    rdp_to_deltas,
    rdp_to_epsilon,
)
from tfdpnorm.privacy.mechanisms import overflows
from tfdpnorm.privacy.profiles import of_group, plus
from tfdpnorm.privacy.slots import SHARE_OF_DELTA, most_per_batch_for

_IN_WORDS = {math.inf: "Poisson", 1.0: "geometric"}


def _shape(name, value):
    if value is not None and arguments.real(name, value) not in _IN_WORDS:
        raise arguments.refusal(name, "to be infinity, 1 or None", value)
    return value if value is None else float(value)


def _trials(name, trials):
    if not trials:
        raise ValueError("There is no kind of trial. Name at least one.")
    return tuple(
        (
            arguments.sampling_rate("sampling rate of a trial", rate),
            arguments.nonnegative("noise multiplier of a trial", noise),
            arguments.updates("updates of a trial", updates, at_least=1),
        )
        for rate, noise, updates in trials
    )


@dataclass(frozen=True)
class SearchPlan(Checked):
    """How the trials of a search are counted.

    Attributes:
        expected_trials: E[K] >= 1 of the random number K of trials; where all of them are composed,
            the number of trials, a whole one.
        shape: Of the distribution of K (Papernot and Steinke 2022, Definition 1): infinity for
            Poisson's, which may draw no trial; 1 for the geometric one. None: all trials are
            composed.
        trials: What a trial may be, at the dearest: a tuple of (sampling rate, noise multiplier,
            updates). More than one where settings that change the cost are searched, such as the
            batch. A trial costs the largest of their Renyi divergences, order by order, whichever
            of them it is.
        score_noise_multiplier: Standard deviation of the noise on the number of validation examples
            that a trial answers correctly, its score, in examples; None where the validation
            examples are public.

    Raises:
        ValueError: if a value is outside of its range.
    """

    expected_trials: float
    shape: float | None = field(_shape)
    trials: tuple = field(_trials)
    score_noise_multiplier: float | None = field(arguments.positive, None)

    def __post_init__(self):
        super().__post_init__()
        if self.is_composed:
            expected = arguments.whole("trials", self.expected_trials, at_least=1)
        else:
            expected = arguments.positive("expected_trials", self.expected_trials)
        if expected < 1:
            raise arguments.refusal("expected_trials", "to be at least 1", expected)
        self._set("expected_trials", expected)

    @property
    def is_composed(self):
        """Whether all trials are composed."""
        return self.shape is None

    def draw(self, rng):
        """Draws K, an int, by a `numpy.random.Generator`, whose state reveals it."""
        if self.is_composed:
            return self.expected_trials
        if self.shape == 1:
            return int(rng.geometric(1 / self.expected_trials))
        return int(rng.poisson(self.expected_trials))

    @property
    def in_words(self):
        """How many trials there are, in words."""
        if self.is_composed:
            return f"{self.expected_trials} trials"
        return f"{self.expected_trials:g} expected trials, {_IN_WORDS[self.shape]} distribution"

    def entry(self):
        """Returns the fields as plain values by name, as a line of a ledger has them: a dict."""
        return {
            "expected_trials": self.expected_trials,
            "shape": "inf" if self.shape == math.inf else self.shape,
            "trials": [list(trial) for trial in self.trials],
            "score_noise_multiplier": self.score_noise_multiplier,
        }

    @classmethod
    def of_entry(cls, fields):
        """Returns the `SearchPlan` of a dict that `entry` gave."""
        shape = math.inf if fields["shape"] == "inf" else fields["shape"]
        return cls(**{**fields, "shape": shape, "trials": tuple(map(tuple, fields["trials"]))})

    def covers(self, plan):
        """Whether a run with that `PrivacyPlan` costs at most what a trial may."""
        stated = plan.stated_per_person or 1
        return any(
            plan.sampling_rate <= rate and plan.noise_multiplier >= noise and plan.steps <= updates
            for rate, noise, updates in self.trials
        ) and self._has_delta_for(overflows([plan.mechanism(plan.steps)], stated), plan.delta)

    def most_per_batch(self, delta, num_examples, sampling_rate, updates, rows=1):
        """The most examples in the batches of a trial that this search `covers`.

        All trials together are expected to overflow so seldom that it is in delta. The usual limit
        would cost divergences of high orders too much. `rows` is of a person whose epsilon is
        stated.
        """
        overflow = self._for_overflows * delta / self.expected_trials / updates
        return most_per_batch_for(num_examples, sampling_rate, overflow, rows)

    def _has_delta_for(self, overflows_of_trial, delta):
        return self.expected_trials * overflows_of_trial <= self._for_overflows * delta

    @property
    def _for_overflows(self):
        """The share of delta that is kept for the overflows of all trials."""
        return SHARE_OF_DELTA if any(rate < 1 for rate, _, _ in self.trials) else 0.0

    def noise_for(self, sampling_rate, updates):
        """The noise multiplier of a trial with that sampling rate and at most so many updates.

        Raises:
            ValueError: if no trial is planned with that sampling rate, or so many updates.
        """
        planned = [
            (most, noise)
            for rate, noise, most in self.trials
            if math.isclose(rate, sampling_rate, rel_tol=1e-12) and most >= updates
        ]
        if not planned:
            known = ", ".join(f"q = {rate:g} and {most}" for rate, _, most in self.trials)
            raise ValueError(
                f"Expected a sampling rate and a number of updates that the search was planned for "
                f"({known}), got q = {sampling_rate:g} and {updates}. Name all batches in `lots`."
            )
        return min(planned)[1]

    def epsilon(self, delta, trial=()):
        """The epsilon of the search for every training example, by Renyi DP.

        `trial` is what the released one has spent, as in `composed_rdp`: counted where it is more
        than planned.
        """
        return self._epsilon(_rdp(self, self.trials, tuple(trial)), delta)

    def profile(self, plan, rows=1, trial=()):
        """The profile for a person of `rows` training examples; see `epsilon`.

        `plan` is the `PrivacyPlan` of one of the trials. Raises ValueError for a person of more
        rows than it states an epsilon for: their overflows have no share of delta.
        """
        if rows > (plan.stated_per_person or 1):
            raise ValueError(
                f"A search states no epsilon for persons with {rows} rows, but with "
                f"{plan.stated_per_person or 1}. Plan its trials with most_per_person={rows}."
            )
        known = of_group(of_rdp(_rdp(self, self.trials, tuple(trial))), rows)
        return plus(known, self._for_overflows * plan.delta)

    def _epsilon(self, rdp, delta):
        return rdp_to_epsilon(rdp, (1 - self._for_overflows) * delta)

    def score_epsilon(self, delta, queries=()):
        """The epsilon of the search for every validation example, if none is a training example.

        `queries` is what was released about them in the trial, as in `composed_rdp`.
        """
        noise = self.score_noise_multiplier
        planned = () if noise is None else ((1.0, noise, 1),)
        if not planned and not queries:
            return 0.0
        return rdp_to_epsilon(_rdp(self, planned, tuple(queries)), delta)

    def trial_epsilon(self, delta):
        """The epsilon of one trial by itself, the dearest, had there been no search."""
        return self._epsilon(_largest(self.trials), delta)

    def composed_epsilon(self, delta):
        """The epsilon of as many trials as are expected, all of them released."""
        return self._epsilon(self.expected_trials * _largest(self.trials), delta)


def _largest(mechanisms):
    return np.max([composed_rdp((mechanism,)) for mechanism in mechanisms], axis=0)


@functools.lru_cache(maxsize=256)
def _rdp(plan, mechanisms, spent):
    """Of a search whose trials are, at the dearest, one of `mechanisms` or all of `spent`."""
    curves = [_largest(mechanisms)] if mechanisms else []
    curves += [composed_rdp(spent)] if spent else []
    of_a_trial = np.max(curves, axis=0)
    if plan.is_composed:
        return plan.expected_trials * of_a_trial
    if not np.isfinite(of_a_trial).any():
        return of_a_trial
    return selection_rdp(of_a_trial, plan.expected_trials, plan.shape)


def selection_rdp(trial_rdp, mean, shape):
    """The Renyi divergence bound of releasing the best of K trials, and nothing of the others.

    `trial_rdp` [len(RDP_ORDERS)] has the bounds of one trial, its score included; `mean` and
    `shape` are of K, see `SearchPlan`.

    Reference:
        Papernot and Steinke (2022), Theorem 2 (with gamma = 1 / `mean`) and Theorem 6 (Poisson).
    """
    orders = np.array(RDP_ORDERS)
    if shape == 1:
        extra = 2 * ((1 - 1 / orders) * trial_rdp + math.log(mean) / orders).min()
    else:
        at = [math.log1p(1 / (order - 1)) for order in RDP_ORDERS]
        extra = mean * rdp_to_deltas(trial_rdp, at)
    found = trial_rdp + extra + math.log(mean) / (orders - 1)
    # A Renyi divergence never falls with its order.
    return np.minimum.accumulate(found[::-1])[::-1]
