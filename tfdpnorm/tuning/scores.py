"""The score of a trial: its accuracy on validation examples, noised if these are private."""

import numpy as np
import tensorflow as tf

from tfdpnorm.data import arrays
from tfdpnorm.training import PrivateValidation
from tfdpnorm.training.callbacks.judging import class_numbers, right_class
from tfdpnorm.training.rows_of_run import check_no_training_rows

NAME = "private_val_score"


class PublicScore:
    """The accuracy on examples that are nobody's secret.

    Args:
        x: Inputs [N, ...], or a structure of them.
        y: Class numbers [N], or one-hot rows.
        from_logits: As in `PrivateValidation`.
    """

    def __init__(self, x, y, from_logits=None):
        self._x = arrays.map_leaves(arrays.numeric_array, x, "x")
        self._y = class_numbers(arrays.numeric_array(y, "y"))
        self._from_logits = from_logits

    def check_training_data(self, x):
        """Raises ValueError if training rows [N, ...] are among these: they are not public then."""
        trained = arrays.map_leaves(arrays.numeric_array, x, "x")
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
        A private score is the noised number of right answers: one Gaussian mechanism, charged to
        the validation examples in the ledger of the trial.
    """
    noise = search.score_noise_multiplier
    if noise is None:
        return PublicScore(x, y, from_logits)
    return PrivateValidation(
        x, y, noise_multiplier=noise, queries=1, from_logits=from_logits, name=NAME
    )
