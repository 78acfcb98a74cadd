"""Keras' examples are proved to keep examples apart, with as many steps as examples."""

import pytest
import tensorflow as tf

from tests.keras_examples.case import P
from tests.keras_examples.examples import EXAMPLES
from tfdpnorm.independence import prove_training


def proof_of(case):
    return prove_training(case.build(), case.whole_loss, case.x, case.y)


@pytest.mark.quick_cases("convolutional_vae")
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_verified(name):
    case = EXAMPLES[name]
    proof = proof_of(case)
    assert proof.holds, proof.obstacle
    assert len(proof.claims) > 10
    assert tf.nest.flatten(case.y)[0].shape[0] == P
