"""Searches for settings."""

import dataclasses

from tfdpnorm import arguments
from tfdpnorm.choices import SEARCH_DISTRIBUTIONS as DISTRIBUTIONS
from tfdpnorm.choices import TUNERS
from trainers.knobs import Condition, Part, knob
from trainers.parts.privacy import Noise

_CHOOSES_NUMBER = Condition(
    "--tuner=private_random", lambda settings: settings["tuner"] == "private_random"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trials(Part):
    """What a search tries, and how trials get their settings."""

    tuner: str = knob(
        "private_random",
        "How trials get their settings. private_random: at random, so many trials as is drawn in "
        "secret, of which the best is released; random, bayesian, hyperband: Keras Tuner's, with "
        "all trials composed.",
        choices=TUNERS,
    )
    over: str = knob(
        help="What is searched: names such as learning_rate,norm, with values or without: "
        "learning_rate=0.1:0.3:1,l2_norm_clip.",
    )
    expected_trials: float = knob(
        8.0, "Number of trials; of private_random the expected one.", check=arguments.positive
    )
    score_examples: int = knob(
        500,
        "Training examples left out to score the trials on, which noise protects.",
        at_least=2,
    )
    recorded_trials: str = knob(
        "winner",
        "Whether the record has the winner alone, or all trials, which is NOT FOR RELEASE where "
        "the data are private.",
        choices=("winner", "all"),
        measured=False,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Search(Noise, Trials):
    """A search for settings, whose budget is the epsilon of the spec: that of all trials."""

    distribution: str = knob(
        "poisson",
        "Of the number of trials.",
        choices=tuple(DISTRIBUTIONS),
        only_if=_CHOOSES_NUMBER,
    )

    def __post_init__(self):
        super().__post_init__()
        if self.epsilon is None or self.is_unclipped:
            raise ValueError(
                f"Expected a finite epsilon for a search, got {self.epsilon!r}. It is the budget "
                "of all trials together."
            )
        if self.accountant != "rdp":
            raise ValueError(f'Expected accountant="rdp" in a search, got {self.accountant!r}.')
