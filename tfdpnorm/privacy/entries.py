"""The entries of a ledger: frozen values, checked where they are made, that know their JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tfdpnorm import arguments
from tfdpnorm.privacy.caveats import Caveat
from tfdpnorm.privacy.search import SearchPlan

_NAME_OF_QUERY = 'Name what is asked, such as "accuracy".'


class _Checked:
    """A dataclass whose fields are replaced by the results of their checks."""

    def __post_init__(self):
        for name, value in self._checked().items():
            object.__setattr__(self, name, value)


@dataclasses.dataclass(frozen=True)
class Updates(_Checked):
    """`count` >= 1 updates that are about to be made, those after the present position."""

    count: int = 1

    def _checked(self):
        return {"count": arguments.whole("count", self.count, at_least=1)}


@dataclasses.dataclass(frozen=True)
class Resume(_Checked):
    """Training continues from a checkpoint taken after `position` updates.

    It continues with new noise and new batches: the updates after the checkpoint stay spent.
    """

    position: int

    def _checked(self):
        return {"position": arguments.whole("position", self.position, at_least=0)}


@dataclasses.dataclass(frozen=True)
class Query(_Checked):
    """A question about validation examples that is about to be answered with noise.

    The answer is a number of examples for which something holds, such as being classified
    correctly: adding or removing one changes it by at most 1.

    Attributes:
        name: What is asked, such as "accuracy".
        noise_multiplier: Standard deviation of the Gaussian noise on that number, in examples, > 0
            and finite.
        examples: How many validation examples there are, >= 1; treated as public.
        disjoint: Whether none of them is a training example. Then they have an epsilon of their
            own, and that of the training examples remains as it is: to them, the answers are a
            function of weights that are released anyway. Otherwise the answer adds to it.
        queries_planned: How often the run is going to ask, >= 1, or None.
    """

    name: str
    noise_multiplier: float
    examples: int
    disjoint: bool = True
    queries_planned: int | None = None

    def _checked(self):
        arguments.boolean("disjoint", self.disjoint)
        planned = self.queries_planned
        if planned is not None:
            planned = arguments.whole("queries_planned", planned, at_least=1)
        return {
            "name": arguments.text("name", self.name, remedy=_NAME_OF_QUERY),
            "noise_multiplier": arguments.positive("noise_multiplier", self.noise_multiplier),
            "examples": arguments.whole("examples", self.examples, at_least=1),
            "queries_planned": planned,
        }


@dataclasses.dataclass(frozen=True)
class Answer(_Checked):
    """The noisy answer, a finite number, to the last query of that name; now it may be seen."""

    name: str
    value: float

    def _checked(self):
        name = arguments.text("name", self.name, remedy=_NAME_OF_QUERY)
        return {"name": name, "value": arguments.finite("value", self.value)}


@dataclasses.dataclass(frozen=True)
class Search(_Checked):
    """This run is a trial of a search, or the ledger is that of the search.

    From then on every epsilon is that of the whole search, however many updates this run makes.

    Attributes:
        plan: The `SearchPlan`.
    """

    plan: SearchPlan

    def _checked(self):
        plan = self.plan
        plan = SearchPlan.of_entry(plan) if isinstance(plan, Mapping) else plan
        return {"plan": arguments.instance("plan", plan, SearchPlan)}


@dataclasses.dataclass(frozen=True)
class Trial(_Checked):
    """In the ledger of a search: the trial `number` >= 0 is about to begin."""

    number: int

    def _checked(self):
        return {"number": arguments.whole("number", self.number, at_least=0)}


ANSWERS = ("settings_used_private_data", "initial_weights_used_private_data")
"""The fields of a declaration that answer a question by yes or no."""


@dataclasses.dataclass(frozen=True)
class Declaration(_Checked):
    """Declarations of the data holder about a run, for its statement. None of them is checked.

    Attributes:
        responsible: The person who answers for the run, such as "Jane Doe, data steward"; None for
            no one named.
        contact: How to reach them; None likewise.
        search: How the settings of the run were found, in words, such as "the best of 20 runs on
            the same data"; None if that is not said. No epsilon covers it.
        settings_used_private_data: Whether anything about the private data decided a setting, other
            than in a search that the ledger counts; None if that is not said. `search` alone does
            not answer it.
        initial_weights_used_private_data: Whether anything private trained the weights that the
            run began with, or gave a `Normalization` its constants, other than earlier phases and
            private runs that the statement names with their epsilon; None if that is not said. True
            voids the guarantee. False for weights drawn at random, or of a network that was trained
            on ImageNet, if that is public to you.

    Raises:
        ValueError: for a text that is not a string, or blank, or an answer that is no boolean.
    """

    responsible: str | None = None
    contact: str | None = None
    search: str | None = None
    settings_used_private_data: bool | None = None
    initial_weights_used_private_data: bool | None = None

    def _checked(self):
        given = {name: value for name, value in vars(self).items() if value is not None}
        for name in ANSWERS:
            used = given.pop(name, False)
            if not isinstance(used, bool):
                raise arguments.refusal(name, "to be True, False or None", used)
        remedy = "Write it in words, in one line, or leave it out."
        for name, value in given.items():
            given[name] = " ".join(arguments.text(name, value, remedy=remedy).split())
        return given


@dataclasses.dataclass(frozen=True)
class Finish:
    """The run is ended for good: no further update can be recorded."""


ENTRIES = {
    "updates": Updates,
    "resume": Resume,
    "query": Query,
    "answer": Answer,
    "caveat": Caveat,
    "search": Search,
    "trial": Trial,
    "declaration": Declaration,
    "finish": Finish,
}
"""The classes of entries, by the name that their JSON has."""

_NAMES = {cls: name for name, cls in ENTRIES.items()}


def to_json(entry):
    """Returns an entry as a dict that JSON can hold, with its "kind"."""
    fields = {n: v.entry() if isinstance(v, SearchPlan) else v for n, v in vars(entry).items()}
    for name in ANSWERS:
        if fields.get(name, True) is None:
            del fields[name]  # Ledgers from before there was the question.
    return {"kind": _NAMES[type(entry)], **fields}


def from_json(fields):
    """Returns the entry of a dict that `to_json` gave.

    Raises:
        ValueError, TypeError or OverflowError: if it is not what `to_json` gives.
    """
    named = dict(fields)
    cls = ENTRIES.get(str(named.pop("kind", None)))
    if cls is None:
        raise ValueError("an unknown kind of entry")
    entry = cls(**named)
    if to_json(entry) != fields:
        raise ValueError(f"{fields} where {to_json(entry)} would be written")
    return entry
