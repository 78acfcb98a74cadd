"""The specs of searches: those of the cells that are searched, and how."""

import dataclasses
from typing import ClassVar

from tfdpnorm.experiments.cells import column_of_privacy
from tfdpnorm.experiments.knobs import defaults_of
from tfdpnorm.experiments.parts import Search
from tfdpnorm.experiments.spec import ExperimentSpec, FinetuneSpec, VariationalSpec


def _check(spec):
    if spec.plateau == "private":
        raise ValueError(
            "Expected plateau='none' or 'test' in a search, got 'private': its answers would add "
            "to what a trial costs."
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


_CLASSES = {
    ExperimentSpec: SearchSpec,
    VariationalSpec: VariationalSearchSpec,
    FinetuneSpec: FinetuneSearchSpec,
}


def search_spec(cell, **settings):
    """Returns the spec of a search over settings of a cell.

    Args:
        cell: Spec of a cell that is trained privately.
        **settings: Fields of `Search`, and others that differ from the cell's.

    Raises:
        ValueError: for a cell of another kind, or settings that do not fit together.
    """
    spec_class = _CLASSES.get(type(cell))
    if spec_class is None:
        raise ValueError(
            "Expected a cell that is trained privately, by an epsilon that holds, got "
            f"{cell.cell} of {cell.experiment}, of kind {cell.kind!r}."
        )
    fields = {field.name: getattr(cell, field.name) for field in dataclasses.fields(cell)}
    tuner = settings.get("tuner", defaults_of(spec_class)["tuner"])
    how = {
        "network": f"{cell.network}-{tuner}",
        "column": column_of_privacy(settings.get("epsilon", cell.epsilon)),
        "paper_value": None,
        "search": f"{tuner} over {settings['over']}, which the epsilon covers; how the ranges were "
        "chosen it does not",
    }
    return spec_class(**{**fields, **how, **settings})
