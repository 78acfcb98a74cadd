"""public_batch="synthetic": rows that fit the model's inputs, and what is said of them."""

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm import PublicBatch, make_plan, make_private
from tfdpnorm.data import SyntheticRows, synthetic_rows
from tfdpnorm.layers import PublicBatchNormalization
from tfdpnorm.training import PrivateValidation
from tfdpnorm.training.public_rows import synthetic_batch

layers = keras.layers


def sequential(*between, shape=(5,)):
    norm = PublicBatchNormalization()
    return keras.Sequential([keras.Input(shape), *between, layers.Dense(4), norm, layers.Dense(3)])


def words(**settings):
    model = keras.Sequential([layers.Embedding(20, 4, **settings), layers.Flatten()])
    model.add(layers.Dense(3))
    model.build((None, 6))
    return model


def test_kinds_follow_the_inputs():
    images, of_images = synthetic_batch(sequential(layers.Flatten(), shape=(8, 8, 1)), "synthetic")
    np.testing.assert_array_equal(images, synthetic_rows((8, 8, 1), 512, kind="ink"))
    assert of_images == '512 synthetic ones of kind "ink" in [0, 1], seed 0'
    table, of_table = synthetic_batch(sequential(), SyntheticRows(count=9, seed=3))
    np.testing.assert_array_equal(table, synthetic_rows((5,), 9, kind="gaussian", seed=3))
    assert "9 synthetic" in of_table and '"gaussian" in [-2, 2], seed 3' in of_table
    # Keras declares the inputs of such a model as floats.
    ids, of_words = synthetic_batch(words(input_length=6), "synthetic:tokens")
    assert ids.shape == (512, 6) and (ids.min(), ids.max()) == (1, 19)
    assert ids.dtype == np.int32 and '"tokens" in [1, 19]' in of_words


@pytest.mark.parametrize(
    ("rows", "code", "fields"),
    [
        (np.eye(5, dtype=np.float32), "given_public_rows", {"count": 5}),
        ("synthetic:gaussian", "synthetic_public_rows", None),
    ],
)
def test_the_ledger_says_what_the_rows_are(rows, code, fields):
    plan = make_plan(
        num_examples=40,
        expected_batch_size=10,
        steps=8,
        l2_norm_clip=1.0,
        noise_multiplier=1.0,
        delta=1e-5,
    )
    private = make_private(sequential(), plan, public_batch=PublicBatch(rows))
    (said,) = [each for each in private.ledger.state.caveats if "public_rows" in each.code]
    assert said.code == code and fields in (None, said.fields)


def test_every_input_gets_its_rows():
    inputs = {"ids": keras.Input((6,), dtype="int32"), "x": keras.Input((5,))}
    embedded = layers.Flatten()(layers.Embedding(9, 2)(inputs["ids"]))
    model = keras.Model(inputs, layers.Dense(3)(layers.Concatenate()([embedded, inputs["x"]])))
    batch, sentence = synthetic_batch(model, "synthetic")
    assert batch["ids"].shape == (512, 6) and batch["ids"].max() <= 8
    np.testing.assert_array_equal(batch["x"], synthetic_rows((5,), 512))
    assert "zipf" in sentence and "gaussian" in sentence


@pytest.mark.parametrize(
    ("model", "asked", "match"),
    [
        (lambda: sequential(layers.Flatten(), shape=(8, 8, 1)), "digits", "'synthetic:kind'"),
        (lambda: sequential(), "synthetic:strokes", r"kind='strokes', got \(5,\)"),
        (lambda: sequential(), "synthetic:zipf", "a kind of numbers"),
        (lambda: words(input_length=6), "synthetic:uniform", "a kind of token ids"),
        (
            lambda: keras.Sequential([keras.Input((None, 5)), layers.LSTM(3)]),
            "synthetic",
            "an input of known shape.*Make the rows with",
        ),
        (
            lambda: keras.Sequential([layers.Dense(3)]),
            "synthetic",
            "The inputs of the model are unknown",
        ),
        (
            lambda: keras.Sequential(
                [keras.Input((5,), dtype="int32"), layers.Rescaling(0.1), layers.Dense(3)]
            ),
            "synthetic",
            "has no embedding",
        ),
        (
            lambda: keras.Sequential(
                [keras.Input((1,), dtype="string"), layers.StringLookup(vocabulary=["a"])]
            ),
            "synthetic",
            "an input of numbers.*got string",
        ),
    ],
)
def test_inputs_without_synthetic_rows_are_rejected(model, asked, match):
    with pytest.raises(ValueError, match=match):
        synthetic_batch(model(), asked)


def test_training_says_so_and_its_saved_model_needs_no_rows(private, data, cross_entropy, tmp_path):
    trained = private(sequential(), public_batch="synthetic", steps=2)
    trained.compile("sgd", cross_entropy)
    trained.fit(*data, verbose=0)
    assert "- Public rows: 512 synthetic ones of kind" in trained.privacy_statement()
    trained.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    predicted = trained.predict(data[0], verbose=0)
    np.testing.assert_allclose(loaded.predict(data[0], verbose=0), predicted, rtol=1e-5, atol=1e-6)


def test_a_private_row_may_equal_a_generated_one(private, cross_entropy):
    trained = private(
        sequential(layers.Flatten(), shape=(6, 6, 1)), public_batch="synthetic:cosine"
    )
    trained.compile("sgd", cross_entropy)
    generated = synthetic_rows((6, 6, 1), 512, kind="cosine")
    x = np.concatenate([generated[:20], np.zeros((20, 6, 6, 1), np.float32)])
    # Nor are the rows of queries compared with them.
    query = PrivateValidation(generated[30:34], np.zeros(4, int), noise_multiplier=1)
    trained.session.rows.add_validation(query)
    trained.fit(x, np.zeros(40, int), verbose=0)
    assert trained.ledger.updates


@pytest.mark.slow
def test_it_is_the_training_on_these_rows(private, data, cross_entropy):
    def weights(public_batch):
        keras.utils.set_random_seed(3)
        trained = private(sequential(), public_batch=public_batch, steps=2, insecure_seed=1)
        trained.compile("sgd", cross_entropy)
        trained.fit(*data, verbose=0)
        return trained.get_weights()

    rows = synthetic_rows((5,), 512)
    pairs = zip(weights("synthetic"), weights(rows), strict=True)
    assert all(np.array_equal(*pair) for pair in pairs)
    others = zip(weights("synthetic"), weights(SyntheticRows(seed=1)), strict=True)
    assert not all(np.array_equal(*pair) for pair in others)


def test_a_model_without_public_moments_takes_none(private):
    model = keras.Sequential([keras.Input((5,)), layers.Dense(3)])
    assert "Public rows" not in private(model, public_batch="synthetic").privacy_statement()


@pytest.mark.slow
def test_a_resumed_run_names_the_rows_of_both_parts(private, data, cross_entropy, tmp_path):
    def run(public_batch, epochs):
        keras.utils.set_random_seed(3)
        trained = private(
            sequential(), public_batch=public_batch, steps=4, run_dir=tmp_path / "run", resume=True
        )
        trained.compile("sgd", cross_entropy)
        try:
            trained.fit(*data, epochs=epochs, steps_per_epoch=2, verbose=0)
        finally:
            trained.ledger.close()
        return trained

    run("synthetic", 1)
    resumed = run(SyntheticRows(seed=1), 2)
    assert resumed.ledger.updates == 4 and resumed.ledger.guarantee_holds
    named = [line for line in resumed.privacy_statement().splitlines() if "Public rows:" in line]
    assert len(named) == 2 and len(set(named)) == 2
