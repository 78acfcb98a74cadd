"""Which settings a trial of a search gets, and its score."""

import warnings

import keras_tuner
import numpy as np
import tensorflow as tf

from tfdpnorm.data import arrays
from tfdpnorm.data.inputs import is_inputs
from tfdpnorm.errors import PrivacyWarning
from tfdpnorm.training import PrivateValidation
from tfdpnorm.training.callbacks.judging import class_numbers, right_class
from tfdpnorm.training.validation_data import check_no_training_rows

SCORE = "score"
NOT_FOR_RELEASE = (
    "NOT FOR RELEASE: scores, how many trials there are, and all trials but the best. The epsilon "
    "of this search assumes that they are not released."
)


def objective():
    """The objective of all searches: the largest score."""
    return keras_tuner.Objective(SCORE, "max")


class RandomTrials(keras_tuner.Oracle):
    """Draws the settings of each trial from its number and a secret, and stops after K trials.

    Keras Tuner's own random search never tries the same settings twice, so that its trials depend
    on each other. Here they are independent and equally distributed, as the accounting assumes.
    `folder` is the `SearchFolder`, which knows K and the secret, once it is opened.
    """

    def __init__(self, max_consecutive_failed_trials=3):
        super().__init__(
            objective=objective(), max_consecutive_failed_trials=max_consecutive_failed_trials
        )
        self.folder = None

    def get_best_trials(self, num_trials=1):
        """Returns the best trials, with a warning that they are not for release."""
        warnings.warn(NOT_FOR_RELEASE, PrivacyWarning, stacklevel=2)
        return super().get_best_trials(num_trials)

    def populate_space(self, trial_id):
        """Returns the values of a new trial, or that there are no more trials."""
        if len(self.trials) >= self.folder.number_of_trials():
            return {"status": "STOPPED"}
        space = self.get_space().space
        values = random_values(space, lambda name: self.folder.seed_of(trial_id, name))
        return {"status": "RUNNING", "values": values}


def random_values(space, seed_of):
    """Draws values of a list of Keras Tuner's hyperparameters, a dict by name.

    `seed_of(name)` is the seed of a value.
    """
    drawn = keras_tuner.HyperParameters()
    for hp in space:
        drawn.merge([hp])
        if drawn.is_active(hp):  # of alternatives, the one that was drawn
            drawn.values[hp.name] = hp.random_sample(seed_of(hp.name))
    return drawn.values


# --- scores ---

PRIVATE_SCORE = "private_val_score"


class PublicScore:
    """The accuracy on examples that are public.

    Inputs are [N, ...], or a structure of them; targets are class numbers [N], or one-hot rows.
    """

    def __init__(self, x, y, from_logits=None):
        self._x = arrays.map_leaves(arrays.numeric_array, x, "x")
        self._y = class_numbers(arrays.numeric_array(y, "y"))
        self._from_logits = from_logits

    def check_training_data(self, x):
        """Raises ValueError if training rows [N, ...] are among these: they are not public then."""
        trained = x if is_inputs(x) else arrays.map_leaves(arrays.numeric_array, x, "x")
        check_no_training_rows(self._x, trained, remedy="")

    def measure(self, private):
        """Returns the share of right answers of a `PrivateModel`, a float."""
        answers = private.predict(self._x, verbose=0)
        finite = np.ones(len(self._y), bool)
        for output in tf.nest.flatten(answers):
            finite &= ~np.isnan(output).reshape(len(output), -1).any(axis=1)
        return float(np.mean(right_class(self._y, answers, self._from_logits) & finite))


def score_of(x, y, search, from_logits=None):
    """Returns what scores the trials of a `SearchPlan`; `measure(private)` is called once a trial.

    Privacy:
        A private score is the noisy number of right answers: one Gaussian mechanism, charged to
        the validation examples in the ledger of the trial.
    """
    noise = search.score_noise_multiplier
    if noise is None:
        return PublicScore(x, y, from_logits)
    return PrivateValidation(
        x, y, noise_multiplier=noise, queries=1, from_logits=from_logits, name=PRIVATE_SCORE
    )
