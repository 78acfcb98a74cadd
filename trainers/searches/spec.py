"""The specs of searches: those of the cells that are searched, and how."""

import dataclasses
from typing import ClassVar

from tfdpnorm.choices import TUNERS
from trainers.cells import column_of_privacy
from trainers.knobs import again, defaults_of
from trainers.parts import Search, Trials
from trainers.spec import (
    ExperimentSpec,
    FinetuneSpec,
    NonPrivateSpec,
    VariationalSpec,
    WeightNoiseSpec,
)


def _check(spec):
    if spec.plateau == "private":
        raise ValueError(
            "Expected plateau='none', 'public' or 'test' in a search, got 'private': its answers "
            "would add to what a trial costs."
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchSpec(Search, ExperimentSpec):
    """A search over settings of an `ExperimentSpec`."""

    kind: ClassVar[str] = "search"

    def __post_init__(self):
        super().__post_init__()
        _check(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class VariationalSearchSpec(Search, VariationalSpec):
    """A search over settings of a `VariationalSpec`."""

    kind: ClassVar[str] = "variational_search"

    def __post_init__(self):
        super().__post_init__()
        _check(self)
        if self.calibrated_by is not None:
            raise ValueError(
                f"Expected an epsilon that holds in a search, got one of {self.calibrated_by!r}."
            )


# `Search` comes last: it has fields of a network, such as model, that `FinetuneSpec` has otherwise.
@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneSearchSpec(FinetuneSpec, Search):
    """A search over settings of a `FinetuneSpec`."""

    kind: ClassVar[str] = "finetune_search"

    def __post_init__(self):
        super().__post_init__()
        _check(self)


def _plain_tuner():
    return again(
        Trials,
        "tuner",
        "random",
        help="How trials get their settings: Keras Tuner's own searches.",
        choices=tuple(name for name in TUNERS if name != "private_random"),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class NonPrivateSearchSpec(Trials, NonPrivateSpec):
    """A search over settings of a `NonPrivateSpec`, which has no budget to pay from."""

    kind: ClassVar[str] = "non_private_search"

    tuner: str = _plain_tuner()


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightNoiseSearchSpec(Trials, WeightNoiseSpec):
    """A search over settings of a `WeightNoiseSpec`, which has no budget to pay from."""

    kind: ClassVar[str] = "weight_noise_search"

    tuner: str = _plain_tuner()


_CLASSES = {
    NonPrivateSpec: NonPrivateSearchSpec,
    WeightNoiseSpec: WeightNoiseSearchSpec,
    ExperimentSpec: SearchSpec,
    VariationalSpec: VariationalSearchSpec,
    FinetuneSpec: FinetuneSearchSpec,
}


def search_spec(cell, **settings):
    """Returns the spec of a search over settings of a cell.

    Args:
        cell: Spec of a cell that is trained privately, or without privacy by Keras' ordinary step.
        **settings: Fields of `Search` (or `Trials`), and others that differ from the cell's.

    Raises:
        ValueError: for a cell of another kind, or settings that do not fit together.
    """
    spec_class = _CLASSES.get(type(cell))
    if spec_class is None:
        raise ValueError(
            "Expected a cell that is trained by an epsilon that holds, or without privacy, got "
            f"{cell.cell} of {cell.experiment}, of kind {cell.kind!r}."
        )
    known = {field.name for field in dataclasses.fields(spec_class)}
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise ValueError(
            f"Expected settings of a search over a cell of kind {cell.kind!r}, got "
            f"{', '.join(unknown)}. Leave them out."
        )
    fields = {field.name: getattr(cell, field.name) for field in dataclasses.fields(cell)}
    tuner = settings.get("tuner", defaults_of(spec_class)["tuner"])
    column, covered = cell.column, "on examples left out, for nothing: no epsilon holds"
    if issubclass(spec_class, Search):
        column = column_of_privacy(settings.get("epsilon", cell.epsilon))
        covered = "which the epsilon covers; how the ranges were chosen it does not"
    how = {
        "network": f"{cell.network}-{tuner}",
        "column": column,
        "paper_value": None,
        "search": f"{tuner} over {settings['over']}, {covered}",
    }
    precision = settings.get("precision", cell.precision)
    if precision != cell.precision:  # What the cell says of its own would be false.
        other = f"precision {precision} in place of the cell's {cell.precision}"
        how["reduced"] = "; ".join(filter(None, [cell.reduced, other]))
    return spec_class(**{**fields, **how, **settings})
