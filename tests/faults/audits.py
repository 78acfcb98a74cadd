"""Every planted fault under every audit: which are seen, at which cost, and what theory expects."""

import contextlib
import dataclasses
import functools
import math
import time

import numpy as np
from scipy import stats
from tensorflow import keras

from tests.attacks.noise_tests import lot_size_p_value, noise_tests
from tests.attacks.replay import differences, kept_state, other_lots, pinned_sums
from tests.faults.planted import FAULTS, NO_FAULT
from tfdpnorm.audit.gradient_canaries import count_correct, log_likelihood_ratio
from tfdpnorm.audit.lower_bounds import one_run_p_value
from tfdpnorm.audit.one_run import best_accuracy, curve_allows
from tfdpnorm.audit.one_step import audit_one_step
from tfdpnorm.audit.sensitivity import measure_sensitivity
from tfdpnorm.audit.trade_offs import DPSGDFamily
from tfdpnorm.data import PoissonBatches
from tfdpnorm.privacy import epsilon_of
from tfdpnorm.privacy.accountants import dp_sgd_event
from trainers.audits.data import load_audit_data
from trainers.audits.run import (
    build_audited,
    build_with_canary_table,
    train_with_gradient_canaries,
)
from trainers.records.made_with import made_with

# How often each audit may raise a false alarm.
LEVEL = 0.01
CANARY_AUDITS = (
    "canaries by epsilon and delta",
    "canaries by f-DP",
    "canaries, independent",
)
AUDITS = ("replay", "sensitivity", "one step", "lot sizes", "noise", *CANARY_AUDITS)
_SMALL_LOT, _REPLAYED_UPDATES, _REPLAYED_ROWS = 16, 3, 40
_SIMULATED = 50


def run_planted(
    spec,
    *,
    canaries,
    num_examples,
    steps,
    one_step_samples=1000,
    data_dir=None,
    faults=(NO_FAULT, *FAULTS),
    echo=print,
):
    """Plants faults one after the other and returns the record, with the keys `SENSITIVITY_FIELDS`.

    Args:
        spec: `AuditSpec` of the plan, without normalisation by the lot; a fault may need another.
        canaries: m, of the trainings with gradient canaries; a fifth of them is guessed.
        num_examples: Ordinary examples of these.
        steps: T, of these.
        one_step_samples: Runs of the black-box audit of one step on each lot.
        data_dir: TFDS directory.
        faults: What to plant.
        echo: Function that shows a line.
    """
    started = time.perf_counter()
    rows = []
    for fault in faults:
        own = dataclasses.replace(spec, **fault.needs)
        audits = _Audits(own, canaries, num_examples, steps, one_step_samples, data_dir)
        found = {}
        with fault.planted():
            training_seconds = audits.train()
            for name, audit in audits.all().items():
                begun = time.perf_counter()
                caught, evidence = audit()
                seconds = round(time.perf_counter() - begun, 1)
                found[name] = {"caught": bool(caught), "evidence": evidence, "seconds": seconds}
        rows.append(
            {
                "fault": fault.name,
                "path": own.path,
                **audits.theory(fault),
                "training_seconds": training_seconds,
                "audits": found,
            }
        )
        echo(describe(rows[-1]))
    settings = {
        **dataclasses.asdict(spec),
        "canaries": canaries,
        "guesses": _guesses(canaries),
        "num_examples": num_examples,
        "steps": steps,
        "one_step_samples": one_step_samples,
        "level": LEVEL,
    }
    return {
        "experiment": "audit_planted",
        "kind": "planted",
        "cell": f"{spec.model}-epsilon{spec.epsilon:g}",
        "rows": rows,
        "seed": spec.seed,
        "seconds": round(time.perf_counter() - started, 1),
        **made_with(settings),
    }


def describe(row):
    """One planted fault in words."""
    caught = [name for name, found in row["audits"].items() if found["caught"]]
    seconds = row["training_seconds"] + sum(found["seconds"] for found in row["audits"].values())
    return f"  {row['fault']} ({row['path']}): {', '.join(caught) or 'nobody'} ({seconds:.0f} s)"


def _guesses(canaries):
    return canaries // 10 * 2


class _Audits:
    """The audits of one spec; trainings with canaries are shared by those that look at them."""

    def __init__(self, spec, canaries, num_examples, steps, one_step_samples, data_dir):
        self._spec = spec
        self._canaries, self._num_examples, self._steps = canaries, num_examples, steps
        self._samples = one_step_samples
        self._load = functools.partial(load_audit_data, data_dir=data_dir)

    def all(self):
        """Returns a dict from a name of `AUDITS` to a function -> (caught, evidence in words)."""
        functions = (
            self._replay,
            self._sensitivity,
            self._one_step,
            self._lot_sizes,
            self._noise,
            self._by_epsilon_and_delta,
            self._by_f_dp,
            self._independent,
        )
        return dict(zip(AUDITS, functions, strict=True))

    def train(self):
        """Trains with gradient canaries, for the audits that look at them; returns the seconds."""
        begun = time.perf_counter()
        _ = self._trained
        return round(time.perf_counter() - begun, 1)

    # --- each gives (caught, evidence) ---

    def _replay(self):
        spec = dataclasses.replace(self._spec, expected_batch_size=_REPLAYED_ROWS // 3)
        data = self._load(spec, _REPLAYED_ROWS)
        unrelated = np.random.default_rng(0).uniform(5, 50, data.train_x.shape).astype(np.float32)
        states = []
        for x, lots in ((data.train_x, contextlib.nullcontext), (unrelated, other_lots)):
            keras.backend.clear_session()
            private = build_audited(
                spec, data, steps=_REPLAYED_UPDATES, insecure_seed=0, validate=False
            )
            batches = PoissonBatches(x, data.train_y, expected_batch_size=spec.expected_batch_size)
            with pinned_sums(private), lots():
                private.fit(batches, verbose=0)
            states.append(kept_state(private))
        found = differences(*states)
        return bool(found), f"{len(found)} of {len(states[0])} values differ"

    def _sensitivity(self):
        _, measured = self._measured
        return (
            not measured.holds,
            f"an added row moves the sum by {measured.add_or_remove_one:.4f} C",
        )

    def _one_step(self):
        private, measured = self._measured
        found = audit_one_step(
            private,
            measured.frame,
            measured.row,
            sums=measured.sums,
            samples=self._samples,
            confidence=1 - LEVEL,
            black_box=True,
        )
        return found.violation, (
            f"epsilon >= {found.audited_epsilon:.2f}, claimed {found.claimed_epsilon:.2f}"
        )

    @functools.cached_property
    def _measured(self):
        spec = dataclasses.replace(self._spec, expected_batch_size=_SMALL_LOT)
        data = self._load(spec, _SMALL_LOT)
        private = build_audited(spec, data, steps=1, validate=False)
        return private, measure_sensitivity(private, data.train_x, data.train_y)

    def _lot_sizes(self):
        plan = self._trained[0].plan
        x = np.zeros((plan.num_examples, 1), np.float32)
        lots = PoissonBatches(x, expected_batch_size=plan.expected_batch_size).as_dataset()
        sizes = [int(lot.mask.numpy().sum()) for lot in lots.take(plan.steps)]
        p = lot_size_p_value(sizes, plan.num_examples, plan.sampling_rate)
        return p < LEVEL, (
            f"{np.mean(sizes):.0f} examples in a lot, expected {plan.expected_batch_size} "
            f"(p = {p:.2g})"
        )

    def _noise(self):
        private, scores, included = self._trained
        of_absent = np.array(scores.released)[:, ~included]
        found = noise_tests(of_absent, private.plan.gradient_noise_multiplier)
        return found.smallest < LEVEL, (
            f"p: size {found.size:.2g}, shape {found.shape:.2g}, repeated {found.repeated:.2g}"
        )

    def _by_epsilon_and_delta(self):
        return self._by_guesses(0)

    def _by_f_dp(self):
        return self._by_guesses(1)

    def _independent(self):
        return self._by_guesses(2)

    def _by_guesses(self, which):
        _, scores, included = self._trained
        guesses = (_guesses(self._canaries),) * 2 + (self._canaries,)
        correct, guessed = _correct(scores.scores, included)[which], guesses[which]
        least = self._critical[which]
        return correct >= least, f"{correct} of {guessed} correct; caught from {least} on"

    @functools.cached_property
    def _trained(self):
        data = self._load(self._spec, self._num_examples)
        private = build_with_canary_table(self._spec, data, self._canaries, steps=self._steps)
        return private, *train_with_gradient_canaries(private, data)

    # --- what theory says ---

    @functools.cached_property
    def _critical(self):
        """The least numbers of correct guesses that refute the claim, for `CANARY_AUDITS`."""
        plan, count, guesses = self._trained[0].plan, self._canaries, _guesses(self._canaries)
        epsilon = plan.claimed_epsilon_after(plan.steps)
        curve = DPSGDFamily(plan.sampling_rate, plan.steps, plan.delta).curve(
            1 / plan.noise_multiplier
        )

        def by_epsilon(v):
            p = one_run_p_value(count, guesses, v, epsilon=epsilon, delta=plan.delta)
            return p < LEVEL

        def by_curve(v):
            return not curve_allows(curve, count, guesses, v, probability=LEVEL)

        independent = int(stats.binom.isf(LEVEL, count, best_accuracy(curve))) + 1
        return (_least(by_epsilon, guesses), _least(by_curve, guesses), independent)

    def theory(self, fault):
        """Returns what a fault does to epsilon, and how likely canaries are to show it.

        Args:
            fault: `Fault`.

        Returns:
            Dict with "claimed_epsilon", "true_epsilon" (None where theory has no figure) and
            "expected": for each of `CANARY_AUDITS`, in how many of 50 simulated trainings with
            exactly this fault the guesses refute the claim, as a share; None as above.
        """
        plan = self._trained[0].plan
        true_epsilon, expected = None, None
        rate = min(1.0, plan.sampling_rate * fault.rate)
        if fault.noise == 0:
            true_epsilon = math.inf
        elif fault.noise is not None:
            noise = plan.noise_multiplier * fault.noise / fault.signal
            event = dp_sgd_event(rate, noise, plan.steps)
            true_epsilon = epsilon_of(event, plan.delta, "pld")
            expected = dict(zip(CANARY_AUDITS, self._power(plan, rate, fault), strict=True))
        return {
            "claimed_epsilon": plan.claimed_epsilon_after(plan.steps),
            "true_epsilon": true_epsilon,
            "noise_multiplier": plan.noise_multiplier,
            "expected": expected,
        }

    def _power(self, plan, rate, fault):
        rng = np.random.default_rng(0)
        share, noise = np.zeros(3), plan.gradient_noise_multiplier
        for _ in range(_SIMULATED):
            included = rng.integers(2, size=self._canaries).astype(bool)
            sampled = rng.random((plan.steps, self._canaries)) < rate
            y = fault.signal * (sampled & included)
            y = y + rng.normal(scale=noise * fault.noise, size=y.shape)
            scores = log_likelihood_ratio(y, plan.sampling_rate, noise).sum(axis=0)
            share += np.greater_equal(_correct(scores, included), self._critical)
        return [float(s) for s in share / _SIMULATED]


def _correct(scores, included):
    """The numbers of correct guesses that `CANARY_AUDITS` look at."""
    of_some = count_correct(scores, included, _guesses(len(included)))
    return of_some, of_some, int(((scores > 0) == included).sum())


def _least(refutes, most):
    """The least count that refutes; more than `most` if none does."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        if refutes(middle):
            high = middle
        else:
            low = middle
    return high
