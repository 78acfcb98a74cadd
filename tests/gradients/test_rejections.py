"""Refusals of engines: known again, in their parts, after TensorFlow has passed them on."""

import pytest
import tensorflow as tf

from tfdpnorm.gradients.refusals import is_of_engine, refusal_of_engine
from tfdpnorm.keras_compat.graphs import cause_of


def test_the_parts_survive_autograph():
    @tf.function
    def step(x):
        if x.shape[0] == 1:
            raise refusal_of_engine("Expected layer 'a. b', got none", "Use another.")
        return x

    with pytest.raises(ValueError) as caught:  # and no error of AutoGraph's own
        step(tf.zeros([1]))
    cause = cause_of(caught.value)
    assert is_of_engine(cause)
    assert (cause.what, cause.remedy) == ("Expected layer 'a. b', got none", "Use another.")
    assert str(cause) == "Expected layer 'a. b', got none. Use another."


def test_without_a_remedy_it_names_the_engine_that_can():
    assert str(refusal_of_engine("Expected x, got y")).endswith('"per_example" for this model.')


def test_others_are_none():
    assert not is_of_engine(ValueError('Expected x, got y. Use engine="per_example".'))
