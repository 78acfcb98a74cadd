"""All that a step uses is in the checkpoint: a resumed run ends as one that went on, to the bit."""

import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.layers import VariationalDropoutDense, WeightNoise
from tfdpnorm.training import PrivacyNoiseAsDropout, make_private
from tfdpnorm.training.resume import run_folder

_KINDS = (keras.optimizers.Optimizer, keras.optimizers.legacy.Optimizer)
_schedule = keras.optimizers.schedules

pytestmark = pytest.mark.usefixtures("quickly")


def optimizers():
    """All optimizers of Keras, by name, and what their options add; functions that make them."""
    found = {}
    for module in (keras.optimizers, keras.optimizers.legacy):
        where = "" if module is keras.optimizers else "legacy-"
        for name in sorted(vars(module)):
            cls = getattr(module, name)
            if isinstance(cls, type) and issubclass(cls, _KINDS) and cls not in _KINDS:
                found[where + name] = cls
    old, new = keras.optimizers.legacy, keras.optimizers
    return found | {
        "average": lambda: new.Nadam(use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=5),
        "decay": lambda: new.Adam(weight_decay=0.1, clipnorm=0.5, amsgrad=True),
        "momentum": lambda: new.SGD(0.1, momentum=0.9, nesterov=True, use_ema=True),
        "centered": lambda: new.RMSprop(0.01, momentum=0.9, centered=True),
        "schedule": lambda: new.SGD(_schedule.ExponentialDecay(0.1, 3, 0.5), momentum=0.9),
        "cosine": lambda: new.Adam(_schedule.CosineDecayRestarts(0.1, 4)),
        "legacy-momentum": lambda: old.SGD(0.1, momentum=0.9),
        "legacy-amsgrad": lambda: old.Adam(amsgrad=True, decay=0.1),
        "legacy-schedule": lambda: old.Nadam(0.01),
    }


@pytest.fixture(autouse=True)
def copies_are_not_told_apart(monkeypatch):
    """A copy stands for the folder as a crash leaves it."""
    monkeypatch.setattr(run_folder, "place_of", lambda file: (0, 0))


OPTIMIZERS = optimizers()
_QUICK = ("Nadam",)


class CopyAt(keras.callbacks.Callback):
    """Copies the folder of a run after an update, as a crash would leave it."""

    def __init__(self, update, run, copy):
        super().__init__()
        self._update, self._folders = update, (run, copy)

    def on_train_batch_end(self, batch, logs=None):
        if self.model.ledger.position == self._update:
            shutil.copytree(*self._folders)


def dense():
    return keras.Sequential(
        [
            keras.Input((5,)),
            keras.layers.Dense(4, activation="tanh"),
            keras.layers.Dense(3),
        ]
    )


def run(folder, data, build, optimizer, loss, callbacks=(), compiled=None, **settings):
    """A private training in `folder`, to its end."""
    keras.utils.set_random_seed(3)
    settings = {
        "num_examples": 40,
        "expected_batch_size": 10,
        "steps": 12,
        "l2_norm_clip": 1.0,
        "noise_multiplier": 1.0,
        "delta": 1e-5,
        "checkpoint_every": 3,
        **settings,
    }
    private = make_private(build(), run_dir=folder, resume=True, **settings)
    try:
        private.compile(optimizer, loss, **(compiled or {}))
        private.fit(*data, verbose=0, callbacks=list(callbacks))
    finally:
        private.ledger.close()
    return private


def check_resumes_to_the_bit(tmp_path, data, loss, build=dense, optimizer="adam", **settings):
    make = OPTIMIZERS.get(optimizer, lambda: optimizer)
    copying = CopyAt(8, tmp_path / "whole", tmp_path / "again")
    whole = run(tmp_path / "whole", data, build, make(), loss, [copying], **settings)
    keras.utils.set_random_seed(77)
    again = run(tmp_path / "again", data, build, make(), loss, **settings)
    for expected, found in zip(whole.model.weights, again.model.weights, strict=True):
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
    assert (again.ledger.updates, again.ledger.position, again.ledger.recounted) == (12, 12, 0)
    assert again.ledger.resumes == 1
    assert again.ledger.epsilon() == again.plan.epsilon_after(12)


@pytest.mark.slow_cases(*(name for name in OPTIMIZERS if name not in _QUICK))
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer(name, tmp_path, data, cross_entropy):
    check_resumes_to_the_bit(tmp_path, data, cross_entropy, optimizer=name)


def test_all_optimizers_are_looked_at():
    assert len(OPTIMIZERS) == 28
    assert {"Nadam", "Lion", "Adafactor", "AdamW", "legacy-Ftrl"} <= set(OPTIMIZERS)


def with_layers(*layers):
    def build():
        made = [make() for make in layers]
        return keras.Sequential([keras.Input((5,)), *made, keras.layers.Dense(3)])

    return build


class Jitter(keras.layers.Layer):
    """A layer of somebody's own, which holds a generator."""

    def __init__(self):
        super().__init__()
        self.numbers = tf.random.Generator.from_seed(4)

    def call(self, inputs, training=None):
        return inputs + self.numbers.normal(tf.shape(inputs)) if training else inputs


def image():
    return keras.layers.Reshape((5, 1, 1))


MODELS = {
    "dropout": with_layers(lambda: keras.layers.Dense(8), lambda: keras.layers.Dropout(0.5)),
    "several": with_layers(
        lambda: keras.layers.GaussianNoise(0.3),
        lambda: keras.layers.Dropout(0.3, seed=3),
        lambda: keras.layers.AlphaDropout(0.3),
        lambda: keras.layers.GaussianDropout(0.3),
        lambda: keras.Sequential([keras.layers.Dense(8), keras.layers.Dropout(0.5)]),
    ),
    "own": with_layers(Jitter),
    "spatial": with_layers(
        lambda: keras.layers.Reshape((5, 1)),
        lambda: keras.layers.SpatialDropout1D(0.5),
        lambda: keras.layers.Flatten(),
    ),
    "images": with_layers(
        image,
        lambda: keras.layers.RandomFlip(),
        lambda: keras.layers.RandomTranslation(0.3, 0.0),
        lambda: keras.layers.Flatten(),
    ),
    "recurrent": with_layers(
        lambda: keras.layers.Reshape((5, 1)),
        lambda: keras.layers.LSTM(4, dropout=0.5, recurrent_dropout=0.3, unroll=True),
    ),
}


@pytest.mark.slow_cases("[!d]*")
@pytest.mark.parametrize("name", MODELS)
def test_random_layers(name, tmp_path, data, cross_entropy):
    check_resumes_to_the_bit(tmp_path, data, cross_entropy, MODELS[name], validate=True)


@pytest.mark.slow
def test_noise_in_the_weights(tmp_path, data, cross_entropy):
    build = with_layers(lambda: WeightNoise(keras.layers.Dense(4), 0.1))
    check_resumes_to_the_bit(tmp_path, data, cross_entropy, build, engine="per_example")


@pytest.mark.slow_cases("learnt")
@pytest.mark.parametrize("noise", ["learnt", "public"])
def test_variational_dropout(noise, tmp_path, data, cross_entropy):
    """Also with a zeta that follows from the number of the update."""
    build = with_layers(lambda: VariationalDropoutDense(4, noise=noise, num_examples=40))
    callbacks = [PrivacyNoiseAsDropout()] if noise == "public" else []
    rate = keras.optimizers.schedules.InverseTimeDecay(0.4, 1, 1.0)
    copying = CopyAt(8, tmp_path / "whole", tmp_path / "again")
    sgd = keras.optimizers.SGD
    whole = run(tmp_path / "whole", data, build, sgd(rate), cross_entropy, [copying, *callbacks])
    again = run(tmp_path / "again", data, build, sgd(rate), cross_entropy, callbacks)
    assert again.ledger.resumes == 1 and again.ledger.recounted == 0
    for expected, found in zip(whole.model.weights, again.model.weights, strict=True):
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
    if noise == "public":
        assert float(again.model.layers[0].noise_stddev) == pytest.approx(0.4 / 12 / 10)


@pytest.mark.slow
def test_random_layers_in_several_physical_batches(tmp_path, data, cross_entropy):
    settings = {"physical_batch_size": 4, "compiled": {"steps_per_execution": 2}}
    check_resumes_to_the_bit(
        tmp_path, data, cross_entropy, MODELS["several"], "Nadam", checkpoint_every=2, **settings
    )


@pytest.mark.slow
def test_random_views(tmp_path, data, cross_entropy):
    views = keras.Sequential([keras.layers.GaussianNoise(0.5), keras.layers.Dropout(0.2)])
    for engine in ("book_keeping", "per_example"):
        settings = {"augmentation_multiplicity": 3, "augmentation": views, "engine": engine}
        check_resumes_to_the_bit(tmp_path / engine, data, cross_entropy, **settings)
