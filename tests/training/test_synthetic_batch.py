"""public_batch="synthetic": rows that fit the model's inputs, and what is said of them."""

import warnings

import numpy as np
import pytest
from tensorflow import keras

from tests.each import each
from tfdpnorm import PublicBatch, make_plan, make_private
from tfdpnorm.data import SyntheticRows, synthetic_rows
from tfdpnorm.layers import PublicBatchNormalization
from tfdpnorm.training.public_rows import kinds_of_synthetic, synthetic_batch

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


@each(
    "rows, code, fields",
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
    (said,) = [known for known in private.ledger.state.caveats if "public_rows" in known.code]
    assert said.code == code and fields in (None, said.fields)


@pytest.mark.parametrize(
    ("asked", "side", "warns"),
    [
        ("synthetic", 28, 0),
        ("synthetic", 96, 1),
        ("synthetic:ink", 96, 0),
        (SyntheticRows(), 96, 1),
    ],
)
def test_ink_for_large_images_of_one_channel_is_doubted(asked, side, warns):
    """A public fact speaks against it: scans and X-rays have a background."""
    model = keras.Sequential([keras.Input((side, side, 1)), keras.layers.Flatten()])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows, kinds = synthetic_batch(model, asked)
    assert len([w for w in caught if "synthetic:fractal" in str(w.message)]) == warns
    assert kinds == kinds_of_synthetic(model, asked) and '"ink"' in kinds
    assert rows.shape == (512, side, side, 1)


@each(
    "model, asked, match",
    [
        (lambda: sequential(), "digits", "synthetic:kind"),
        (lambda: sequential(), "synthetic:strokes", "'strokes'"),
        (lambda: sequential(), "synthetic:zipf", "kind of numbers"),
        (lambda: words(input_length=6), "synthetic:uniform", "kind of token ids"),
        (lambda: keras.Sequential([keras.Input((None, 5)), layers.LSTM(3)]), "synthetic", "shape"),
        (lambda: keras.Sequential([layers.Dense(3)]), "synthetic", "unknown"),
        (
            lambda: keras.Sequential([keras.Input((5,), dtype="int32"), layers.Rescaling(0.1)]),
            "synthetic",
            "embedding",
        ),
        (
            lambda: keras.Sequential(
                [keras.Input((1,), dtype="string"), layers.StringLookup(vocabulary=["a"])]
            ),
            "synthetic",
            "string",
        ),
    ],
)
def test_inputs_without_synthetic_rows_are_rejected(model, asked, match):
    with pytest.raises(ValueError, match=match):
        synthetic_batch(model(), asked)
