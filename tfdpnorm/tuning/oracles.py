"""Which settings a trial gets: drawn at random, with replacement, whatever the scores are."""

import keras_tuner

SCORE = "score"


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

    def populate_space(self, trial_id):
        """As in Keras Tuner."""
        if len(self.trials) >= self.folder.number_of_trials():
            return {"status": "STOPPED"}
        drawn = keras_tuner.HyperParameters()
        for hp in self.get_space().space:
            drawn.merge([hp])
            if drawn.is_active(hp):  # of alternatives, the one that was drawn
                seed = self.folder.seed_of(trial_id, hp.name)
                drawn.values[hp.name] = hp.random_sample(seed)
        return {"status": "RUNNING", "values": drawn.values}
