"""What is shown and written during training: nothing that is not covered passes for covered."""

import io
import itertools
import re
import sys

import numpy as np
import pytest
import tensorflow as tf

from tfdpnorm import PrivacyBudget, PrivateValidation, make_plan, make_private
from tfdpnorm.training import PrivacyTensorBoard, Progress
from tfdpnorm.training.callbacks import progress

N = 60
NOISE = {"noise_multiplier": 1.0, "delta": 1e-5}


@pytest.fixture
def trained(build):
    def trained(*callbacks, **more):
        plan = make_plan(
            num_examples=N,
            expected_batch_size=20,
            steps=6,
            l2_norm_clip=1.0,
            budget=PrivacyBudget(3.0, 1e-5),
        )
        private = make_private(build(), plan)
        private.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
        rng = np.random.default_rng(0)
        x = rng.random((N, *private.model.input_shape[1:])).astype("float32")
        other = rng.random((9, *private.model.input_shape[1:])).astype("float32")
        y = np.zeros(N, "int32")
        given = {"validation_data": (other, y[:9])} if more.pop("validated", False) else {}
        private.fit(x, y, verbose=0, callbacks=list(callbacks), **given, **more)
        return private

    return trained


def noised(rows=40):
    rng = np.random.default_rng(5)
    return PrivateValidation(
        rng.random((rows, 5)).astype("float32"),
        np.zeros(rows, "int32"),
        budget=PrivacyBudget(2.0, 1e-5),
        queries=3,
        name="private_val_guess",
    )


def test_fit_says_once_how_long_it_will_take(build, monkeypatch, capsys):
    """After ten updates in 20 seconds: 29 more, of the 40 that the epochs allow."""
    plan = make_plan(num_examples=N, expected_batch_size=3, steps=50, l2_norm_clip=1.0, **NOISE)
    for more, said in (
        ({"verbose": 2}, 1),
        ({"verbose": 2, "callbacks": [Progress(1e9, io.StringIO())]}, 0),
        ({"verbose": 0}, 0),
    ):
        private = make_private(build(), plan)
        private.compile("sgd", "sparse_categorical_crossentropy")
        clock = itertools.count(0, 20)
        monkeypatch.setattr(progress.time, "monotonic", lambda clock=clock: next(clock))
        x = np.zeros((N, *private.model.input_shape[1:]), "float32")
        monkeypatch.setattr(progress, "_time", lambda seconds: f"{seconds:.1f} s")
        private.fit(x, np.zeros(N, "int32"), epochs=2, **more)
        found = re.findall(
            r"fit\(\) needs about (\S+) s for 29 more updates", capsys.readouterr().out
        )
        assert len(found) == said
        # The clock is read at the first and at the eleventh of these updates.
        assert found in ([], ["58.0"])


class TestProgress:
    def lines(self, trained, *callbacks, **more):
        file = io.StringIO()
        private = trained(Progress(1e-9, file), *callbacks, **more)
        self.prepared = file.getvalue().splitlines()[:2]
        return private, file.getvalue().splitlines()[2:]

    def test_a_line_for_each_update_and_one_at_the_end(self, trained):
        private, lines = self.lines(trained, noised(), validated=True, validation_is_public=True)
        layers = len(private.model.layers)
        assert self.prepared[0] == f"verifying and tracing the update of {layers} layers"
        assert re.fullmatch(r"first update after \d+ s", self.prepared[1])
        assert "private_val_guess" in lines[-1]
        with pytest.raises(ValueError, match="every_seconds"):
            Progress(0)
        numbers = [int(re.match(r"update (\d+) of 6, ", line)[1]) for line in lines]
        assert numbers == [1, 2, 3, 4, 5, 6, 6]
        assert "val_accuracy" in lines[-1] and "examples/s" in lines[-1] and "in all" in lines[-1]
        spent = [float(re.search(r"epsilon at most (\S+) of", line)[1]) for line in lines]
        assert spent == sorted(spent) and spent[-1] == pytest.approx(private.ledger.epsilon(), 1e-3)
        assert spent[-1] >= private.ledger.epsilon()

    def test_exact_metrics_of_private_validation_examples_are_not_shown(self, trained):
        _, lines = self.lines(trained, validated=True)
        assert not any(n in line for n in ("val_", "loss", "accuracy") for line in lines)

    def test_a_guarantee_that_is_lost_is_not_shown(self, trained):
        file, progress = io.StringIO(), None

        class Voids(Progress):
            def on_epoch_end(self, epoch, logs=None):
                super().on_epoch_end(epoch, logs)
                if epoch == 0:
                    from tfdpnorm.privacy.caveats import caveat

                    self.model.ledger.record(caveat("no_guarantee", sentence="it was lost"))

        progress = Voids(1e-9, file)
        trained(progress)
        lines = file.getvalue().splitlines()[2:]
        assert "epsilon" in lines[0] and "NO GUARANTEE" in lines[-1]


class TestTensorBoard:
    def test_without_the_package(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "tensorboard", None)
        with pytest.raises(ImportError, match="^PrivacyTensorBoard needs .* pip install"):
            PrivacyTensorBoard(tmp_path)

    def test_that_of_keras_without_the_package(self, trained, tmp_path, monkeypatch):
        callback = tf.keras.callbacks.TensorBoard(tmp_path)
        monkeypatch.setitem(sys.modules, "tensorboard", None)
        with pytest.raises(ImportError, match="^TensorBoard needs .* pip install"):
            trained(callback)

    def groups(self, folder):
        found = {}
        for path in folder.glob("*"):
            for record in tf.data.TFRecordDataset(str(path)):
                event = tf.compat.v1.Event.FromString(record.numpy())
                for value in event.summary.value:
                    group, name = value.tag.rsplit("/", 1)
                    found.setdefault(group, set()).add(name)
        return found

    def test_scalars_are_grouped_by_what_covers_them(self, trained, tmp_path):
        private = trained(PrivacyTensorBoard(tmp_path), noised(), validated=True)
        groups = self.groups(tmp_path)
        assert groups["covered"] == {"epsilon", "private_val_guess"}
        assert groups["validation"] == {"val_loss", "val_accuracy"}
        assert groups["not covered by the guarantee"] >= {"loss", "accuracy"}
        assert "PrivacyTensorBoard" in private.privacy_statement()
