"""What the engines say of themselves, and whom a model's statistics and clipping get."""

import pytest
from tensorflow import keras

from tests.each import each
from tfdpnorm.gradients import Clipping
from tfdpnorm.gradients.engines import registry
from tfdpnorm.gradients.engines.registry import engine_named

PLAIN = dict(rows_mix=False, public_rows_per_example=False, clipping=Clipping(2.0))
MIXING, PUBLIC_ROWS = {"rows_mix": True}, {"public_rows_per_example": True}
PER_LAYER = {"clipping": Clipping(2.0, "per_layer")}
AUTOMATIC = {"clipping": Clipping(2.0, function="automatic")}
CANNOT = {
    "book_keeping": [MIXING, PUBLIC_ROWS],
    "per_example": [],
    "tfp_vectorized": [MIXING, PER_LAYER, AUTOMATIC],
    "tfp_model": [MIXING, PER_LAYER, AUTOMATIC],
}


@each("name", [engine.name for engine in registry.available_engines()])
def test_each_rejects_exactly_what_it_cannot_do(name):
    engine = engine_named(name)
    engine.check(**PLAIN)
    for asked in (MIXING, PUBLIC_ROWS, PER_LAYER, AUTOMATIC):
        if asked in CANNOT[name]:
            with pytest.raises(ValueError, match=name):
                engine.check(**{**PLAIN, **asked})
        else:
            engine.check(**{**PLAIN, **asked})


def test_without_tensorflow_privacy_its_engines_are_rejected(monkeypatch):
    monkeypatch.setattr(registry, "_has_tensorflow_privacy", lambda: False)
    for name in ("tfp_model", "tfp_vectorized"):
        with pytest.raises(ValueError, match=rf"{name}.*tfdpnorm\[tensorflow-privacy\]"):
            engine_named(name).check(**PLAIN)
    engine_named("per_example").check(**PLAIN)
    assert [engine.name for engine in registry.available_engines()] == [
        "book_keeping",
        "per_example",
    ]


def test_an_optimizer_that_no_engine_takes_is_rejected_early():
    engine = engine_named("tfp_vectorized")
    with pytest.raises(ValueError, match="optimizers"):
        engine.bind(None, keras.optimizers.RMSprop(), False, 1)
    engine_named("per_example").bind(None, keras.optimizers.RMSprop(), False, 1)
