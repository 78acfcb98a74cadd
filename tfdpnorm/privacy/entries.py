"""The entries of a ledger: frozen values, checked where they are made, that know their JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tfdpnorm import arguments
from tfdpnorm.checked import Checked, field
from tfdpnorm.privacy.caveats import Caveat
from tfdpnorm.privacy.search import SearchPlan


def _name(name, value):
    return arguments.text(name, value, remedy='Name what is asked, such as "accuracy".')


def _one_line(name, value):
    remedy = "Write it in words, in one line, or leave it out."
    return " ".join(arguments.text(name, value, remedy=remedy).split())


def _answer(name, value):
    if not isinstance(value, bool):
        raise arguments.refusal(name, "to be True, False or None", value)
    return value


def _search_plan(name, value):
    value = SearchPlan.of_entry(value) if isinstance(value, Mapping) else value
    return arguments.instance(name, value, SearchPlan)


@dataclasses.dataclass(frozen=True)
class Updates(Checked):
    """`count` >= 1 updates that are about to be made, those after the present position."""

    count: int = field(arguments.whole, 1, at_least=1)


@dataclasses.dataclass(frozen=True)
class Resume(Checked):
    """Training continues from a checkpoint taken after `position` updates.

    It continues with new noise and new batches: the updates after the checkpoint stay spent.
    """

    position: int = field(arguments.whole, at_least=0)


@dataclasses.dataclass(frozen=True)
class Query(Checked):
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

    name: str = field(_name)
    noise_multiplier: float = field(arguments.positive)
    examples: int = field(arguments.whole, at_least=1)
    disjoint: bool = field(arguments.boolean, True)
    queries_planned: int | None = field(arguments.whole, None, at_least=1)


@dataclasses.dataclass(frozen=True)
class Answer(Checked):
    """The noisy answer, a finite number, to the last query of that name; now it may be seen."""

    name: str = field(_name)
    value: float = field(arguments.finite)


@dataclasses.dataclass(frozen=True)
class Search(Checked):
    """This run is a trial of a search, or the ledger is that of the search.

    From then on every epsilon is that of the whole search, however many updates this run makes.

    Attributes:
        plan: The `SearchPlan`.
    """

    plan: SearchPlan = field(_search_plan)


@dataclasses.dataclass(frozen=True)
class Trial(Checked):
    """In the ledger of a search: the trial `number` >= 0 is about to begin."""

    number: int = field(arguments.whole, at_least=0)


ANSWERS = ("settings_used_private_data", "initial_weights_used_private_data")
"""The fields of a declaration that answer a question by yes or no."""


@dataclasses.dataclass(frozen=True)
class Declaration(Checked):
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

    responsible: str | None = field(_one_line, None)
    contact: str | None = field(_one_line, None)
    search: str | None = field(_one_line, None)
    settings_used_private_data: bool | None = field(_answer, None)
    initial_weights_used_private_data: bool | None = field(_answer, None)


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
