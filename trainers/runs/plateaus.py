"""Halving of the learning rate where training makes no progress."""

import math

from tensorflow import keras

from tfdpnorm.privacy import PrivacyBudget
from tfdpnorm.training import PrivateValidation
from trainers.runs.evaluation import TEST_ROWS

_FACTOR = 0.5


def halving_callbacks(spec, data, plan):
    """Returns the callbacks that halve the learning rate on a plateau, a list.

    "private": `PrivateValidation` asks after each epoch, and is charged to the validation examples,
    none of which is a training example. "public" and "test": Keras' loss on public examples or on
    the test set, see `fit_options`.

    Args:
        spec: `PrivateSpec`.
        data: `ExperimentData`.
        plan: `tfdpnorm.privacy.PrivacyPlan` of the run.
    """
    if spec.plateau == "none":
        return []
    halve = dict(factor=_FACTOR, patience=spec.plateau_patience)
    if spec.plateau in ("public", "test"):
        return [keras.callbacks.ReduceLROnPlateau("val_loss", **halve)]
    epochs = math.ceil(plan.steps / max(1, round(1 / plan.sampling_rate)))
    validation = PrivateValidation(
        data.validation_x,
        data.validation_y,
        budget=PrivacyBudget(epsilon=spec.plateau_epsilon, delta=plan.delta),
        queries=epochs,
    )
    return [validation, keras.callbacks.ReduceLROnPlateau(validation.name, mode="max", **halve)]


def in_words(spec, data):
    """Returns whose plateaus halve the learning rate, and what covers them; "" for none."""
    if spec.plateau == "none":
        return ""
    patience = spec.plateau_patience
    epochs = f"{patience} epoch{'s' if patience > 1 else ''}"
    halved = f"learning rate halved after {epochs} without progress of"
    if spec.plateau == "test":
        return f"{halved} the loss on the TEST SET, which no epsilon covers"
    if spec.plateau == "public":
        count = f"{len(data.validation_x):,}"
        return f"{halved} the loss on {count} public examples of {spec.plateau_dataset}"
    return (
        f"{halved} a noised accuracy on {len(data.validation_x):,} private examples, which are not "
        f"trained on: epsilon {spec.plateau_epsilon:g} for these"
    )


def fit_options(spec, data):
    """Returns the arguments of `fit` for that, a dict."""
    if spec.plateau == "public":
        rows = {
            "validation_data": (data.validation_x, data.validation_y),
            "validation_is_public": True,
        }
    elif spec.plateau == "test":
        rows = {"validation_data": (data.test_x, data.test_y)}
    else:
        return {}
    return {**rows, "validation_batch_size": TEST_ROWS}
