"""Audits of this library's guarantees: each takes a spec and returns a record."""

import time

import numpy as np
from tensorflow import keras

from tfdpnorm.audit.gradient_canaries import (
    TableScores,
    audit_gradient_canaries,
    check_guesses,
    public_rows,
    with_canaries,
    with_canary_table,
)
from tfdpnorm.audit.one_step import audit_one_step
from tfdpnorm.audit.sensitivity import measure_sensitivity
from tfdpnorm.audit.trade_offs import DPSGDFamily
from tfdpnorm.data import poisson_batches
from tfdpnorm.privacy import PrivacyBudget, make_plan
from trainers.audits.data import load_audit_data
from trainers.records.fields import fields_of
from trainers.records.made_with import made_with
from trainers.runs.build import build_network, build_private, make_private_as, public_statistics

_CANARIES_RATE = 0.1  # of the SGD that trains with canaries


def build_audited(spec, data, *, steps, learning_rate=1.0, **more):
    """Returns the compiled `PrivateModel` of an `AuditSpec`, untrained, with plain SGD.

    `more` are further arguments of `make_private`.
    """
    private = build_private(
        spec,
        data,
        steps=steps,
        accountant="pld",  # the tighter claim is the one to refute
        augmentation=_flips(spec),
        **more,
    )
    return _compiled(private, learning_rate)


def _flips(spec):
    return keras.layers.RandomFlip("horizontal") if spec.augmentation_multiplicity > 1 else None


def _compiled(private, learning_rate):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    private.compile(keras.optimizers.SGD(learning_rate), loss)
    return private


def run_sensitivity(spec, *, ascent_steps=0, data_dir=None):
    """Measures how far one example moves the clipped sum; returns `PrivateModel`, `Sensitivity`."""
    data = load_audit_data(spec, spec.expected_batch_size, data_dir)
    private = build_audited(spec, data, steps=1)
    return private, measure_sensitivity(
        private, data.train_x, data.train_y, ascent_steps=ascent_steps, seed=spec.seed
    )


def run_one_step(spec, *, samples, confidence=0.95, black_box=False, ascent_steps=0, data_dir=None):
    """Audits the epsilon of one update on a whole batch, where one example moves it farthest.

    `samples` are drawn from each of the two batches, `confidence` is that of the lower bound.
    Returns the record, with `AUDIT_FIELDS`.
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
            "case": measured.add_or_remove_one_case,
            "exact_epsilon": found.exact_epsilon,
            "replace": measured.replace,
            "replace_case": measured.replace_case,
        },
    )


def run_gradient_canaries(
    spec,
    *,
    canaries,
    guesses,
    num_examples,
    steps,
    confidence=0.95,
    data_dir=None,
):
    """Trains once with gradient canaries among the examples, and audits what that gave away.

    The number of guesses is even; `num_examples` are private examples that are no canaries. Returns
    the record, with `AUDIT_FIELDS`.
    """
    check_guesses(guesses, canaries)  # before minutes of training
    started = time.perf_counter()
    data = load_audit_data(spec, num_examples, data_dir)
    private = build_with_canary_table(spec, data, canaries, steps=steps)
    scores, included = train_with_gradient_canaries(private, data)
    plan = private.plan
    found = audit_gradient_canaries(
        scores.scores,
        included,
        guesses=guesses,
        claimed_epsilon=plan.claimed_epsilon_after(steps),
        family=DPSGDFamily(plan.sampling_rate, steps, plan.delta),
        confidence=confidence,
    )
    return _record(
        spec,
        private,
        found,
        check="gradient_canaries",
        seconds=time.perf_counter() - started,
        details={
            **fields_of(found, "canaries guesses correct correct_of_all epsilon_delta_bound"),
            **fields_of(found, "independent_epsilon not_as_claimed"),
            **fields_of(plan, "num_examples sampling_rate steps"),
        },
    )


def build_with_canary_table(spec, data, canaries, *, steps):
    """Returns a compiled `PrivateModel` with a table of m gradient canaries, untrained.

    N is the number of ordinary rows, those of `data`, and m.
    """
    flips = _flips(spec)
    plan = make_plan(
        num_examples=data.num_examples + canaries,
        expected_batch_size=spec.expected_batch_size,
        steps=steps,
        l2_norm_clip=spec.l2_norm_clip,
        budget=PrivacyBudget(spec.epsilon, spec.delta),
        accountant="pld",
    )
    private = make_private_as(
        spec,
        with_canary_table(build_network(spec, data, **public_statistics(spec)), canaries),
        plan,
        public_rows=public_rows(data.public_x, canaries) if spec.needs_public_rows else None,
        augmentation=flips and (lambda rows: (flips(rows[0], training=True), *rows[1:])),
    )
    return _compiled(private, _CANARIES_RATE)


def train_with_gradient_canaries(private, data):
    """Trains what `build_with_canary_table` gave for all planned updates, with coins newly tossed.

    Returns the `TableScores` and the coins, bool [m].
    """
    plan = private.plan
    count = plan.num_examples - data.num_examples
    included = np.random.default_rng().integers(2, size=count).astype(bool)
    rows, labels, weights = with_canaries(data.train_x, data.train_y, included)
    scores = TableScores(private)
    batches = poisson_batches(
        rows, labels, sample_weight=weights, expected_batch_size=plan.expected_batch_size
    )
    private.fit(batches, verbose=0, callbacks=[scores])
    return scores, included


def _record(spec, private, found, *, check, seconds, details, samples=None, sensitivity=None):
    plan, network = private.plan, f"{spec.model}/{spec.path}"
    return {
        "experiment": "audit",
        "kind": spec.kind,
        "cell": f"{network}/{check}",
        "network": network,
        "column": check,
        "check": check,
        **fields_of(found, "claimed_epsilon audited_epsilon confidence violation delta"),
        **fields_of(plan, "guarantee_holds noise_multiplier l2_norm_clip expected_batch_size"),
        **fields_of(private, "statistics engine"),
        "no_guarantee_because": list(plan.no_guarantee_because),
        "model": spec.model,
        "sensitivity": sensitivity,
        "samples": samples,
        "details": details,
        "seed": spec.seed,
        "seconds": round(seconds, 1),
        **made_with(spec.settings),
    }
