"""Several rows of a person: training per person and training per row, on synthetic persons."""

import dataclasses
import functools
import time

import numpy as np
from tensorflow import keras

import tfdpnorm
from tfdpnorm import models
from tfdpnorm.keras_compat.devices_and_precision import made_under
from tfdpnorm.privacy import PrivacyBudget, calibrate_noise_multiplier, make_plan
from tfdpnorm.privacy.accountants import epsilon_at
from tfdpnorm.privacy.profiles import composed_profile
from trainers.ours.persons_runs import DELTA, MOST_ROWS
from trainers.records.made_with import made_with

_ROWS = 1000  # through the network at once


def synthetic_persons(labels, kind, seed):
    """Returns whose each row is: persons of 1 to `MOST_ROWS` rows, each number equally likely.

    `kind` is "mixed", of any rows, or "alike", of rows with one of the labels, [N]. Int64 [N].
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(labels))
    groups = [order]
    if kind == "alike":
        groups = [order[labels[order] == label] for label in np.unique(labels)]
    persons, count = np.zeros(len(labels), np.int64), 0
    for rows in groups:
        ends = np.cumsum(rng.integers(1, MOST_ROWS + 1, size=len(rows)))
        persons[rows] = count + np.searchsorted(ends, np.arange(len(rows)), side="right")
        count = persons[rows[-1]] + 1
    return persons


def kept_rows(persons, most, seed):
    """Returns the numbers of up to `most` rows of each person, chosen at random."""
    order = np.random.default_rng(seed).permutation(len(persons))
    order = order[np.argsort(persons[order], kind="stable")]
    first = np.searchsorted(persons[order], persons[order])
    return np.sort(order[np.arange(len(order)) - first < most])


@functools.cache
def noise_for_person(epsilon, sampling_rate, steps, rows):
    """Returns a noise multiplier at which a person with up to `rows` sampled rows has `epsilon`.

    Its epsilon is within 0.1 % of the given one.
    """
    budget = PrivacyBudget(epsilon, DELTA)
    of_row = calibrate_noise_multiplier(budget, sampling_rate, steps, "pld")
    if rows == 1:
        return of_row

    noise = rows * of_row  # close, and more noise than needed, which is quick to account for
    while True:
        profile = composed_profile(((sampling_rate, noise, steps),), DELTA, rows)
        found = epsilon_at(profile, DELTA)
        if 0.999 * epsilon <= found <= epsilon:
            return noise
        noise *= (found / (0.9995 * epsilon)) ** 0.7  # it falls as noise^-1 to noise^-2


def plan_of(way, epsilon, settings, persons):
    """Returns the `PrivacyPlan` of a `Way`, for rows of `persons` [N]."""
    per_person = way.unit == "person"
    count = len(np.unique(persons)) if per_person else len(persons)
    of_rows = 1 if per_person or way.is_for_row else way.most
    rate = settings.sampling_rate
    return make_plan(
        num_examples=count,
        expected_batch_size=rate * count,
        steps=settings.steps,
        l2_norm_clip=settings.l2_norm_clip,
        noise_multiplier=noise_for_person(epsilon, rate, settings.steps, of_rows),
        delta=DELTA,
        accountant="pld",
        most_per_person=way.most if per_person or way.most > 1 else None,
        unit=way.unit,
    )


def trained(way, epsilon, settings, seed, x, y, persons):
    """Trains once on rows of persons, by a `Way` and `Settings`; returns the `PrivateModel`.

    x is [N, ...], y [N]; `persons`, [N], says whose each row is.
    """
    plan = plan_of(way, epsilon, settings, persons)
    per_person = way.unit == "person"
    keras.utils.set_random_seed(seed)
    network = models.build(
        settings.model,
        norm="layer",
        num_classes=10,
        input_shape=x.shape[1:],
        **settings.model_options,
    )
    private = tfdpnorm.make_private(
        network,
        plan,
        physical_batch_size=_ROWS // (way.most if per_person else 1),
    )
    rate = keras.optimizers.schedules.CosineDecay(settings.learning_rate, plan.steps)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    private.compile(keras.optimizers.SGD(rate, momentum=0.9), loss)
    private.fit(x, y, person=persons if per_person else None, verbose=0)
    return private


def persons_record(run, train, test, precision="float32"):
    """Trains and tests a `PersonsRun` on `Examples`; returns its record, with `PERSONS_FIELDS`."""
    started, way, settings = time.perf_counter(), run.way, run.settings
    persons = synthetic_persons(train.y, run.kind, run.seed)
    kept = np.arange(len(train))
    if way.unit == "row":
        kept = kept_rows(persons, way.most, run.seed)
    rows = train.x[kept], train.y[kept], persons[kept]
    with made_under(precision):
        private = trained(way, run.epsilon, settings, run.seed, *rows)
    ledger = private.ledger
    states_persons = ledger.plan.stated_per_person is not None
    of_person = ledger.person_epsilon() if states_persons else ledger.epsilon()
    logits = private.predict(test.x, batch_size=1000, verbose=0)
    return {
        "experiment": "per_person",
        "kind": "persons",
        "cell": run.cell,
        "dataset": run.dataset,
        "persons": run.kind,
        "way": dataclasses.asdict(way),
        "test_accuracy": round(float(100 * np.mean(logits.argmax(-1) == test.y)), 4),
        "epsilon_target": run.epsilon,
        "epsilon_of_person": of_person,
        "epsilon_of_row": None if way.unit == "person" else ledger.epsilon(),
        "delta": DELTA,
        "guarantee_holds": ledger.guarantee_holds,
        "num_persons": len(np.unique(persons)),
        "num_rows": len(kept),
        "noise_multiplier": ledger.plan.noise_multiplier,
        "updates": ledger.updates,
        "seed": run.seed,
        "seconds": round(time.perf_counter() - started, 1),
        **made_with({**dataclasses.asdict(settings), "precision": precision}),
    }
