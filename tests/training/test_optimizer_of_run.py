"""An optimizer that has seen gradients without noise is not used in private training."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.keras_versions import legacy
from tests.private_of import private_of
from tfdpnorm.keras_compat.variables import KERAS_3

REFUSED = "made {} steps"


def made(model, **settings):
    return private_of(model, steps=8, **settings)


def new_momentum():
    return keras.optimizers.Adam() if KERAS_3 else legacy("SGD")(0.1, momentum=0.9)


@pytest.fixture
def momentum():
    return new_momentum()


def test_one_that_trained_after_compile(build, data, cross_entropy, momentum):
    model = build()
    private, begun = made(model), model.get_weights()
    private.compile(momentum, cross_entropy)
    model.compile(momentum, cross_entropy)
    model.fit(*data, batch_size=40, verbose=0)
    model.set_weights(begun)
    with pytest.raises(ValueError, match=REFUSED.format(1)):
        made(build()).compile(momentum, cross_entropy)
    for train in (lambda: private.fit(*data, verbose=0), lambda: private.train_on_batch(*data)):
        with pytest.raises(ValueError, match=REFUSED.format(1)):
            train()
    assert private.ledger.updates == 0
    for old, new in zip(begun, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.keras_3_only("there is no MultiOptimizer")
def test_one_that_another_holds(build, data, cross_entropy):
    """The optimizer that is compiled has made no step."""
    from keras.optimizers import MultiOptimizer, OptimizerMap

    model, momentum = build(), keras.optimizers.Adam()
    private, begun = made(model), model.get_weights()
    model.compile(momentum, cross_entropy)
    model.fit(*data, batch_size=40, verbose=0)
    model.set_weights(begun)
    with pytest.raises(ValueError, match=REFUSED.format(1)):
        private.compile(MultiOptimizer(OptimizerMap(momentum)), cross_entropy)
    with pytest.raises(ValueError, match="MultiOptimizer"):
        private.compile(MultiOptimizer(lambda variable: momentum), cross_entropy)


def test_one_that_is_put_back(build, data, cross_entropy, tmp_path):
    private = made(build())
    private.compile("adam", cross_entropy)
    checkpoint = tf.train.Checkpoint(model=private)
    path = checkpoint.write(str(tmp_path / "checkpoint"))
    private.fit(*data, epochs=1, verbose=0)
    checkpoint.read(path).expect_partial()
    with pytest.raises(ValueError, match=f"{REFUSED.format(0)}, not 4"):
        private.fit(*data, epochs=1, verbose=0)


def test_one_that_two_private_models_share(build, data, cross_entropy, momentum):
    one, other = made(build()), made(build())
    one.compile(momentum, cross_entropy)
    other.compile(momentum, cross_entropy)
    one.fit(*data, epochs=1, verbose=0)
    with pytest.raises(ValueError, match=REFUSED.format(4)):
        other.fit(*data, epochs=1, verbose=0)
    one.fit(*data, epochs=2, initial_epoch=1, verbose=0)
    assert (one.ledger.updates, other.ledger.updates) == (8, 0)


def test_the_runs_own_goes_on(build, data, cross_entropy, tmp_path):
    """In a second phase, and after the run was resumed."""
    private, momentum = made(build(), run_dir=tmp_path), new_momentum()
    private.compile(momentum, cross_entropy)
    private.fit(*data, epochs=1, verbose=0)
    private.compile(momentum, cross_entropy)
    private.ledger.close()
    again = made(build(), run_dir=tmp_path, resume=True)
    again.compile(new_momentum(), cross_entropy)
    again.restore_run()
    again.fit(*data, verbose=0)
    assert again.ledger.updates == 8
