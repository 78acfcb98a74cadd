"""What a private model shows of the model that it wraps."""


def test_inputs_and_outputs_are_those_of_the_wrapped_model(build, private):
    model = build("functional")
    wrapped = private(model)
    assert wrapped.inputs is model.inputs and wrapped.outputs is model.outputs
    assert wrapped.input is model.input and wrapped.output is model.output
    assert wrapped.input_shape == (None, 5) and wrapped.output_shape == (None, 3)
    assert wrapped.get_layer(index=1) is model.layers[1]
