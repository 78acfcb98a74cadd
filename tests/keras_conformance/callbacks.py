"""Cases of the conformance table: Keras' callbacks."""

from tensorflow import keras

from tests.keras_conformance import models
from tests.keras_conformance.case import Case
from tfdpnorm.keras_compat.variables import KERAS_3

C = keras.callbacks


def _halved(epoch, rate):
    return rate / (1 + epoch)


def _case(name, make, refused=None, **settings):
    return Case(name, models.mlp, callbacks=make, refused=refused, **settings)


_ON_TRAINING = "which is computed on the training examples without noise"
# A loss that no update betters by so much, so that it is a plateau.
_PLATEAU = {"min_delta": 100.0}

CALLBACKS = [
    _case(
        "EarlyStopping on val_loss",
        lambda folder: [C.EarlyStopping("val_loss", patience=2, **_PLATEAU)],
        validated=True,
    ),
    _case(
        "EarlyStopping on val_loss, restoring the best weights",
        lambda folder: [
            C.EarlyStopping("val_loss", patience=2, restore_best_weights=True, **_PLATEAU)
        ],
        validated=True,
    ),
    _case("EarlyStopping on loss", lambda folder: [C.EarlyStopping("loss")], _ON_TRAINING),
    _case(
        "EarlyStopping on val_loss without validation data",
        lambda folder: [C.EarlyStopping("val_loss")],
        "Expected validation_data",
    ),
    _case(
        "ReduceLROnPlateau on val_loss",
        lambda folder: [C.ReduceLROnPlateau("val_loss", patience=1, **_PLATEAU)],
        validated=True,
    ),
    _case(
        "ReduceLROnPlateau on loss",
        lambda folder: [C.ReduceLROnPlateau("loss")],
        _ON_TRAINING,
        quick=True,
    ),
    _case("LearningRateScheduler", lambda folder: [C.LearningRateScheduler(_halved)]),
    _case(
        "ModelCheckpoint of weights",
        lambda folder: [
            C.ModelCheckpoint(f"{folder}/{{epoch}}.weights.h5", save_weights_only=True)
        ],
    ),
    _case("ModelCheckpoint of models", lambda folder: [C.ModelCheckpoint(f"{folder}/a.keras")]),
    _case(
        "ModelCheckpoint of the best by val_loss",
        lambda folder: [C.ModelCheckpoint(f"{folder}/a.keras", "val_loss", save_best_only=True)],
        validated=True,
    ),
    _case(
        "ModelCheckpoint of the best by loss",
        lambda folder: [C.ModelCheckpoint(f"{folder}/a.keras", "loss", save_best_only=True)],
        _ON_TRAINING,
    ),
    _case("CSVLogger", lambda folder: [C.CSVLogger(f"{folder}/log.csv")]),
    _case("TensorBoard", lambda folder: [C.TensorBoard(f"{folder}/logs")]),
    _case("LambdaCallback", lambda folder: [C.LambdaCallback(on_epoch_end=lambda *_: None)]),
    _case(
        "TerminateOnNaN",
        lambda folder: [C.TerminateOnNaN()],
        "TerminateOnNaN is not supported in private training",
    ),
    _case(
        "BackupAndRestore",
        lambda folder: [C.BackupAndRestore(f"{folder}/backup")],
        "BackupAndRestore is not supported in private training",
    ),
]
if not KERAS_3:
    CALLBACKS.append(
        _case("ModelCheckpoint in a folder", lambda folder: [C.ModelCheckpoint(f"{folder}/saved")])
    )
