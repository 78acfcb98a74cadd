"""The state that a ledger's entries result in, frozen, and the one function that changes it.

**Every announced update is spent**, whatever became of it: one that was interrupted, and one that a
crash has lost. So a state counts exactly or too much, never too little, and at most `plan.steps`
updates are ever announced. (Validation queries that look at training examples cost what was planned
for them, on top.)
"""

from __future__ import annotations

import dataclasses

from tfdpnorm import arguments
from tfdpnorm.errors import PrivacyError
from tfdpnorm.privacy import entries
from tfdpnorm.privacy.accountants import accountant_of
from tfdpnorm.privacy.caveats import KINDS, Caveat, caveat
from tfdpnorm.privacy.mechanisms import Mechanism
from tfdpnorm.privacy.plan import PrivacyPlan
from tfdpnorm.privacy.search import SearchPlan


class BudgetExhaustedError(PrivacyError):
    """An update was announced that the plan has no budget for."""


_TRAINED_WITH_PRIVATE_DATA = (
    "private data trained the initial weights, as the data holder declared, and this run does not "
    "count what these reveal. If that training was differentially private, its epsilon adds to the "
    "claimed one"
)
_TRAINED_WITHOUT_A_GUARANTEE = (
    "the run {run} trained its weights before, without a guarantee, on data that may be the same. "
    "Only for weights that this run began with, initial_weights_used_private_data=False declares "
    "that the data were others"
)
_OF_INITIAL_WEIGHTS = ("trained_before", "loaded_before_built")  # codes that a declaration answers
_LATER = "; later: "  # between what was said of a search at different times


@dataclasses.dataclass(frozen=True)
class LedgerState:
    """The budget that a run has spent, and its caveats; `apply` makes the next state.

    Attributes:
        plan: The `PrivacyPlan` that is being followed.
        updates: The updates that were announced. All of them are spent.
        position: The updates that the present weights may have seen: at most `updates`.
        resumes: How often the run was resumed.
        is_finished: Whether the run was ended for good.
        search: The `SearchPlan` of the search that this run is a trial of, or None.
        trials: The numbers of the trials that were begun, in the ledger of a search.
        declaration: The `Declaration`s in one: who is responsible according to the last one, and
            all that was said of the settings.
        caveats: Tuple of `Caveat`, those of the plan first.
        asked: How often queries were asked, and planned: dict of pairs by (name, noise multiplier,
            disjoint).
        unanswered: Dict of the position at which a query waits for its answer, by name.
        answers: Dict of answers by (name, position).
    """

    plan: PrivacyPlan
    updates: int = 0
    position: int = 0
    resumes: int = 0
    is_finished: bool = False
    search: SearchPlan | None = None
    trials: tuple = ()
    declaration: entries.Declaration = entries.Declaration()
    caveats: tuple[Caveat, ...] = ()
    asked: dict = dataclasses.field(default_factory=dict)
    unanswered: dict = dataclasses.field(default_factory=dict)
    answers: dict = dataclasses.field(default_factory=dict)

    @property
    def lost_updates(self):
        """The updates that are spent but not in the present weights: `updates` - `position`."""
        return self.updates - self.position

    @property
    def remaining_updates(self):
        """Updates that training may still make: those of the plan that were not announced yet."""
        return 0 if self.is_finished else self.plan.steps - self.updates

    @property
    def guarantee_holds(self):
        """Whether nothing is known that would invalidate the guarantee."""
        return not self.no_guarantee_because

    @property
    def no_guarantee_because(self):
        """Why no guarantee holds, a tuple of sentences: what was recorded or declared."""
        used = self.declaration.initial_weights_used_private_data
        trained = (_TRAINED_WITH_PRIVATE_DATA,) if used else ()
        if used is None or self.has_code("weights_replaced"):
            runs = [each.fields["run"] for each in self._runs if each.fields["epsilon"] is None]
            trained += tuple(_TRAINED_WITHOUT_A_GUARANTEE.format(run=run) for run in runs)
        return (*self.sentences("no_guarantee"), *trained)

    @property
    def is_held_to_plan(self):
        """Whether epsilon is that of the whole plan, however early the run stops.

        So it is where results decide when the run stops: there, the epsilon of the updates made so
        far bounds nothing.
        """
        return self.has("held_to_plan")

    def has(self, kind):
        """Whether there is a caveat of a kind."""
        return any(known.kind == kind for known in self.caveats)

    def has_code(self, code):
        """Whether there is a caveat of a code."""
        return any(known.code == code for known in self.caveats)

    @property
    def has_weights_of_unknown_runs(self):
        """Whether weights came from elsewhere, and no declaration says what trained them."""
        answered = ("private_run",)
        if self.declaration.initial_weights_used_private_data is False:
            answered += _OF_INITIAL_WEIGHTS
        return any(x.kind == "foreign_weights" and x.code not in answered for x in self.caveats)

    @property
    def has_weights_of_guaranteed_runs(self):
        """Whether another run trained the weights before, and its epsilon is known."""
        return any(known.fields["epsilon"] is not None for known in self._runs)

    @property
    def _runs(self):
        """The caveats of other runs that trained the weights before, a list."""
        return [known for known in self.caveats if known.code == "private_run"]

    @property
    def relies_on_initial_weights(self):
        """Whether only a declaration can answer for the weights that the run began with.

        Not if a caveat says that they are of unknown origin, or if one release made all weights.
        """
        return not (self.has_weights_of_unknown_runs or self.has_code("one_release"))

    def sentences(self, kind):
        """Returns the words of the caveats of a kind, a tuple."""
        arguments.choice("kind", kind, KINDS)
        return tuple(known.sentence for known in self.caveats if known.kind == kind)

    def answer(self, name):
        """Returns the answer to the query of that name at the present `position`, or None.

        To use it again, instead of asking again, costs nothing.
        """
        return self.answers.get((name, self.position))

    def times_asked(self, name):
        """Returns how often a query of that name was recorded, an int."""
        return sum(asked for (known, *_), (asked, _) in self.asked.items() if known == name)

    def queries(self, *, disjoint=None, whole_plan=False):
        """Returns how many queries were recorded, an int; arguments as of `mechanisms`."""
        asked = self.mechanisms(disjoint=disjoint, whole_plan=whole_plan)
        return sum(each.count for each in asked)

    def mechanisms(self, *, disjoint=None, whole_plan=False):
        """Returns what the queries released, for `composed_epsilon`: each looks at all examples.

        `disjoint` says about examples of which kind, None for both; `whole_plan` whether to count
        those that were planned, where they are more.
        """
        return [
            Mechanism(1.0, noise_multiplier, max(asked, planned) if whole_plan else asked)
            for (_, noise_multiplier, kind), (asked, planned) in self.asked.items()
            if disjoint in (kind, None)
        ]


def first_state(plan):
    """Returns the `LedgerState` of a run that has not begun."""
    reasons = plan.no_guarantee_because
    return LedgerState(plan, caveats=tuple(caveat("no_guarantee", sentence=r) for r in reasons))


def apply(state, entry):
    """Returns the `LedgerState` after an entry; `state` itself, if the entry changes nothing.

    Raises:
        ValueError: if the entry contradicts those before it.
        BudgetExhaustedError: if it announces what the plan has no budget for.
    """
    if type(entry) not in _RULES:
        raise ValueError(f"Expected an entry of a ledger, got {entry!r}.")
    changes = _RULES[type(entry)](state, entry)
    return dataclasses.replace(state, **changes) if changes else state


def _updates(state, entry):
    count, left = entry.count, state.remaining_updates
    if state.is_finished:
        raise BudgetExhaustedError(
            f"The run has ended after {state.updates} updates. Evaluate or save the model; the "
            "cost of a new plan on the same data adds to the epsilon of this run."
        )
    if count > left:
        lost = f", {state.lost_updates} of them lost by crashes" if state.lost_updates else ""
        raise BudgetExhaustedError(
            f"Expected at most {left} more updates, got {count}: {state.updates} of the "
            f"{state.plan.steps} planned are spent{lost}. Stop training here, or start again with "
            "a plan of more steps, for which the noise is calibrated."
        )
    return {"updates": state.updates + count, "position": state.position + count}


def _resume(state, entry):
    position = entry.position
    if position > state.updates:
        raise PrivacyError(
            f"Expected position to be at most {state.updates}, the updates announced, got "
            f"{position}. The checkpoint belongs to another ledger, or to a newer copy of this "
            "one. Restore that copy."
        )
    # The process that asked what has no answer has ended; answers about lost weights are those
    # after the position.
    answers = {key: value for key, value in state.answers.items() if key[1] <= position}
    resumes = state.resumes + 1
    return {"position": position, "resumes": resumes, "unanswered": {}, "answers": answers}


def check_queries_are_by_row(plan):
    """Rejects noisy answers in a run that protects persons, who may have many validation rows.

    Raises:
        ValueError: with the remedy.
    """
    if plan.unit != "row":
        raise PrivacyError(
            f"PrivateValidation is not supported in a run that protects a {plan.unit}: its noise "
            "protects single rows of the validation examples. Use public validation examples, "
            "validation_data=... and validation_is_public=True."
        )


def _query(state, entry):
    check_queries_are_by_row(state.plan)
    key = (entry.name, entry.noise_multiplier, entry.disjoint)
    asked, planned = state.asked.get(key, (0, 0))
    counted = (asked + 1, max(planned, entry.queries_planned or 0))
    return {
        "asked": {**state.asked, key: counted},
        "unanswered": {**state.unanswered, entry.name: state.position},
    }


def _answer(state, entry):
    if entry.name not in state.unanswered:
        raise ValueError(
            f"There is no open query named {entry.name!r}. Record a Query before each answer."
        )
    left = dict(state.unanswered)
    position = left.pop(entry.name)
    return {"unanswered": left, "answers": {**state.answers, (entry.name, position): entry.value}}


def _caveat(state, entry):
    if entry in state.caveats or entry.sentence in state.sentences(entry.kind):
        return {}
    known = state.caveats
    if "interventions" in entry.fields:  # One caveat has the count, the last one.
        known = tuple(each for each in known if each.code != entry.code)
    return {"caveats": (*known, entry)}


def _search(state, entry):
    search, plan = entry.plan, state.plan
    if state.search is not None:
        if search != state.search:
            raise PrivacyError(
                f"Expected the search that the run belongs to, {state.search}, got {search}. "
                "Restore its settings, or name another folder."
            )
        return {}
    if plan.earlier:
        raise ValueError(
            "Runs with earlier phases are not supported in a search: the cost of a selection does "
            "not compose as updates do. Search the settings of each phase separately."
        )
    if not accountant_of(plan.accountant).knows_searches:
        raise ValueError(
            f'Expected accountant="rdp" in a search, got {plan.accountant!r}: the cost of a search '
            "is computed by Renyi DP. Leave the accountant out."
        )
    if not search.covers(plan):
        raise PrivacyError(
            "Expected a run that costs at most what a trial of the search may, one of (sampling "
            f"rate, noise multiplier, updates) {search.trials}, got "
            f"{(plan.sampling_rate, plan.noise_multiplier, plan.steps)}, at most "
            f"{plan.most_per_batch} in a batch. Include its batch in the search."
        )
    return {"search": search}


def _trial(state, entry):
    if state.search is None:
        raise ValueError("Expected the ledger of a search, got that of a run.")
    if entry.number in state.trials:
        return {}
    if state.search.is_composed and len(state.trials) >= state.search.expected_trials:
        raise BudgetExhaustedError(
            f"The budget of the search is spent: at most {state.search.in_words}. Release the best "
            "of the trials that were made."
        )
    return {"trials": (*state.trials, entry.number)}


def _declaration(state, entry):
    """Adds to what was declared of settings and weights, which cannot be withdrawn."""
    before = state.declaration
    said = [*before.search.split(_LATER)] if before.search else []
    said += [entry.search] if entry.search and entry.search not in said else []
    answers = {}
    for name in entries.ANSWERS:
        given = {getattr(before, name), getattr(entry, name)} - {None}
        answers[name] = (True in given) if given else None
    declared = dataclasses.replace(entry, search=_LATER.join(said) or None, **answers)
    return {} if declared == before else {"declaration": declared}


def _finish(state, entry):
    return {} if state.is_finished else {"is_finished": True}


_RULES = {
    entries.Updates: _updates,
    entries.Resume: _resume,
    entries.Query: _query,
    entries.Answer: _answer,
    Caveat: _caveat,
    entries.Search: _search,
    entries.Trial: _trial,
    entries.Declaration: _declaration,
    entries.Finish: _finish,
}
