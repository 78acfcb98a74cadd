"""The registry of network families."""

import pytest

from tests.each import each
from tfdpnorm import models
from tfdpnorm.models import registry


@pytest.fixture
def empty_registry(monkeypatch):
    monkeypatch.setattr(registry, "_BUILDERS", {})


def test_register_and_build(empty_registry):
    @models.register("tiny")
    def tiny(norm, num_classes, input_shape=(4,), width=2):
        return norm, num_classes, input_shape, width

    assert models.names() == ["tiny"]
    assert tiny("none", 5) == ("none", 5, (4,), 2)
    assert models.build("tiny") == ("none", 10, (4,), 2)
    assert models.build("tiny", "group", 3, [7], width=9) == ("group", 3, (7,), 9)


def test_a_name_is_registered_once(empty_registry):
    first = models.register("tiny")(lambda norm, num_classes: "first")
    with pytest.raises(ValueError, match="'tiny'"):
        models.register("tiny")(lambda norm, num_classes: "second")
    assert models.build("tiny") == first("none", 10) == "first"


@each(
    "arguments,message",
    [
        ({"name": "lenet6"}, "model name .*'lenet5'.*'lenet6'"),
        ({"name": "lenet5", "depth": 3}, "'pooling'.*'depth'"),
        ({"name": "lenet5", "num_classes": 0}, "num_classes"),
        ({"name": "lenet5", "num_classes": 10.0}, "num_classes"),
    ],
)
def test_unknown_models_and_options_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        models.build(**arguments)
