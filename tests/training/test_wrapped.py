"""What a private model shows of the model that it wraps."""

import copy
import pickle

import numpy as np
import pytest
from tensorflow import keras

from tests.private_of import private_of
from tfdpnorm import fold_public_statistics

NOISE = {"l2_norm_clip": 1.0, "noise_multiplier": 1.0, "delta": 1e-5}


def test_inputs_and_outputs_are_those_of_the_wrapped_model(build, private):
    model = build("functional")
    wrapped = private(model)
    assert wrapped.inputs is model.inputs and wrapped.outputs is model.outputs
    assert wrapped.input is model.input and wrapped.output is model.output
    assert wrapped.input_shape == (None, 5) and wrapped.output_shape == (None, 3)
    assert wrapped.get_layer(index=1) is model.layers[1]


def test_an_unbuilt_model_has_none(build, private):
    assert getattr(private(build("subclassed")), "inputs", None) is None


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, pickle.dumps, keras.models.clone_model]
)
def test_copies_are_rejected_in_one_line(copied, build, private):
    with pytest.raises(
        TypeError, match=r"^The private model itself cannot be (copied or pickled|saved or cloned)"
    ) as caught:
        copied(private(build()))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("of", [lambda m: m, lambda m: keras.Sequential([m])])
def test_a_private_model_is_not_made_private_again(of, build, private):
    with pytest.raises(ValueError, match="Pass private.model, and add") as caught:
        private_of(of(private(build())), num_examples=40, expected_batch_size=10, steps=1, **NOISE)
    assert "\n" not in str(caught.value)


def test_public_statistics_are_folded_out_of_it(build, private, public, data):
    wrapped = private(build(norm="public_batch"), public_batch=public)
    folded = fold_public_statistics(wrapped)
    assert not any(type(x).__module__.startswith("tfdpnorm") for x in folded.layers)
    expected = wrapped.predict(data[0][:4], verbose=0)
    np.testing.assert_allclose(folded.predict(data[0][:4], verbose=0), expected, rtol=1e-4)
