"""Networks whose inputs are standardised by published constants."""

import numpy as np
import pytest
from tensorflow import keras

import tfdpnorm
from tests.each import each
from tfdpnorm import models
from tfdpnorm.models.standardization import PUBLIC_MOMENTS

SMALL = dict(input_shape=(16, 16, 3), num_classes=3)


def images(count=6):
    return np.random.default_rng(0).uniform(0, 1, (count, 16, 16, 3)).astype("float32")


def test_the_network_sees_standardised_images():
    plain = models.build("resnet9", "group", **SMALL)
    standardised = models.build("resnet9", "group", standardized_by="imagenet", **SMALL)
    standardised.set_weights(plain.get_weights())
    mean, stddev = (np.float32(value) for value in PUBLIC_MOMENTS["imagenet"])
    expected = plain.predict((images() - mean) / stddev, verbose=0)
    np.testing.assert_allclose(standardised.predict(images(), verbose=0), expected, atol=1e-5)


def test_it_trains_privately_and_survives_saving(tmp_path):
    network = models.build("resnet9", "public_batch", standardized_by="cifar100", **SMALL)
    plan = tfdpnorm.make_plan(
        num_examples=6, expected_batch_size=3, steps=2, l2_norm_clip=1.0, noise_multiplier=1.0,
        delta=1e-3,
    )  # fmt: skip
    private = tfdpnorm.make_private(network, plan, public_batch=1 - images(4))
    private.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    private.fit(images(), np.arange(6) % 3, verbose=0)
    assert private._update.engine.now.name == "book_keeping"
    private.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    expected = network.predict(images(), verbose=0)
    loaded_says = loaded.predict(images(), verbose=0)
    np.testing.assert_allclose(loaded_says, expected, atol=1e-5 * np.abs(expected).max())


@each(
    "name, dataset, message",
    [
        ("resnet9", "cifar10", "standardized_by"),
        ("lenet5", "cifar100", "three channels"),
        ("mlp", "cifar100", "options"),
    ],
)
def test_other_inputs_are_rejected(name, dataset, message):
    with pytest.raises(ValueError, match=message):
        models.build(name, standardized_by=dataset)
