"""Networks whose inputs are standardised by published constants."""

import numpy as np
import pytest

from tests.each import each
from tfdpnorm import models
from tfdpnorm.models.registry import PUBLIC_MOMENTS

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
