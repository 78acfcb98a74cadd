"""The example in the documentation of `register_rule`, as it is written there."""

import inspect
import textwrap

from tensorflow import keras

from tests.gradients.looped_reference import assert_equals_the_loop
from tfdpnorm.gradients import register_rule
from tfdpnorm.gradients.rules import rule_for


def example():
    """The code of the Example section: what follows '::', as far as it is indented further."""
    lines = inspect.getdoc(register_rule).split("Example:\n")[1].splitlines()
    begin = next(i for i, line in enumerate(lines) if line.endswith("::"))
    margin = len(lines[begin]) - len(lines[begin].lstrip())
    code = []
    for line in lines[begin + 1 :]:
        if line.strip() and len(line) - len(line.lstrip()) <= margin:
            break
        code.append(line)
    return textwrap.dedent("\n".join(code))


def test_the_example_works_as_it_is_written():
    names = {}
    exec(example(), names)
    layer = names["Affine"]()
    inputs = keras.Input((5, 3))
    # Called twice, so that contributions are merged, too.
    x = layer(keras.layers.Dense(3, "tanh")(layer(inputs)))
    model = keras.Model(inputs, keras.layers.Dense(2)(keras.layers.Flatten()(x)))
    assert type(rule_for(layer)) is names["AffineRule"]
    assert_equals_the_loop(model)
