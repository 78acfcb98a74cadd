"""Searches that choose settings by scores: all of their trials count."""

from tfdpnorm.tuning.oracles import SCORE
from tfdpnorm.tuning.private_tuner import PrivateTuner


class ComposedSearch(PrivateTuner):
    """A search by any oracle of Keras Tuner, whose trials all count, one on top of the other.

    For those that choose settings by the scores so far, such as Bayesian optimisation and
    Hyperband. All trials, their weights and their noised scores may be released. This is
    expensive: a trial's noise grows with about the square root of their number.

        oracle = keras_tuner.oracles.BayesianOptimizationOracle(
            objective=keras_tuner.Objective("score", "max"), max_trials=8
        )
        tuner = ComposedSearch(build, oracle=oracle, trials=8, budget=..., settings=...)

    Args:
        hypermodel: As in `PrivateRandomSearch`.
        oracle: `keras_tuner.Oracle` with the objective "score", to be maximised.
        budget: `PrivacyBudget` of all trials together.
        trials: The most trials that there will be.
        settings: As in `PrivateRandomSearch`.
        lots: See there.
        validation_is_public: See there.
        directory: As in Keras Tuner.
        project_name: As in Keras Tuner.
    """

    def __init__(
        self,
        hypermodel,
        *,
        oracle,
        budget,
        trials,
        settings=None,
        lots=None,
        validation_is_public=False,
        directory=None,
        project_name="composed_search",
    ):
        if getattr(oracle.objective, "name", None) != SCORE or oracle.objective.direction != "max":
            raise ValueError(
                f'Expected an oracle with objective=keras_tuner.Objective("{SCORE}", "max"), got '
                f"{oracle.objective}."
            )
        super().__init__(
            hypermodel,
            oracle=oracle,
            budget=budget,
            expected_trials=trials,
            shape=None,
            settings=settings,
            lots=lots,
            validation_is_public=validation_is_public,
            directory=directory,
            project_name=project_name,
        )
        oracle.max_trials = min(trials, oracle.max_trials or trials)
