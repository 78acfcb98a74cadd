"""Metrics stay out of weights and files, and every step is one of `fit` on lots of this library."""

import contextlib
import copy
import pickle

import h5py
import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.data import PoissonBatches, poisson_batches
from tfdpnorm.keras_compat.models import sublayers
from tfdpnorm.keras_compat.training import BeginsWithinEpoch
from tfdpnorm.keras_compat.variables import KERAS_3
from tfdpnorm.training import announced_updates

NO_GUARANTEE = "NO GUARANTEE"


@pytest.fixture
def trained(build, private, data, cross_entropy):
    """A private model after an epoch, with metrics of the user's."""
    model = private(build("functional"))
    model.compile("adam", cross_entropy, metrics=["accuracy"])
    model.fit(*data, verbose=0, epochs=1)
    return model


def arrays_in(path):
    if path.stat().st_size == 0:
        return False
    with h5py.File(path) as file:
        return len(file) > 0


def names_in(path):
    if not path.endswith(".h5"):
        return [name for name, _ in tf.train.list_variables(path)]
    found = []
    with h5py.File(path) as file:
        file.visit(found.append)
    return [f"{name}/kernel" if name.endswith("vars/0") else name for name in found]


class TestMetrics:
    def test_weights_are_those_of_the_model(self, trained, data):
        for name in ("weights", "variables", "trainable_weights", "non_trainable_weights"):
            ours, models = getattr(trained, name), getattr(trained.model, name)
            assert [id(v) for v in ours] == [id(v) for v in models]
        for a, b in zip(trained.get_weights(), trained.model.get_weights(), strict=True):
            np.testing.assert_array_equal(a, b)
        trained.set_weights([w + 1 for w in trained.get_weights()])
        assert not any(isinstance(x, keras.metrics.Metric) for x in sublayers(trained))
        # Keras 3 would list one that is an attribute as well as this library does.
        assert len(trained.metrics) == len({id(metric) for metric in trained.metrics})
        # They work all the same.
        history = trained.fit(*data, verbose=0, epochs=1).history
        assert {"loss", "accuracy", "nonfinite_gradients", "epsilon"} <= set(history)
        names = trained.evaluate(*data, verbose=0, return_dict=True)
        assert set(names) == {"loss", "accuracy"} and names["loss"] > 0

    def test_files_hold_no_metric(self, trained, data, tmp_path):
        """40 rows, a quarter of them a lot: neither counts nor sums may be in a file."""
        tf.train.Checkpoint(trained).write(str(tmp_path / "itself"))
        tf.train.Checkpoint(model=trained).write(str(tmp_path / "within"))
        checkpoint = keras.callbacks.ModelCheckpoint(
            str(tmp_path / ("a.weights.h5" if KERAS_3 else "keras")), save_weights_only=True
        )
        trained.fit(*data, verbose=0, callbacks=[checkpoint])
        secret = {"total", "count", "latest"}
        for name in ("itself", "within", "a.weights.h5" if KERAS_3 else "keras"):
            saved = names_in(str(tmp_path / name))
            assert any("kernel" in n or "trainable_variables" in n for n in saved)
            assert not [n for n in saved if secret & set(n.split("/")) or "metric" in n]

    def test_tensorboard_logs_do_not_hold_the_noise_key(self, compiled, build, data, tmp_path):
        """Where Keras writes it, it has the graph of the step."""
        pytest.importorskip("tensorboard")
        model = compiled(build("functional", "layer"), noise_generator="philox")
        logs = keras.callbacks.TensorBoard(tmp_path, write_graph=True, update_freq="batch")
        model.fit(*data, verbose=0, callbacks=[logs])
        written = b"".join(path.read_bytes() for path in tmp_path.rglob("events*"))
        assert (b"AssignAddVariableOp" in written) == (not KERAS_3) and b"epoch_loss" in written
        words = [word for key in model._noise._words._keys.values() for word in key.numpy()]
        assert words and not any(word.tobytes() in written for word in words)
        assert not any(str(word).encode() in written for word in words)

    def test_saving_with_keras_functions_is_rejected(self, trained, data, tmp_path):
        trained.predict(data[0], verbose=0)
        for name, save in (
            ("a.keras", keras.models.save_model),
            ("a.h5" if KERAS_3 else "keras", keras.models.save_model),
            ("tf", tf.saved_model.save),
        ):
            with pytest.raises(TypeError, match=r"cannot be saved or cloned"):
                save(trained, str(tmp_path / name))
        # Keras 3 opens a file before it asks the model.
        assert not [p for p in tmp_path.rglob("*") if p.is_file() and arrays_in(p)]
        trained.save(tmp_path / "model.keras")

    def test_a_copy_is_rejected(self, trained, build, private):
        """It would draw the same noise, and count it in another ledger."""
        for model in (trained, private(build())):
            for make in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(TypeError, match="cannot be copied or pickled"):
                    make(model)


class Cached(PoissonBatches):
    __module__ = PoissonBatches.__module__  # It is not the place that makes a class honest.

    def as_dataset(self, *args, **kwargs):
        return super().as_dataset(*args, **kwargs).take(1).cache().repeat()


class TestStepsByHand:
    @pytest.fixture
    def fresh(self, compiled, build):
        model = compiled(build("functional"))
        return model

    @pytest.fixture
    def lots(self, fresh, data):
        return poisson_batches(*data, expected_batch_size=10).as_dataset(fresh.slots)

    def check(self, private, reason):
        text = private.privacy_statement()
        assert text.startswith(NO_GUARANTEE) and reason in text and "epsilon = 0" not in text

    def test_train_step(self, fresh, lots):
        with pytest.warns(UserWarning, match="a training step was called directly"):
            for lot in lots.take(3):
                fresh.train_step(lot)
        self.check(fresh, "a training step was called directly, outside of the ledger")

    def test_the_training_function_on_one_lot(self, fresh, lots):
        one = lots.take(1).cache().repeat()
        train, iterator = fresh.make_train_function(), iter(one)
        with pytest.warns(UserWarning, match="not Poisson-sampled by this library"):
            for _ in range(3):
                train(iterator)
        self.check(fresh, "not Poisson-sampled")
        assert fresh.ledger.updates == 3

    def test_the_function_that_fit_left(self, fresh, lots, data, monkeypatch):
        """Python looks after its updates no more: their number says that they were made."""
        made, make = [], BeginsWithinEpoch.make_train_function

        def kept(model, force=False):
            made.append(make(model, force))
            return made[-1]

        monkeypatch.setattr(BeginsWithinEpoch, "make_train_function", kept)
        fresh.fit(*data, epochs=1, verbose=0)
        assert fresh.privacy_statement().startswith("1. Training satisfies")
        made[-1](iter(lots))
        with pytest.warns(UserWarning, match="called directly"):
            self.check(fresh, "called directly")

    def test_the_function_that_an_interrupted_fit_left(self, fresh, lots, data, monkeypatch):
        """What was announced and not made is not room for updates called directly."""
        made, make = [], BeginsWithinEpoch.make_train_function

        def kept(model, force=False):
            made.append(make(model, force))
            return made[-1]

        @contextlib.contextmanager
        def once(private, count):
            if private.ledger.updates > 1:
                raise KeyboardInterrupt
            yield

        monkeypatch.setattr(BeginsWithinEpoch, "make_train_function", kept)
        monkeypatch.setattr(announced_updates, "exchanged_steps_per_execution", once)
        with pytest.raises(KeyboardInterrupt):
            fresh.fit(*data, epochs=1, verbose=0)
        assert (fresh.ledger.updates, int(fresh.update_count)) == (2, 2)
        assert fresh.privacy_statement().startswith("1. Training satisfies")
        made[-1](iter(lots))
        with pytest.warns(UserWarning, match="called directly"):
            self.check(fresh, "called directly")

    def test_given_rows_before_the_first_lot_of_fit(self, fresh, data):
        """That no lot of `fit` follows makes them no sampled ones."""

        def given_and_no_more(_):
            fresh.train_on_batch(data[0][:1], data[1][:1])
            raise KeyboardInterrupt

        rows = keras.callbacks.LambdaCallback(on_train_begin=given_and_no_more)
        with (
            pytest.warns(UserWarning, match="not Poisson-sampled by this library"),
            pytest.raises(KeyboardInterrupt),
        ):
            fresh.fit(*data, epochs=1, verbose=0, callbacks=[rows])
        self.check(fresh, "not Poisson-sampled")

    @pytest.mark.parametrize("how", ["subclass", "instance"])
    def test_lots_that_others_sample(self, fresh, data, how):
        batches = (Cached if how == "subclass" else PoissonBatches)(*data, expected_batch_size=10)
        if how == "instance":
            real = batches.as_dataset
            batches.as_dataset = lambda *a, **k: real(*a, **k).take(1).cache().repeat()
        with pytest.warns(UserWarning, match="not Poisson-sampled by this library"):
            fresh.fit(batches, verbose=0)
        self.check(fresh, "not Poisson-sampled")

    def test_fit_and_what_audits_call_keep_the_guarantee(self, fresh, lots, data):
        fresh.clipped_sum(next(iter(lots)))
        fresh.fit(*data, verbose=0, epochs=1)
        fresh.fit(poisson_batches(*data, expected_batch_size=10), verbose=0)
        assert fresh.ledger.guarantee_holds and fresh.ledger.updates == 8


class TestStrategies:
    def test_they_are_rejected_by_name(self, build, private, data, cross_entropy):
        strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
        refused = pytest.raises(ValueError, match="MirroredStrategy")
        model = build()
        with strategy.scope():
            with refused:
                private(model)
            distributed = build()
        with refused:
            private(distributed)
        here = private(model)
        with strategy.scope(), refused:
            here.compile("sgd", cross_entropy)
        here.compile("sgd", cross_entropy)
        with strategy.scope(), refused:
            here.fit(*data, verbose=0)
        here.fit(*data, verbose=0)
        assert here.ledger.guarantee_holds
