"""Several rows of a person: the runs of `trainers.per_person`, without loading TensorFlow.

How the settings were found is in results/SEARCH.md, "Several rows of a person".
"""

import dataclasses
import itertools

MOST_ROWS = 10
DELTA = 1e-5
EPSILONS = (1.0, 3.0, 8.0)
KINDS = {
    "mixed": "a person's rows are of any class",
    "alike": "a person's rows are of one class",
}


@dataclasses.dataclass(frozen=True)
class Way:
    """A way to train on several rows of a person.

    Attributes:
        unit: What is sampled and clipped, "person" or "row".
        most: Rows of a person: that an update reads, or, of rows, that are kept at all.
        is_for_row: Whether epsilon is that of a row, as if no person had several.
    """

    unit: str
    most: int
    is_for_row: bool = False

    @property
    def name(self):
        """In words."""
        rows = f"{self.most} row{'s' * (self.most > 1)}"
        if self.is_for_row:
            return f"per row, up to {rows} of a person, epsilon of a row"
        if self.unit == "person":
            return f"per person, {rows} of each in an update"
        return f"per row, up to {rows} of a person"


_MOSTS = (MOST_ROWS, 3, 1)
WAYS = (
    *(Way("person", most) for most in _MOSTS),
    *(Way("row", most) for most in _MOSTS),
    Way("row", MOST_ROWS, is_for_row=True),
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of a run; layers of the network are normalised per example."""

    model: str
    model_options: dict
    epochs: float  # q T
    sampling_rate: float  # q, of persons or rows
    learning_rate: float  # at the start; a cosine takes it to 0
    l2_norm_clip: float = 0.1

    @property
    def steps(self):
        """T."""
        return round(self.epochs / self.sampling_rate)


NETWORKS = {
    "digits": dict(model="mlp", model_options={"hidden_units": [32]}, epochs=50),
    "mnist": dict(model="mlp", model_options={"hidden_units": [64]}, epochs=10),
}
ROWS = {"mnist": 12_000}  # of the training set, from the start; of those not named, all
# By data set and way: for each of `EPSILONS`, the sampling rate and the learning rate.
_DIGITS = {
    ("person", 10): ((0.5, 0.2), (0.1, 0.2), (0.5, 2.0)),
    ("person", 3): ((0.5, 0.2), (0.1, 0.2), (0.5, 0.7)),
    ("person", 1): ((0.5, 0.7), (0.5, 0.7), (0.5, 2.0)),
    ("row", 10): ((0.5, 0.2), (0.5, 0.7), (0.1, 0.2)),
    ("row", 3): ((0.5, 0.2), (0.1, 0.2), (0.5, 0.7)),
    ("row", 1): ((0.5, 0.7), (0.5, 0.7), (0.5, 2.0)),
    ("row", 10, True): ((0.5, 2.0), (0.1, 0.7), (0.1, 0.7)),
}
CHOSEN = {
    "digits": {Way(*way): settings for way, settings in _DIGITS.items()},
    "mnist": {way: ((0.1, 1.5),) * 3 for way in WAYS}
    | {Way("row", MOST_ROWS): ((0.1, 0.5), (0.1, 1.5), (0.1, 1.5))},
}


@dataclasses.dataclass(frozen=True)
class PersonsRun:
    """One training; the seed is that of persons, kept rows and initial weights.

    `kind`, of persons, is one of `KINDS`, `way` one of `WAYS`.
    """

    dataset: str
    kind: str
    way: Way
    epsilon: float
    seed: int

    @property
    def cell(self):
        """As records name it, with the seed apart."""
        of = "-row" if self.way.is_for_row else ""
        way = f"{self.way.unit}{self.way.most}{of}"
        return f"{self.dataset}-{self.kind}-{way}/eps={self.epsilon:g}"

    @property
    def settings(self):
        """Its `Settings`."""
        rate, learning_rate = CHOSEN[self.dataset][self.way][EPSILONS.index(self.epsilon)]
        return Settings(**NETWORKS[self.dataset], sampling_rate=rate, learning_rate=learning_rate)


def runs(datasets, epsilons, seeds):
    """Returns all `PersonsRun`s, seed by seed."""
    each = itertools.product(seeds, datasets, KINDS, WAYS, epsilons)
    return [PersonsRun(data, kind, way, eps, seed) for seed, data, kind, way, eps in each]
