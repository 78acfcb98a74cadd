"""The ledger: counts what a run spends of its privacy, before it is spent."""

import dataclasses
import functools
import math
from collections.abc import Mapping

from tfdpnorm import arguments
from tfdpnorm.privacy.composition import composed_epsilon, run_epsilon
from tfdpnorm.privacy.plan import PrivacyPlan
from tfdpnorm.privacy.queries import ValidationQueries
from tfdpnorm.privacy.search import SearchPlan

# What an entry with a sentence has to say, by kind of entry.
_ASKED_FOR = {
    "void": "Say in words why no guarantee holds.",
    "exclude": "Say in words what is not covered.",
    "foreign": "Say in words which weights come from elsewhere.",
    "establish": "Say in words what is known, and how.",
    "hold": "Say in words why the whole plan is counted.",
}
_NAME_OF_QUERY = 'Name what is asked, such as "accuracy".'


class BudgetExhaustedError(RuntimeError):
    """An update was announced that the plan has no budget for."""


class PrivacyLedger:
    """What a run has spent, and what became known against its guarantee.

    The ledger is the sum of its entries, and nothing but an entry changes it. With a file
    (`create_ledger`), each entry is on the disk before the call that records it returns. Everything
    said here rests on one rule that its user keeps: call `record_updates` *before* the noise of
    these updates is drawn.

    **Every announced update is spent**, whatever became of it: one that was interrupted, and one
    that a crash has lost. So the ledger counts exactly or too much, never too little, and at most
    `plan.steps` updates are ever announced. (Validation queries that look at training examples cost
    what was planned for them, on top.)

    **A resumed run** begins at a checkpoint, with new noise and new batches. The updates after that
    checkpoint are lost and stay spent: `plan.steps` minus `updates` remain.

    Args:
        plan: The `PrivacyPlan` of the run.
        settings: What else describes the run: a dict of str, int, float, bool and None by name.
            `privacy_statement` reads "noise_generator", "noise_grid" and "sum_rounding".
        updates: Updates already made, to resume a run; between 0 and `plan.steps`.
        no_guarantee_because: Reasons found in the part of the run already done, a tuple of
            sentences.

    Raises:
        ValueError: if an argument is outside of its range.
        BudgetExhaustedError: if `updates` exceeds `plan.steps`.
    """

    def __init__(self, plan, settings=None, *, updates=0, no_guarantee_because=()):
        self._plan = arguments.instance(
            "plan", plan, PrivacyPlan, remedy="Build one with make_plan."
        )
        self._settings = _checked_settings(settings)
        self._updates = self._position = self._resumes = 0
        self._queries = ValidationQueries()
        self._sentences = {**dict.fromkeys(_ASKED_FOR, ()), "void": plan.no_guarantee_because}
        self._is_finished = False
        self._search, self._trials = None, ()

        updates = arguments.whole("updates", updates, at_least=0)
        for reason in arguments.sentences(
            "no_guarantee_because", no_guarantee_because, _ASKED_FOR["void"]
        ):
            self.void(reason)
        if updates:
            self.record_updates(updates)

    @property
    def plan(self):
        """The `PrivacyPlan` that is being followed."""
        return self._plan

    @property
    def settings(self):
        """What else describes the run, as it was given: a dict."""
        return dict(self._settings)

    @property
    def updates(self):
        """The updates that were announced, an int. All of them are spent."""
        return self._updates

    @property
    def position(self):
        """The updates that the present weights may have seen, an int: at most `updates`."""
        return self._position

    @property
    def lost_updates(self):
        """The updates that are spent but not in the present weights: `updates` - `position`."""
        return self._updates - self._position

    @property
    def resumes(self):
        """How often the run was resumed, an int."""
        return self._resumes

    @property
    def remaining_updates(self):
        """Updates that training may still make: those of the plan that were not announced yet."""
        return 0 if self._is_finished else self._plan.steps - self._updates

    @property
    def planned_epsilon(self):
        """The epsilon that the run may reach: that of the plan, by the plan's accountant."""
        if not self.guarantee_holds:
            return math.inf
        return self._formula(self._plan, whole_plan=True)

    @property
    def no_guarantee_because(self):
        """The plan's reasons why no guarantee holds, then those found at run time: a tuple."""
        return self._sentences["void"]

    @property
    def guarantee_holds(self):
        """Whether nothing is known that would void the guarantee."""
        return not self.no_guarantee_because

    @property
    def excluded(self):
        """Sentences on what the guarantee does not cover in this run, a tuple."""
        return self._sentences["exclude"]

    @property
    def foreign(self):
        """Sentences on weights of this run that come from elsewhere, a tuple."""
        return self._sentences["foreign"]

    @property
    def is_finished(self):
        """Whether the run was ended for good by `finish`."""
        return self._is_finished

    @property
    def established(self):
        """Sentences on what the guarantee rests on and how that was established, a tuple."""
        return self._sentences["establish"]

    @property
    def held_to_plan_because(self):
        """Why epsilon is that of the whole plan, a tuple; empty if it is that of the updates."""
        return self._sentences["hold"]

    @property
    def search(self):
        """The `SearchPlan` of the search that this run is a trial of, or None."""
        return self._search

    @property
    def trials(self):
        """The numbers of the trials that were begun, a tuple, in the ledger of a search."""
        return self._trials

    @property
    def queries(self):
        """The number of noisy answers about validation examples that were asked for."""
        return self.queries_of(disjoint=True) + self.queries_of(disjoint=False)

    def queries_of(self, *, disjoint, whole_plan=False):
        """Returns how many of `queries` were recorded with this `disjoint`, a bool.

        With `whole_plan` those that were planned count, where they are more.
        """
        return self._queries.count(disjoint=disjoint, whole_plan=whole_plan)

    def record_updates(self, count=1):
        """Records `count` >= 1 updates that are about to be made, those after `position`.

        Raises:
            ValueError: if `count` is not a whole number >= 1.
            BudgetExhaustedError: if they are more than `remaining_updates`, or the run was ended;
                none is recorded.
        """
        count = arguments.whole("count", count, at_least=1)
        if self._is_finished:
            raise BudgetExhaustedError(
                f"The run was ended by finish(), after {self.updates} updates. Evaluate or save "
                "the model; a new plan on the same data adds to what this one has cost."
            )
        if count > self.remaining_updates:
            lost = f", {self.lost_updates} of them lost by crashes" if self.lost_updates else ""
            raise BudgetExhaustedError(
                f"Expected at most {self.remaining_updates} more updates, got {count}: "
                f"{self.updates} of the {self._plan.steps} planned are spent{lost}. Stop training "
                "here, or start again with a plan of more steps, whose noise is calibrated to them."
            )
        self._append({"kind": "updates", "count": count})
        self._updates += count
        self._position += count

    def finish(self):
        """Ends the run for good: no further update can be recorded. A second call has no effect."""
        if not self._is_finished:
            self._append({"kind": "finish"})
            self._is_finished = True

    def resume(self, position):
        """Records that training goes on from a checkpoint taken after `position` updates.

        It goes on with new noise and new batches: the updates after the checkpoint stay spent.

        Args:
            position: Updates that the checkpoint has seen, between 0 and `updates`.

        Raises:
            ValueError: if it is outside of its range.
        """
        position = arguments.whole("position", position, at_least=0)
        if position > self._updates:
            raise ValueError(
                f"Expected position to be at most {self._updates}, the updates announced, got "
                f"{position}. The checkpoint belongs to another ledger, or to a newer copy of this "
                "one: bring that back."
            )
        self._append({"kind": "resume", "position": position})
        self._position = position
        self._resumes += 1
        self._queries.resume(position)

    def record_query(
        self, name, *, noise_multiplier, examples, disjoint=True, queries_planned=None
    ):
        """Records a question about validation examples that is about to be answered with noise.

        The answer is a number of examples for which something holds, such as being classified
        correctly: adding or removing one changes it by at most 1.

        Args:
            name: What is asked, such as "accuracy".
            noise_multiplier: Standard deviation of the Gaussian noise on that number, in examples,
                > 0 and finite.
            examples: How many validation examples there are, >= 1; treated as public.
            disjoint: Whether none of them is a training example; a bool. Then they have an epsilon
                of their own, `validation_epsilon`, and that of the training examples remains as it
                is: to them, the answers are a function of weights that are released anyway.
                Otherwise the answer adds to `epsilon`.
            queries_planned: How often the run is going to ask, >= 1, or None; what `hold_to_plan`
                counts.

        Raises:
            ValueError: if an argument is outside of its range.
        """
        name = arguments.text("name", name, remedy=_NAME_OF_QUERY)
        noise_multiplier = arguments.positive("noise_multiplier", noise_multiplier)
        examples = arguments.whole("examples", examples, at_least=1)
        arguments.boolean("disjoint", disjoint)
        if queries_planned is not None:
            queries_planned = arguments.whole("queries_planned", queries_planned, at_least=1)
        self._append(
            {
                "kind": "query",
                "name": name,
                "noise_multiplier": noise_multiplier,
                "examples": examples,
                "disjoint": disjoint,
                "queries_planned": queries_planned,
            }
        )
        self._queries.ask(
            name,
            noise_multiplier,
            disjoint=disjoint,
            planned=queries_planned or 0,
            position=self.position,
        )

    def asked(self, name):
        """Returns how often a query of that name was recorded, an int."""
        return self._queries.asked(name)

    def record_answer(self, name, value):
        """Records the noised answer to the last query of that name; now it may be seen.

        Args:
            name: That of the query.
            value: The answer, a finite number.

        Raises:
            ValueError: if `value` is no such number, or no query of that name awaits an answer.
        """
        name = arguments.text("name", name, remedy=_NAME_OF_QUERY)
        value = arguments.finite("value", value)
        if not self._queries.awaits_answer(name):
            raise ValueError(
                f"Expected a query named {name!r} without answer, got none. Call record_query "
                "before each answer."
            )
        self._append({"kind": "answer", "name": name, "value": value})
        self._queries.keep_answer(name, value)

    def answer(self, name):
        """Returns the answer to the query of that name at the present `position`, or None.

        To use it again, instead of asking again, costs nothing.
        """
        return self._queries.answer(name, self.position)

    def record_search(self, *, expected_trials, shape, trials, score_noise_multiplier):
        """Records that this run is a trial of a search, or that the ledger is that of the search.

        From then on every epsilon is that of the whole search, however many updates this run makes.
        The same search again changes nothing.

        Args:
            expected_trials: As the others, the fields of a `SearchPlan`, as its `entry` has them.
            shape: See there.
            trials: See there.
            score_noise_multiplier: See there.

        Raises:
            ValueError: if they are no search, it is not accounted by Renyi DP, this run may cost
                more than its trials, or it is of another search already.
        """
        search = SearchPlan(
            expected_trials,
            math.inf if shape == "inf" else shape,
            tuple(map(tuple, trials)),
            score_noise_multiplier,
        )
        if self._search is not None:
            if search != self._search:
                raise ValueError(
                    f"Expected the search that the run is of, {self._search}, got {search}. "
                    "Restore its settings, or name another folder."
                )
            return
        if self._plan.accountant != "rdp":
            raise ValueError(
                f'Expected accountant="rdp" in a search, got {self._plan.accountant!r}: what a '
                "search costs is known in terms of Renyi DP. Leave the accountant out."
            )
        if not search.covers(self._plan):
            plan = self._plan
            raise ValueError(
                "Expected a run that costs at most what a trial of the search may, one of "
                f"(sampling rate, noise multiplier, updates) {search.trials}, got "
                f"{(plan.sampling_rate, plan.noise_multiplier, plan.steps)}. Name its lot among "
                "those that are searched."
            )
        self._append({"kind": "search", **search.entry()})
        self._search = search

    def record_trial(self, number):
        """Records, in the ledger of a search, that a trial is about to begin.

        A second record of the same trial has no effect.

        Raises:
            ValueError: if `number` is not a whole one >= 0, or no search was recorded.
            BudgetExhaustedError: if there are as many trials as are composed.
        """
        number = arguments.whole("number", number, at_least=0)
        if self._search is None:
            raise ValueError("Expected the ledger of a search, got that of a run.")
        if number in self._trials:
            return
        if self._search.is_composed and len(self._trials) >= self._search.expected_trials:
            raise BudgetExhaustedError(
                f"Expected at most {self._search.in_words}, got another one: the budget is spent. "
                "Release the best of those that were made."
            )
        self._append({"kind": "trial", "number": number})
        self._trials = (*self._trials, number)

    def void(self, reason):
        """Declares that no guarantee holds, for a `reason` found at run time.

        From then on `epsilon()` is infinite. The reason completes "No guarantee, because ...".
        """
        self._declare("void", "reason", reason)

    def exclude(self, sentence):
        """Adds a `sentence` on what the guarantee does not cover in this run."""
        self._declare("exclude", "sentence", sentence)

    def declare_foreign(self, sentence):
        """Adds a `sentence` on weights of this run that come from elsewhere.

        Epsilon is that of this run's updates; what such weights have seen adds to it, unknown here.
        """
        self._declare("foreign", "sentence", sentence)

    def establish(self, sentence):
        """Adds a `sentence` on what the guarantee rests on in this run, and how it is known."""
        self._declare("establish", "sentence", sentence)

    def hold_to_plan(self, reason):
        """Declares that epsilon is that of the whole plan, however early the run stops.

        For a run whose results decide when it stops: there, the epsilon of the updates made so far
        bounds nothing. The reason completes "It is that of the whole plan, because ...".
        """
        self._declare("hold", "reason", reason)

    def epsilon(self, accountant=None):
        """Returns the epsilon guaranteed to every training example.

        Args:
            accountant: "rdp" or "pld"; None for the plan's. Before the last update "pld" reports
                that of a slightly later one, never less (see `EpsilonCurve`). Of a search, both
                are by Renyi DP, the only one that knows what a choice costs.

        Returns:
            Epsilon, a float; infinite if no guarantee holds.
        """
        return self.claimed_epsilon(accountant) if self.guarantee_holds else math.inf

    def claimed_epsilon(self, accountant=None):
        """Returns what the formula says of the updates so far. **A claim, not a guarantee.**"""
        held = bool(self.held_to_plan_because)
        return self._formula(self._plan_by(accountant), whole_plan=held)

    def whole_plan_epsilon(self, accountant=None):
        """Returns what `epsilon` is after the last planned update, and from `hold_to_plan` on."""
        plan = self._plan_by(accountant)
        return self._formula(plan, whole_plan=True) if self.guarantee_holds else math.inf

    def validation_epsilon(self, accountant=None):
        """Returns the epsilon guaranteed to every validation example that is no training example.

        It counts the queries with `disjoint=True`, at the plan's delta: 0 before the first.
        Infinite if no guarantee holds.
        """
        return self._validation_epsilon(accountant, bool(self.held_to_plan_because))

    def whole_plan_validation_epsilon(self, accountant=None):
        """Returns what `validation_epsilon` is after the last query planned."""
        return self._validation_epsilon(accountant, True)

    def _validation_epsilon(self, accountant, whole_plan):
        if not self.guarantee_holds:
            return math.inf
        plan = self._plan_by(accountant)
        whole_plan = whole_plan or self._search is not None
        asked = self._queries.mechanisms(disjoint=True, whole_plan=whole_plan)
        if self._search is not None:
            return self._search.score_epsilon(plan.delta, asked)
        return composed_epsilon(asked, plan.delta, plan.accountant)

    def _append(self, entry):
        """Called before the ledger changes; a ledger with a file writes it here, or raises."""

    def _declare(self, kind, field, sentence):
        sentence = arguments.sentence(field, sentence, _ASKED_FOR[kind])
        if sentence not in self._sentences[kind]:
            self._append({"kind": kind, field: sentence})
            self._sentences[kind] = (*self._sentences[kind], sentence)

    def spent(self):
        """Returns the Gaussian mechanisms that looked at training examples so far.

        Returns:
            A tuple of (sampling rate, noise multiplier, count).
        """
        plan = self._plan
        asked = self._queries.mechanisms(disjoint=False, whole_plan=False)
        return ((plan.sampling_rate, plan.noise_multiplier, self._updates), *asked)

    def _formula(self, plan, *, whole_plan):
        asked = self._queries.mechanisms(
            disjoint=False, whole_plan=whole_plan or self._search is not None
        )
        if self._search is not None:
            return self._search.epsilon(plan.delta, self._more_than_planned(asked))
        return run_epsilon(plan, plan.steps if whole_plan else self._updates, asked)

    def _more_than_planned(self, asked):
        """What a trial costs whose queries look at training examples; else nothing."""
        plan = self._plan
        return [(plan.sampling_rate, plan.noise_multiplier, plan.steps), *asked] if asked else ()

    def _plan_by(self, accountant):
        if accountant is None or accountant == self._plan.accountant:
            return self._plan
        return _with_accountant(self._plan, accountant)


@functools.lru_cache(maxsize=16)
def _with_accountant(plan, accountant):
    return dataclasses.replace(plan, accountant=accountant)


def _checked_settings(settings):
    if settings is None:
        return {}
    if not isinstance(settings, Mapping):
        raise arguments.refusal("settings", "to be a dict", settings)
    for name in settings:
        if not isinstance(name, str):
            raise ValueError(f"Expected the names in settings to be strings, got {name!r}.")
    return {name: arguments.scalar(f"settings[{name!r}]", settings[name]) for name in settings}
