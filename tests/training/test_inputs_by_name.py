"""Rows of several inputs go by the names of the inputs, and not by the order of a dict's keys."""

import numpy as np
import pytest
from tensorflow import keras

from tests.each import each
from tfdpnorm import PrivacyBudget, PrivacyError, make_private
from tfdpnorm.layers import PublicBatchNormalization
from tfdpnorm.training.public_rows import PublicBatch, Streams

layers = keras.layers
NAMES = ("note", "num", "cat")  # as the model has them, not in alphabetical order


def table(statistics="public"):
    """A model of tokens, numbers and categories."""
    note, num, cat = (
        keras.Input((6,), dtype="int32", name="note"),
        keras.Input((4,), name="num"),
        keras.Input((2,), dtype="int32", name="cat"),
    )
    parts = [layers.Flatten()(layers.Embedding(9, 2)(ids)) for ids in (note, cat)]
    x = layers.Dense(5)(layers.Concatenate()([*parts, num]))
    x = PublicBatchNormalization(statistics=statistics)(x)
    return keras.Model([note, num, cat], layers.Dense(3)(layers.ReLU()(x)))


def rows(count, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "note": rng.integers(9, size=(count, 6), dtype=np.int32),
        "num": rng.normal(size=(count, 4)).astype(np.float32),
        "cat": rng.integers(9, size=(count, 2), dtype=np.int32),
    }


def by_place(x):
    return tuple(x[name] for name in NAMES)


Y = np.arange(40) % 3
FORMS = {"dict": dict, "tuple": by_place, "list": lambda x: list(by_place(x))}


@pytest.mark.parametrize(
    "public_form, private_form", [("dict", "tuple"), ("list", "dict"), ("synthetic", "dict")]
)
def test_public_rows_go_by_name(compiled, public_form, private_form):
    x = FORMS[private_form](rows(40))
    public = "synthetic" if public_form == "synthetic" else FORMS[public_form](rows(8, seed=1))
    trained = compiled(table(), public_batch=public)
    trained.fit(x, Y, epochs=1, steps_per_epoch=1, verbose=0)
    assert trained.ledger.updates == 1 and trained.ledger.guarantee_holds
    assert trained.predict(x, verbose=0).shape == (40, 3)


def test_joined_rows_are_those_of_each_input():
    """In the modes that run public rows with private ones, in whatever structure both come."""
    model, x, public = table("example"), rows(3), rows(8, seed=1)
    streams = {
        name: Streams(model, PublicBatch(form(public)).for_model(model)[0])
        for name, form in FORMS.items()
    }
    expected = streams["tuple"].forward(by_place(x), None, training=False)
    for stream in streams.values():
        for form in (FORMS["dict"], by_place):
            found = stream.forward(form(x), None, training=False)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_texts_for_numbers_are_told_by_the_input(compiled):
    x = {**rows(40), "cat": np.array([["red", "blue"]] * 40)}
    trained = compiled(table(), public_batch=rows(8, seed=1))
    for form in (dict, by_place):
        with pytest.raises(TypeError, match="'cat' of the model, got texts"):
            trained.fit(form(x), Y, verbose=0)
        with pytest.raises(TypeError, match="in y"):
            trained.fit(form(rows(40)), np.array(["cat", "dog"] * 20), verbose=0)
    assert trained.ledger.updates == 0


def test_a_budget_in_the_place_of_the_plan_is_told_its_name():
    with pytest.raises(TypeError, match="budget=budget"):
        make_private(table(), PrivacyBudget(3.0, 1e-5))
    with pytest.raises(ValueError, match="epsilon.*'3'"):
        PrivacyBudget("3", 1e-5)


class Twins:
    """A model of two inputs of one shape, whose names are not in alphabetical order."""

    @staticmethod
    def model():
        one, two = keras.Input((4,), name="b"), keras.Input((4,), name="a")
        x = PublicBatchNormalization()(layers.Dense(3)(layers.Concatenate()([one, two])))
        return keras.Model([one, two], layers.Dense(3)(x))

    @staticmethod
    def rows(count, seed=0):
        return tuple(np.random.default_rng(seed).random((2, count, 4), np.float32))

    @staticmethod
    def named(x):
        return dict(zip("ba", x, strict=True))


@each("public_named", [True, False])
def test_shared_rows_are_found_whatever_the_structure(compiled, public_named):
    """Compared in the order of flattened structures, no row would equal another."""
    x = Twins.rows(40)
    public = tuple(part[:8] for part in x)
    x, public = (x, Twins.named(public)) if public_named else (Twins.named(x), public)
    trained = compiled(Twins.model(), public_batch=public)
    with pytest.raises(PrivacyError, match="8 of 8 public"):
        trained.fit(x, Y, verbose=0)
    assert trained.ledger.updates == 0


def test_validation_rows_in_another_structure_cannot_be_compared(compiled):
    x = Twins.rows(40)
    trained = compiled(Twins.model(), public_batch=Twins.rows(8, seed=1))
    with pytest.raises(PrivacyError, match="cannot be checked"):
        trained.fit(x, Y, validation_data=(Twins.named(x), Y), verbose=0)
    assert trained.ledger.updates == 0
