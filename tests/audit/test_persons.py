"""Attackers who know all rows of a person learn no more than the epsilon by person says."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.private_of import private_of
from tfdpnorm.audit.neighbours import Frame, Row
from tfdpnorm.audit.one_step import audit_one_step, gaussian_epsilon
from tfdpnorm.audit.sensitivity import ClippedSums
from tfdpnorm.privacy import PrivacyBudget

PERSONS, ROWS, FEATURES, CLASSES, DELTA = 16, 10, 60, 3, 1e-5


@pytest.fixture(scope="module")
def rows():
    """(x [persons, rows, features], y [persons, rows])."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(PERSONS, ROWS, FEATURES)).astype(np.float32)
    return x, rng.integers(CLASSES, size=(PERSONS, ROWS))


def compiled(rate=1.0, **settings):
    model = keras.Sequential(
        [
            keras.Input((FEATURES,)),
            keras.layers.Dense(64, activation="tanh"),
            keras.layers.Dense(CLASSES),
        ]
    )
    private = private_of(model, l2_norm_clip=0.5, accountant="pld", **settings)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    private.compile(keras.optimizers.SGD(rate), loss)
    return private


def one_update(of_persons):
    count = PERSONS if of_persons else PERSONS * ROWS
    return compiled(
        num_examples=count,
        expected_batch_size=count,
        steps=1,
        budget=PrivacyBudget(1.0, DELTA),
        most_per_person=ROWS if of_persons else None,
    )


def test_a_persons_rows_in_an_update(rows):
    """One person's rows, all alike, with and without; by person and, to compare, by row."""
    x, y = (part.copy() for part in rows)
    x[0], y[0] = x[0, :1], y[0, :1]
    frame = Frame("persons", x, y, 0, ROWS)
    by_person = audit_one_step(one_update(True), frame, Row("all alike", x[0], y[0]))
    assert not by_person.violation and by_person.audited_epsilon > 0.5
    assert by_person.sensitivity == pytest.approx(1.0, rel=1e-5)

    by_row, lots = one_update(False), []
    frame = Frame("rows", x.reshape(-1, FEATURES), y.reshape(-1), 0)
    for present in (True, False):
        lot = frame.lot(Row("first", x[0, 0], y[0, 0]))
        mask = lot.mask.numpy()
        mask[0, :ROWS] = float(present)
        lots.append(lot._replace(mask=tf.constant(mask), sample_weight=tf.constant(mask)))
    moved = np.linalg.norm(np.subtract(*map(ClippedSums(by_row), lots), dtype=np.float64))
    learnt = gaussian_epsilon(moved / 0.5, by_row.plan.noise_multiplier, DELTA)
    assert learnt > 5 * by_row.plan.epsilon_after(1)
