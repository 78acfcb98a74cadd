"""The spec of a search: the run that is searched, and how."""

import dataclasses
from typing import ClassVar

from tfdpnorm import arguments
from tfdpnorm.choices import SEARCH_DISTRIBUTIONS
from trainers.cells import column_of_privacy, in_precision
from trainers.specs.options import Spec, option, options, when
from trainers.specs.training import TrainingSpec

# Who chooses the settings of trials, by the kind of the run: the first by default.
_TUNERS = {"private": ("private_random", "bayesian"), "non_private": ("random", "bayesian")}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchSpec(Spec):
    """A search for settings of a run: the run with the settings that are not searched, and how.

    The epsilon of a private run is the budget of all trials together.
    """

    kind: ClassVar[str] = "search"

    run: TrainingSpec = option(help="The run, `PrivateSpec` or `NonPrivateSpec`.", flag=False)
    tuner: str = option(
        "private_random",
        "How trials get their settings. private_random: at random, for a secret random number of "
        "trials, of which the best is released; bayesian: by the scores so far, with all trials "
        "composed; random: of cells without privacy.",
        choices=("private_random", "random", "bayesian"),
    )
    over: str = option(
        help="Searched settings: names such as learning_rate,norm, with or without values: "
        "learning_rate=0.1:0.3:1,l2_norm_clip.",
    )
    expected_trials: float = option(
        8.0, "Number of trials; for private_random, the expected number.", check=arguments.positive
    )
    score_examples: int = option(
        500,
        "Training examples held out to score the trials; noise protects them.",
        at_least=2,
    )
    recorded_trials: str = option(
        "winner",
        "Whether the record holds only the selected trial, or all trials, which is NOT FOR "
        "RELEASE if the data are private.",
        choices=("winner", "all"),
        measured=False,
    )
    distribution: str = option(
        "poisson",
        "Distribution of the number of trials.",
        choices=tuple(SEARCH_DISTRIBUTIONS),
        only_if=when("tuner", "private_random"),
    )

    def __post_init__(self):
        super().__post_init__()
        if self.run.kind == "private":
            _check_searched(self.run)
        arguments.choice(f"tuner of a {self.run.kind} run", self.tuner, _TUNERS[self.run.kind])

    # What sweeps, tables and records ask of every spec.
    experiment = property(lambda self: self.run.experiment)
    network = property(lambda self: self.run.network)
    cell = property(lambda self: self.run.cell)
    seed = property(lambda self: self.run.seed)

    @property
    def settings(self):
        """All settings, of the run and of the search, a flat dict, as records have them."""
        own = super().settings
        return {**own.pop("run").settings, **own}

    def replaced(self, **changes):
        """Returns a spec in which some fields differ, of the search or of its run."""
        own = {name: changes.pop(name) for name in options(self) if name in changes}
        return dataclasses.replace(self, **{"run": self.run.replaced(**changes), **own})


def _check_searched(run):
    if run.variational.calibrated_by is not None or run.variational.reading != "sound":
        raise ValueError(
            "Expected a cell that is trained with a valid epsilon, or without privacy, got "
            f"{run.cell} of {run.experiment}."
        )
    if run.finetuning.is_solved:
        raise ValueError(
            "head='least_squares' is not supported in a search: none of its settings is worth a "
            "second release. Use the defaults."
        )
    if run.epsilon is None or run.is_unclipped:
        raise ValueError(
            f"Expected a finite epsilon for a search, got {run.epsilon!r}. It is the budget "
            "of all trials together."
        )
    if run.accountant != "rdp":
        raise ValueError(f'Expected accountant="rdp" in a search, got {run.accountant!r}.')
    if run.most_per_person is not None:
        raise ValueError(
            f"Expected no most_per_person in a search, got {run.most_per_person}: the noise of "
            "scores hides one image, not all images of a person."
        )
    if run.plateau == "private":
        raise ValueError(
            "Expected plateau='none', 'public' or 'test' in a search, got 'private': its answers "
            "would add to the cost of a trial."
        )


def search_spec(run, **settings):
    """Returns the spec of a search over settings of a run, a `PrivateSpec` or `NonPrivateSpec`.

    The settings are fields of `SearchSpec`, and those of the run that differ.
    """
    is_private = run.kind == "private"
    own = {n: settings.pop(n) for n in options(SearchSpec) if n in settings}
    unknown = [name for name in settings if name not in options(run)]
    if not is_private and "distribution" in own:
        unknown.append("distribution")
    if unknown:
        raise ValueError(
            f"Expected settings of a search over a cell of kind {run.kind!r}, got "
            f"{', '.join(unknown)}. Leave them out."
        )
    own.setdefault("tuner", _TUNERS[run.kind][0])
    column, covered = run.column, "on examples left out, for nothing: no epsilon holds"
    if is_private:
        column = column_of_privacy(settings.get("epsilon", run.epsilon))
        covered = "which the epsilon covers; how the ranges were chosen it does not"
    how = {
        "network": f"{run.network}-{own['tuner']}",
        "column": column,
        "paper_value": None,
        "search": f"{own['tuner']} over {own['over']}, {covered}",
    }
    run = in_precision(run, settings.pop("precision", None))
    return SearchSpec(run=run.replaced(**{**how, **settings}), **own)
