"""Which settings a trial gets: drawn at random, with replacement, whatever the scores are."""

import warnings

import keras_tuner

SCORE = "score"
NOT_FOR_RELEASE = (
    "NOT FOR RELEASE: scores, how many trials there are, and all trials but the best. The epsilon "
    "of this search presumes that nobody sees them."
)


def objective():
    """What all searches look for: the largest score."""
    return keras_tuner.Objective(SCORE, "max")


class RandomTrials(keras_tuner.Oracle):
    """Draws the settings of each trial from its number and a secret, and stops after K trials.

    Keras Tuner's own random search never tries the same settings twice, so that its trials depend
    on each other. Here they are independent and equally distributed, as the accounting assumes.

    Args:
        max_consecutive_failed_trials: As in Keras Tuner.

    Attributes:
        folder: `SearchFolder`, which knows K and the secret, once it is opened.
    """

    def __init__(self, max_consecutive_failed_trials=3):
        super().__init__(
            objective=objective(), max_consecutive_failed_trials=max_consecutive_failed_trials
        )
        self.folder = None

    def get_best_trials(self, num_trials=1):
        """As in Keras Tuner; says that they are not for release."""
        warnings.warn(NOT_FOR_RELEASE, stacklevel=2)
        return super().get_best_trials(num_trials)

    def populate_space(self, trial_id):
        """As in Keras Tuner."""
        if len(self.trials) >= self.folder.number_of_trials():
            return {"status": "STOPPED"}
        space = self.get_space().space
        values = random_values(space, lambda name: self.folder.seed_of(trial_id, name))
        return {"status": "RUNNING", "values": values}


def random_values(space, seed_of):
    """Draws values of hyperparameters, a dict by name.

    Args:
        space: List of Keras Tuner's hyperparameters.
        seed_of: Function from the name of one to the seed of its value.
    """
    drawn = keras_tuner.HyperParameters()
    for hp in space:
        drawn.merge([hp])
        if drawn.is_active(hp):  # of alternatives, the one that was drawn
            drawn.values[hp.name] = hp.random_sample(seed_of(hp.name))
    return drawn.values
