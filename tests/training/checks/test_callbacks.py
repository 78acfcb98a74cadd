"""What callbacks look at: rejected, named in the statement, or allowed."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.errors import PrivacyWarning
from tfdpnorm.keras_compat.variables import KERAS_3
from tfdpnorm.privacy import PrivacyLedger, make_plan, privacy_statement
from tfdpnorm.privacy.entries import Updates
from tfdpnorm.training import WeightAverage, suggested_optimizer
from tfdpnorm.training.callbacks.privacy_tensorboard import PrivacyTensorBoard
from tfdpnorm.training.callbacks.private_validation import PrivateValidation
from tfdpnorm.training.checks.callbacks import (
    check_callbacks,
    check_rate_is_settable,
    validations_first,
)

EarlyStopping = keras.callbacks.EarlyStopping
ReduceLROnPlateau = keras.callbacks.ReduceLROnPlateau
ModelCheckpoint = keras.callbacks.ModelCheckpoint
OPTIMIZERS = [keras.optimizers]
OPTIMIZERS += [] if KERAS_3 else [keras.optimizers.legacy]


@pytest.fixture
def ledger():
    plan = make_plan(
        num_examples=1000,
        expected_batch_size=10,
        steps=50,
        l2_norm_clip=1.0,
        noise_multiplier=1.0,
        delta=1e-5,
    )
    ledger = PrivacyLedger(plan)
    ledger.record(Updates(5))
    return ledger


@pytest.fixture
def check(ledger):
    def run(callbacks, validation_data_given=False, **settings):
        check_callbacks(callbacks, ledger, validation_data_given=validation_data_given, **settings)
        return ledger

    return run


def validation(name="private_val_accuracy"):
    return PrivateValidation(np.eye(3), np.arange(3), noise_multiplier=1.0, name=name)


class Third(keras.callbacks.Callback):
    """One that Keras does not know."""

    def __init__(self, monitor):
        super().__init__()
        self.monitor = monitor


class Stopping(EarlyStopping):
    pass


class TestLearningRate:
    def test_a_schedule_that_a_callback_would_set(self):
        rate = keras.optimizers.schedules.CosineDecay(0.1, 10)
        scheduler = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
        for callback in (scheduler, ReduceLROnPlateau("epsilon")):
            for optimizers in OPTIMIZERS:
                with pytest.raises(ValueError, match=type(callback).__name__):
                    check_rate_is_settable([callback], optimizers.SGD(rate))
                check_rate_is_settable([callback], optimizers.SGD(0.1))
                check_rate_is_settable([EarlyStopping("epsilon")], optimizers.SGD(rate))

    def test_fit_rejects_it_before_the_first_update(self, private, build, data, cross_entropy):
        trained = private(build())
        trained.compile(suggested_optimizer(trained), cross_entropy)
        with pytest.raises(ValueError, match="schedule"):
            trained.fit(*data, callbacks=[ReduceLROnPlateau("epsilon")], verbose=0)
        assert trained.ledger.updates == 0


class TestRefused:
    @each("monitor", ["loss", "auc_1", "nonfinite_gradients", "private_val_accuracy"])
    def test_monitors_of_training_examples_are_rejected(self, monitor, check):
        """A name is not enough: the callback that releases it has to be there."""
        for make in (
            EarlyStopping,
            ReduceLROnPlateau,
            lambda m: ModelCheckpoint("best.keras", monitor=m, save_best_only=True),
            lambda m: ModelCheckpoint("best.keras", monitor=m, save_best_only=True, save_freq=3),
            Third,
            Stopping,
        ):
            callback = make(monitor)
            with pytest.raises(ValueError, match=f"{type(callback).__name__}.*'{monitor}'"):
                check([callback], validation_data_given=True)

    def test_stopping_at_nan(self, check):
        with pytest.raises(ValueError, match="TerminateOnNaN"):
            check(keras.callbacks.TerminateOnNaN())

    def test_restoring_behind_the_ledger(self, check, tmp_path):
        with pytest.raises(ValueError, match="BackupAndRestore.*run_dir"):
            check([keras.callbacks.BackupAndRestore(tmp_path)])

    def test_validation_that_there_is_none_of(self, check):
        for make in (EarlyStopping, ReduceLROnPlateau, Third):
            with pytest.raises(ValueError, match="'val_loss'.*validation_data"):
                check([make("val_loss")])

    def test_two_of_one_name(self, check):
        with pytest.raises(ValueError, match="'private_val_accuracy' twice"):
            check([validation(), validation("private_val_top5_accuracy"), validation()])


class TestAllowed:
    @each(
        "callbacks",
        [
            None,
            [],
            [
                keras.callbacks.LearningRateScheduler(lambda epoch: 0.1),
                keras.callbacks.LambdaCallback(),
                keras.callbacks.Callback(),
                keras.callbacks.History(),
                keras.callbacks.ProgbarLogger(),
                WeightAverage(),
            ],
            [
                ModelCheckpoint("every.keras"),
                ModelCheckpoint("{epoch:02d}-{batch}.keras", monitor="loss"),
            ],
            [f("epsilon", mode="min") for f in (EarlyStopping, ReduceLROnPlateau)],
            [
                [ReduceLROnPlateau("private_val_accuracy")],
                ModelCheckpoint(
                    "{private_val_accuracy}.keras",
                    monitor="private_val_accuracy",
                    save_best_only=True,
                ),
                validation(),
            ],
            [Third(None), Third(["loss"])],
        ],
    )
    def test_allowed_callbacks_record_nothing(self, callbacks, check):
        ledger = check(callbacks, validation_data_given=True)
        assert ledger.state.sentences("not_covered") == ledger.state.sentences("held_to_plan") == ()

    def test_a_metric_under_the_name_of_a_validation(self, check):
        check([validation()], names_of_metrics=("accuracy", "val_accuracy"))
        with pytest.raises(ValueError, match="of different names, got 'private_val_accuracy'"):
            check([validation()], names_of_metrics=("loss", "private_val_accuracy"))


class TestRecorded:
    @pytest.mark.parametrize(
        "monitor, make",
        [("private_val_accuracy", EarlyStopping), ("lr", Third), ("val_loss", Stopping)],
    )
    def test_callbacks_that_may_stop_charge_the_full_plan(self, monitor, make, check):
        ledger = check(
            [make(monitor), validation()], validation_data_given=True, validation_is_public=True
        )
        (reason,) = ledger.state.sentences("held_to_plan")
        assert reason == f"{make.__name__} may end training early, based on {monitor}"
        assert ledger.epsilon() == pytest.approx(ledger.plan.epsilon_after(50))
        assert ledger.state.sentences("not_covered") == ()

    def test_validation_data_that_somebody_owns(self, check):
        callbacks = [
            EarlyStopping("val_loss"),
            ReduceLROnPlateau("val_accuracy"),
            ModelCheckpoint("best.keras", monitor="val_loss", save_best_only=True),
        ]
        with pytest.warns(PrivacyWarning, match="acts on 'val_loss' without noise") as warned:
            ledger = check(callbacks, validation_data_given=True)
        assert len(warned) == 3 == len(ledger.state.sentences("not_covered"))
        statement = privacy_statement(ledger)
        assert "whose val_loss EarlyStopping acted on without noise" in statement
        assert "whose val_accuracy ReduceLROnPlateau acted on without noise" in statement
        assert "full plan of 50 updates" in statement

    @pytest.mark.parametrize(
        "make, given",
        [
            (lambda path: keras.callbacks.CSVLogger(path), True),
            (lambda path: keras.callbacks.TensorBoard(path), False),
            (lambda path: keras.callbacks.RemoteMonitor(), True),
        ],
    )
    def test_logs_in_files(self, make, given, check, tmp_path):
        callback = make(str(tmp_path / "log"))
        ledger = check([callback], validation_data_given=given)
        (sentence,) = ledger.state.sentences("not_covered")
        assert sentence.startswith(f"The output of {type(callback).__name__}: the loss")
        assert ("validation data" in sentence) == given

    def test_names_of_files(self, check):
        checkpoint = ModelCheckpoint("{epoch}-{loss:.2f}-{val_loss:.2f}-{lr}.keras")
        ledger = check([checkpoint], validation_data_given=True)
        assert [
            sentence.split(" in ")[0] for sentence in ledger.state.sentences("not_covered")
        ] == [
            "The loss",
            "The val_loss",
        ]

    def test_files_that_could_not_be_written(self, check, tmp_path):
        (tmp_path / "file").write_text("")
        (tmp_path / "folder.keras").mkdir()
        tensorboard = keras.callbacks.TensorBoard
        for make, name in (
            (ModelCheckpoint, "file/{epoch}/a.keras"),
            (ModelCheckpoint, "folder.keras"),
            (ModelCheckpoint, "{epoch:zz}.keras"),
            (keras.callbacks.CSVLogger, "file/log.csv"),
            (tensorboard, "file/logs"),
            (PrivacyTensorBoard, "file/logs"),
        ):
            with pytest.raises(ValueError, match=f"{make.__name__} cannot write"):
                check([make(str(tmp_path / name))])
        for make, name in ((ModelCheckpoint, "{epoch}/a.keras"), (tensorboard, "logs")):
            check([make(str(tmp_path / "new" / name))])

    def test_names_that_fit_does_not_log(self, check):
        logs = {"loss", "accuracy"}
        for make in (EarlyStopping, ReduceLROnPlateau):
            check([make("val_loss")], validation_data_given=True, names_of_logs=logs)
            check([make("val_acc"), Third(None)], validation_data_given=True, names_of_logs=logs)
            with pytest.raises(ValueError, match="'val_acc'.*val_accuracy"):
                check([make("val_acc")], validation_data_given=True, names_of_logs=logs)
        check([ModelCheckpoint("{epoch}-{accuracy:.2f}.keras")], names_of_logs=logs)
        for name in ("acc", "val_accuracy"):
            with pytest.raises(ValueError, match=name):
                check([ModelCheckpoint(f"{{epoch}}-{{{name}:.2f}}.keras")], names_of_logs=logs)


class Evaluates(keras.callbacks.Callback):
    def __init__(self, *data):
        super().__init__()
        self.data = data

    def on_epoch_end(self, epoch, logs=None):
        self.model.evaluate(*self.data, verbose=0)


def _evaluations(x, y):
    """Callbacks that evaluate rows, which they name in several ways."""
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(5)

    def of_model(trained):
        return lambda epoch, logs: trained.evaluate(x[:3], y[:3], verbose=0)

    yield lambda trained: Evaluates(x, y)
    yield lambda trained: Evaluates(dataset)
    yield lambda trained: keras.callbacks.LambdaCallback(on_epoch_end=of_model(trained))


def test_training_rows_that_a_callback_will_evaluate(compiled, build, data):
    trained = compiled(build())
    for make in _evaluations(*data):
        with pytest.raises(ValueError, match="training examples"):
            trained.fit(*data, verbose=0, callbacks=[make(trained)])
        assert trained.ledger.updates == 0
    others = [make(trained) for make in _evaluations(data[0] + 1, data[1])]
    trained.fit(*data, epochs=1, steps_per_epoch=1, verbose=0, callbacks=others)


def test_noisy_accuracies_should_rise(compiled, build, data):
    """Keras 3 asks for the direction of what it does not know, at the end of an epoch."""
    stops = EarlyStopping("private_val_accuracy")
    compiled(build()).fit(
        *data,
        epochs=1,
        steps_per_epoch=1,
        verbose=0,
        callbacks=[stops, PrivateValidation(data[0] + 1, data[1], noise_multiplier=1.0)],
    )
    best = stops.best
    assert best is not None and stops.monitor_op(best + 1, best)
    if KERAS_3:
        with pytest.raises(ValueError, match="mode="):
            check_callbacks([EarlyStopping("epsilon")], None, validation_data_given=False)


class TestOrder:
    def test_validations_come_first_and_the_rest_as_given(self):
        a, b = keras.callbacks.History(), keras.callbacks.LambdaCallback()
        one, two = validation(), validation("private_val_two")
        assert validations_first([a, [one, b], two]) == [one, two, a, b]
        assert validations_first(None) == [] and validations_first(a) == [a]

    def test_a_callback_list(self, check):
        one, stop = validation(), EarlyStopping("loss")
        listed = keras.callbacks.CallbackList([stop, one], add_history=True)
        first, *others = validations_first(listed)
        assert first is one and others[0] is stop and len(others) == 2
        with pytest.raises(ValueError, match="EarlyStopping"):
            check(listed)


def test_rejected_calls_of_fit_leave_the_ledger_unchanged(compiled, build, data):
    """Also where lots that nobody sampled would have voided the guarantee."""
    trained = compiled(build())
    lots = tf.data.Dataset.from_tensor_slices(data).batch(10)
    stops = EarlyStopping("accuracy")
    for x, more in (
        (lots, {}),
        (data[0], {"y": data[1], "class_weight": {0: 1.0, 1: 2.0, 2: 1.0}}),
    ):
        with pytest.raises(ValueError, match="monitors .accuracy."):
            trained.fit(x, verbose=0, callbacks=[stops], **more)
    assert trained.ledger.guarantee_holds and trained.ledger.updates == 0
