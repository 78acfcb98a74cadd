"""What a private model shows of the model that it wraps."""

import numpy as np

from tfdpnorm import fold_public_statistics


def test_inputs_and_outputs_are_those_of_the_wrapped_model(build, private):
    model = build("functional")
    wrapped = private(model)
    assert wrapped.inputs is model.inputs and wrapped.outputs is model.outputs
    assert wrapped.input is model.input and wrapped.output is model.output
    assert wrapped.input_shape == (None, 5) and wrapped.output_shape == (None, 3)
    assert wrapped.get_layer(index=1) is model.layers[1]


def test_public_statistics_are_folded_out_of_it(build, private, public, data):
    wrapped = private(build(norm="public_batch"), public_batch=public)
    folded = fold_public_statistics(wrapped)
    assert not any(type(x).__module__.startswith("tfdpnorm") for x in folded.layers)
    expected = wrapped.predict(data[0][:4], verbose=0)
    np.testing.assert_allclose(folded.predict(data[0][:4], verbose=0), expected, rtol=1e-4)
