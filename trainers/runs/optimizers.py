"""The optimizer of an experiment, and the halving of its rate where training makes no progress."""

import math

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.privacy import PrivacyBudget
from tfdpnorm.training import NAdam, PrivateValidation
from trainers.runs.skeleton import test_rows

# By class: from a name and options Keras 2 makes one of its legacy optimizers.
_CLASSES = {
    "sgd": keras.optimizers.SGD,
    "adam": keras.optimizers.Adam,
    "nadam": NAdam,
    "keras_nadam": keras.optimizers.Nadam,
    "adamw": keras.optimizers.AdamW,
    "rmsprop": keras.optimizers.RMSprop,
    "adagrad": keras.optimizers.Adagrad,
}


@keras.utils.register_keras_serializable("trainers")
class PowerDecay(keras.optimizers.schedules.LearningRateSchedule):
    """The rate eta_0 / t^gamma, in rounds t = 1, 2, ... of updates, not always whole ones, each."""

    def __init__(self, initial, power, round_length):
        super().__init__()
        self.initial, self.power, self.round_length = initial, power, round_length

    def __call__(self, step):
        rounds = 1.0 + tf.floor(tf.cast(step, tf.float32) / self.round_length)
        return self.initial * rounds**-self.power

    def get_config(self):
        return dict(initial=self.initial, power=self.power, round_length=self.round_length)


def make_optimizer(spec, updates, num_examples=None):
    """Returns the Keras optimizer that a spec describes, for so many updates.

    N must be public, for a rate that falls by epochs, and for a prior.
    """
    rate = float(spec.learning_rate)
    if spec.learning_rate_schedule == "cosine":
        rate = keras.optimizers.schedules.CosineDecay(rate, updates)
    elif spec.learning_rate_schedule == "linear":
        rate = keras.optimizers.schedules.PolynomialDecay(rate, updates, end_learning_rate=0.0)
    elif spec.learning_rate_schedule == "power":
        by_update = spec.learning_rate_round == "update"
        round_length = 1 if by_update else num_examples / spec.examples_per_update
        rate = PowerDecay(rate, spec.learning_rate_power, round_length)
    options = {"learning_rate": rate}
    prior = spec.variational.prior_stddev
    if prior is not None:
        # The gradient of -log N(w; 0, s^2) / N, added behind the noise: it depends on no example.
        options["weight_decay"] = 1 / (prior**2 * num_examples)
    if spec.optimizer == "sgd":
        options["momentum"] = spec.momentum
    return _CLASSES[spec.optimizer](**options)


# --- plateaus ---


def halving_callbacks(spec, data, plan):
    """Returns the callbacks that halve the learning rate on a plateau, a list.

    "private": `PrivateValidation` asks after each epoch, and is charged to the validation examples,
    none of which is a training example. "public" and "test": Keras' loss on public examples or on
    the test set, see `fit_options`.
    """
    if spec.plateau == "none":
        return []
    if spec.plateau in ("public", "test"):
        return [_halving(spec, "val_loss")]
    epochs = math.ceil(plan.steps / max(1, round(1 / plan.sampling_rate)))
    validation = PrivateValidation(
        data.validation_x,
        data.validation_y,
        budget=PrivacyBudget(epsilon=spec.plateau_epsilon, delta=plan.delta),
        queries=epochs,
    )
    return [validation, _halving(spec, validation.name, mode="max")]


def _halving(spec, metric, **more):
    more["patience"] = spec.plateau_patience
    return keras.callbacks.ReduceLROnPlateau(metric, factor=0.5, **more)


class EarlyStopping(keras.callbacks.EarlyStopping):
    """Ends training without progress of the validation loss, with the weights of the best epoch.

    Also where it ends by itself: whether Keras takes the best weights then depends on its version.
    """

    def __init__(self, patience):
        super().__init__("val_loss", patience=patience, restore_best_weights=True)

    def on_train_end(self, logs=None):
        """As in Keras; then takes the weights of the best epoch."""
        super().on_train_end(logs)
        if self.best_weights is not None:
            self.model.set_weights(self.best_weights)


def validation_callbacks(spec):
    """Returns the callbacks of a `NonPrivateSpec` that look at its held-out examples, a list."""
    halving = [] if spec.plateau == "none" else [_halving(spec, "val_loss")]
    stopping = [] if spec.early_stopping is None else [EarlyStopping(spec.early_stopping)]
    return halving + stopping


def halving_in_words(spec, data):
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
        f"{halved} a noisy accuracy on {len(data.validation_x):,} private examples, which are not "
        f"trained on: epsilon {spec.plateau_epsilon:g} for these"
    )


def fit_options(spec, data, model=None):
    """Returns the arguments of `fit` for that, a dict."""
    shared = {
        "validation_batch_size": test_rows(data.train_x, model),
        "validation_is_public": spec.plateau == "public",
    }
    if spec.plateau == "public":
        return {**shared, "validation_data": (data.validation_x, data.validation_y)}
    return (
        {**shared, "validation_data": (data.test_x, data.test_y)} if spec.plateau == "test" else {}
    )
