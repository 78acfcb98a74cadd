"""Initial weights that are not fresh are found by their constants, and the statement says so."""

import numpy as np
from tensorflow import keras

import tfdpnorm
from tests.each import each
from tfdpnorm import models
from tfdpnorm.training.provenance import first_not_fresh

BUDGET = tfdpnorm.PrivacyBudget(3.0, 1e-5)
X = np.random.default_rng(0).normal(size=(40, 4)).astype("float32")
Y = X.argmax(1)
FRESH = {
    "lenet5": lambda: models.build("lenet5", "public_batch", num_classes=3),
    "transformer": lambda: models.build("transformer", "layer", num_classes=3),
    "gru": lambda: keras.Sequential([keras.Input((3, 2)), keras.layers.GRU(4)]),
    "a bias of one's own": lambda: keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(2, bias_initializer=keras.initializers.Constant(-2))]
    ),
    "folded": lambda: tfdpnorm.convert_model(with_batch_norm(), "group").model,
}


def with_batch_norm():
    parts = [keras.layers.Conv2D(8, 3), keras.layers.BatchNormalization(), keras.layers.ReLU()]
    return keras.Sequential([keras.Input((6, 6, 1)), *parts])


def mlp():
    hidden = keras.layers.Dense(8, "relu", name="hidden")
    return keras.Sequential([keras.Input((4,)), hidden, keras.layers.Dense(4)])


@each("name", FRESH)
def test_fresh_models_are_fresh(name):
    assert first_not_fresh(FRESH[name]()) is None


def test_the_statement_says_so(tmp_path):
    first = tfdpnorm.make_private(mlp(), budget=BUDGET, num_examples=len(X), epochs=1)
    first.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    first.fit(X, Y, verbose=0)
    first.save(tmp_path / "first.keras")
    model = keras.models.load_model(tmp_path / "first.keras")
    tfdpnorm.privacy.metadata._origins.clear()  # as in another process
    second = tfdpnorm.make_private(model, budget=BUDGET, num_examples=len(X), epochs=1)
    second.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    second.fit(X, Y, verbose=0)
    said = second.privacy_statement()
    assert "initial weights (not fresh) that were not trained on the private data" in said
    assert "the bias of 'hidden' had other values" in said
    assert "not fresh" not in first.privacy_statement()
