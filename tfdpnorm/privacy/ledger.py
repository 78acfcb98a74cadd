"""The count of what a run has spent, kept before it is spent."""

import dataclasses
import functools
import math
import numbers
from collections import Counter
from collections.abc import Mapping

from tfdpnorm import arguments
from tfdpnorm.privacy.composition import composed_epsilon, pld_curve
from tfdpnorm.privacy.plan import PrivacyPlan

_NONE = range(0)


class BudgetExhaustedError(RuntimeError):
    """An update was announced that the plan has no budget for."""


class PrivacyLedger:
    """What a run has spent, and what became known against its guarantee.

    The ledger is the sum of its entries, and nothing but an entry changes it; one with a file
    (`create_ledger`) has each entry on the disk before the call that records it returns. Two rules
    follow for its user, and all that is said here rests on them: call `record_updates` *before* the
    noisy gradients are used, and show nothing that depends on them before `record_made` has
    returned. A crash in between costs nothing, or counts too much, never too little.

    **Resumed runs.** With the secret keys of before, the updates after a checkpoint are repeated on
    the same lots with the same noise: they release what they released before, and are free. Which
    of them are is decided as follows.

    - An update that was announced, and neither recorded as made nor followed by another entry that
      relies on it, has not left the dead process: repeating it is free.
    - Every other repetition is compared by its digest, where `record_made` met the same position
      before. It is free if the digest is the same. As a digest stands for all of the run up to
      there, so are then the repetitions before it that could not be compared, because the
      announcements were cut differently. *Until then they are counted*, and remain so if the run
      dies or passes the last known digest first; `updates` may sink when they are confirmed.
    - One that differs is counted with those before it that are unconfirmed, and so is every
      further update of that run. This presumes that other sums got other noise, which is so if
      the noise is keyed by what it is added to: the same noise on two sums would be no
      protection at all.

    What is counted again was drawn from the *same lot*, so that sampling hides it only once: m
    releases of one lot are composed as one Poisson-sampled Gaussian mechanism with noise multiplier
    z / sqrt(m), which costs more than m updates on lots of their own. (They are answers of one
    interactive mechanism to adaptive queries; those compose concurrently: Lyu 2022; Vadhan &
    Zhang 2023.) With new keys lots and noise are new, and everything after the checkpoint is an
    update of its own.

    Args:
      plan: What the run is going to do.
      details: What else describes the run: a dict of str, int, float, bool and None by name.
        `privacy_statement` looks at "noise_generator", "philox" or "shake256".
      updates: Updates already made, to resume a run; between 0 and `plan.steps`.
      no_guarantee_because: Reasons found in the part of the run already done.

    Raises:
      ValueError: An argument is outside of its range.
      BudgetExhaustedError: `updates` exceeds `plan.steps`.
    """

    def __init__(
        self,
        plan: PrivacyPlan,
        details: Mapping[str, object] | None = None,
        *,
        updates: int = 0,
        no_guarantee_because: tuple[str, ...] = (),
    ):
        if not isinstance(plan, PrivacyPlan):
            raise ValueError(
                f"Expected plan to be a PrivacyPlan, got {plan!r}. Build one with make_plan."
            )
        self._plan = plan
        self._details = _checked_details(details)
        self._reasons: tuple[str, ...] = plan.no_guarantee_because
        self._excluded: tuple[str, ...] = ()
        self._held: tuple[str, ...] = ()

        self._updates = 0
        self._position = 0
        self._resumes = 0
        self._highest = 0  # Ever announced.
        # The chain is the run as it went last, through all resumptions with the same keys.
        self._chain_to = 0  # The highest position announced in it.
        self._shown_to = 0  # The highest position of it that may have left the process.
        self._digests: dict[int, int] = {}  # What was recorded as made in it, by position.
        # Of the present process, as of its last resumption:
        self._free_to = 0  # Up to here updates are repetitions,
        self._compare_to = 0  # and up to here they have to be compared to be free.
        self._same_to = 0  # Up to here they have been.
        self._announced = False  # Whether an announcement waits for its record_made.
        self._pending = _NONE  # Its positions that are to be compared.
        self._unconfirmed: list[int] = []  # Positions counted for want of a comparison.
        # Lots that were used more than once, first by position and present key, then by how often.
        self._lots_to = 0
        self._uses: dict[int, int] = {}
        self._lots_used: Counter[int] = Counter()

        self._queries: dict[tuple[str, float, bool], tuple[int, int]] = {}  # Asked, planned.
        self._asked_at: dict[str, int] = {}
        self._answers: dict[tuple[str, int], float] = {}

        updates = arguments.whole("updates", updates, at_least=0)
        for reason in arguments.reasons("no_guarantee_because", no_guarantee_because):
            self.void(reason)
        if updates:
            self.record_updates(updates)

    @property
    def plan(self) -> PrivacyPlan:
        """The plan that is being followed."""
        return self._plan

    @property
    def details(self) -> dict[str, object]:
        """What else describes the run, as it was given."""
        return dict(self._details)

    @property
    def updates(self) -> int:
        """The updates that epsilon counts: all that were ever released."""
        return self._updates

    @property
    def position(self) -> int:
        """The updates that the present weights have seen; `updates`, unless a run was resumed."""
        return self._position

    @property
    def recounted(self) -> int:
        """The part of `updates` that are repetitions, counted since nothing proves them equal."""
        return self._updates - self._highest

    @property
    def resumes(self) -> int:
        """How often the run was resumed."""
        return self._resumes

    @property
    def remaining_updates(self) -> int:
        """Updates that training may still make: free repetitions, and what the plan has left."""
        repetitions = max(0, self._free_to - self._position)
        return repetitions + max(0, self._plan.steps - self._updates)

    @property
    def no_guarantee_because(self) -> tuple[str, ...]:
        """The plan's reasons why no guarantee holds, then those found at run time."""
        return self._reasons

    @property
    def guarantee_holds(self) -> bool:
        """Whether nothing is known that would void the guarantee."""
        return not self._reasons

    @property
    def excluded(self) -> tuple[str, ...]:
        """Sentences on what the guarantee does not cover in this run."""
        return self._excluded

    @property
    def held_to_plan_because(self) -> tuple[str, ...]:
        """Why epsilon is that of the whole plan; empty if it is that of the updates made."""
        return self._held

    @property
    def queries(self) -> int:
        """The noisy answers about validation examples that were asked for."""
        return self.queries_of(disjoint=True) + self.queries_of(disjoint=False)

    def queries_of(self, *, disjoint: bool) -> int:
        """Those of `queries` that were recorded with this `disjoint`."""
        return sum(asked for key, (asked, _) in self._queries.items() if key[2] == disjoint)

    def record_updates(self, count: int = 1) -> None:
        """Records `count` >= 1 updates that are about to be made, those after `position`.

        Raises:
          ValueError: `count` is not a whole number >= 1.
          BudgetExhaustedError: They are more than `remaining_updates`; none of them is recorded.
        """
        count = arguments.whole("count", count, at_least=1)
        if count > self.remaining_updates:
            raise BudgetExhaustedError(
                f"Expected at most {self.remaining_updates} more updates, got {count}: "
                f"{self._updates} of the {self._plan.steps} planned are made. Stop training here, "
                "or start anew from a plan with more steps, whose noise is calibrated to them."
            )
        self._append({"kind": "updates", "count": count})
        self._rely_on_announced()
        first, self._position = self._position + 1, self._position + count
        self._count(range(max(first, self._free_to + 1), self._position + 1))
        self._pending = range(first, min(self._position, self._compare_to) + 1)
        self._announced = True
        self._chain_to = max(self._chain_to, self._position)
        self._highest = max(self._highest, self._position)

    def record_made(self, digest: int) -> None:
        """Records that the announced updates have been made; now they may be seen.

        Args:
          digest: A number of 64 bits, signed or not, that identifies everything that the run has
            released up to here: a chain over its updates, which a checkpoint brings back.

        Raises:
          ValueError: `digest` is no such number, or no update was announced.
        """
        digest = arguments.whole("digest", digest, at_least=-(2**63))
        if not -(2**63) <= digest < 2**64:  # Exactly: the check above is in floating point.
            raise ValueError(f"Expected digest to have 64 bits, got {digest!r}.")
        if not self._announced:
            raise ValueError(
                "Expected an announced update, got record_made without one. Call "
                "record_updates before each update."
            )
        known = self._digests.get(self._position)
        differs = known is not None and known != digest
        self._append({"kind": "differs" if differs else "made", "digest": digest})
        self._announced = False
        if known is None or differs:
            self._count_pending()
        else:
            self._confirm()
        if differs:
            self._begin_chain(at=self._position, keep=self._same_to)
        self._digests[self._position] = digest
        self._shown_to = max(self._shown_to, self._position)

    def resume(self, position: int, *, same_randomness: bool) -> None:
        """Records that training goes on from a checkpoint taken after `position` updates.

        Args:
          position: Updates that the checkpoint has seen, between 0 and the highest announced.
          same_randomness: Whether the secret keys of noise and lots are those used last, so that
            repeated updates come out as they did. Otherwise all further updates are counted.

        Raises:
          ValueError: An argument is outside of its range.
        """
        position = arguments.whole("position", position, at_least=0)
        _check_bool("same_randomness", same_randomness)
        if position > self._highest:
            raise ValueError(
                f"Expected position to be at most {self._highest}, the last update announced, "
                f"got {position}. The checkpoint belongs to another ledger, or to a newer "
                "copy of this one: bring that back."
            )
        self._append({"kind": "resume", "position": position, "same_randomness": same_randomness})
        self._resumes += 1
        self._announced, self._pending, self._unconfirmed = False, _NONE, []
        self._asked_at.clear()
        if not same_randomness:
            self._begin_chain(at=position, keep=position)
            self._lots_to = position
            self._uses.clear()
        # The checkpoint itself has left the process, whichever chain it is of.
        self._chain_to = max(self._chain_to, position)
        self._shown_to = max(self._shown_to, position)
        self._lots_to = max(self._lots_to, position)
        self._free_to, self._compare_to = self._chain_to, self._shown_to
        self._position = self._same_to = position

    def record_query(
        self,
        name: str,
        *,
        noise_multiplier: float,
        examples: int,
        disjoint: bool = True,
        queries_planned: int | None = None,
    ) -> None:
        """Records a question about validation examples that is about to be answered with noise.

        The answer is a number of examples for which something holds, such as being classified
        correctly: adding or removing one changes it by at most 1.

        Args:
          name: What is asked, such as "accuracy".
          noise_multiplier: Standard deviation of the Gaussian noise on that number, in examples,
            > 0 and finite.
          examples: How many validation examples there are, >= 1; treated as public.
          disjoint: Whether none of them is a training example. Then they have an epsilon of their
            own, `validation_epsilon`, and that of the training examples remains as it is: to them
            the answers are a function of weights that are released anyway. Otherwise the answer
            adds to `epsilon`.
          queries_planned: How often the run is going to ask; what `hold_to_plan` counts.

        Raises:
          ValueError: An argument is outside of its range.
        """
        name = arguments.reason("name", name)
        noise_multiplier = arguments.positive("noise_multiplier", noise_multiplier)
        examples = arguments.whole("examples", examples, at_least=1)
        _check_bool("disjoint", disjoint)
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
        self._rely_on_announced()
        key = (name, noise_multiplier, disjoint)
        asked, planned = self._queries.get(key, (0, 0))
        self._queries[key] = (asked + 1, max(planned, queries_planned or 0))
        self._asked_at[name] = self._position

    def asked(self, name: str) -> int:
        """How often a query of that name was recorded."""
        return sum(asked for (known, *_), (asked, _) in self._queries.items() if known == name)

    def record_answer(self, name: str, value: float) -> None:
        """Records the noised answer to the last query of that name; now it may be seen.

        Raises:
          ValueError: `value` is not finite, or nothing of that name waits for an answer.
        """
        name = arguments.reason("name", name)
        value = arguments.real("value", value)
        if math.isinf(value):
            raise ValueError(f"Expected value to be finite, got {value!r}.")
        if name not in self._asked_at:
            raise ValueError(
                f"Expected a query named {name!r} without answer, got none. Call record_query "
                "before each answer."
            )
        self._append({"kind": "answer", "name": name, "value": value})
        self._answers[name, self._asked_at.pop(name)] = value

    def answer(self, name: str) -> float | None:
        """The recorded answer to the query of that name at the present `position`, or None.

        Whoever takes it instead of asking again, after a resumption, spends nothing.
        """
        return self._answers.get((name, self._position))

    def void(self, reason: str) -> None:
        """Declares that no guarantee holds, for a `reason` found at run time.

        From then on `epsilon()` is infinite. The reason completes "No guarantee, because ...".
        """
        reason = arguments.reason("reason", reason)
        if reason not in self._reasons:
            self._append({"kind": "void", "reason": reason})
            self._reasons = (*self._reasons, reason)

    def exclude(self, sentence: str) -> None:
        """Adds a sentence on what the guarantee does not cover in this run."""
        sentence = arguments.reason("sentence", sentence)
        if sentence not in self._excluded:
            self._append({"kind": "exclude", "sentence": sentence})
            self._excluded = (*self._excluded, sentence)

    def hold_to_plan(self, reason: str) -> None:
        """Declares that epsilon is that of the whole plan, however early the run stops.

        For a time to stop that depends on results: the epsilon of the updates made so far bounds
        nothing then. The reason completes "It is that of the whole plan, because ...".
        """
        reason = arguments.reason("reason", reason)
        if reason not in self._held:
            self._append({"kind": "hold", "reason": reason})
            self._held = (*self._held, reason)

    def epsilon(self, accountant: str | None = None) -> float:
        """Epsilon guaranteed to every training example; infinite if no guarantee holds.

        Args:
          accountant: "rdp" or "pld"; None for the plan's. Before the last update "pld" reports
            that of a slightly later one, never less (see `EpsilonCurve`).
        """
        return self.claimed_epsilon(accountant) if self.guarantee_holds else math.inf

    def claimed_epsilon(self, accountant: str | None = None) -> float:
        """What the formula says of the updates so far. **A claim, not a guarantee.**"""
        return self._formula(self._plan_by(accountant), whole_plan=bool(self._held))

    def whole_plan_epsilon(self, accountant: str | None = None) -> float:
        """What `epsilon` is after the last planned update, and from `hold_to_plan` on."""
        plan = self._plan_by(accountant)
        return self._formula(plan, whole_plan=True) if self.guarantee_holds else math.inf

    def validation_epsilon(self, accountant: str | None = None) -> float:
        """Epsilon guaranteed to every validation example that is no training example.

        It counts the queries with `disjoint=True`, at the plan's delta: 0 before the first.
        Infinite if no guarantee holds.
        """
        if not self.guarantee_holds:
            return math.inf
        plan = self._plan_by(accountant)
        asked = self._asked(disjoint=True, whole_plan=bool(self._held))
        return composed_epsilon(asked, plan.delta, plan.accountant)

    def _append(self, entry: dict[str, object]) -> None:
        """Called before the ledger changes; a ledger with a file writes it here, or raises."""

    def _formula(self, plan: PrivacyPlan, *, whole_plan: bool) -> float:
        # Lots that were used m times, as m updates and as one of noise z / sqrt(m).
        repeated = [(m, lots) for m, lots in self._lots_used.items() if lots]
        # Not below 0, where checkpoints of older keys had repetitions taken for more than they are.
        once = max(0, self._updates - sum(m * lots for m, lots in repeated))
        if whole_plan:
            once += max(0, plan.steps - self._updates)
        asked = self._asked(disjoint=False, whole_plan=whole_plan)
        if not repeated and not asked:
            return plan.claimed_epsilon_after(once)
        if plan.noise_multiplier == 0 and (once or repeated):
            return math.inf
        rate, noise = plan.sampling_rate, plan.noise_multiplier
        if plan.accountant == "pld":
            once = pld_curve(rate, noise, plan.steps, plan.delta).reported_at(once)
        parts = [(rate, noise, once)]
        parts += [(rate, noise / math.sqrt(m), lots) for m, lots in sorted(repeated)]
        return composed_epsilon([*parts, *asked], plan.delta, plan.accountant)

    def _rely_on_announced(self) -> None:
        """An entry that follows an announcement may rest on its updates, made or not."""
        if self._announced:
            self._count_pending()
            self._shown_to = max(self._shown_to, self._position)

    def _count_pending(self) -> None:
        self._count(self._pending)
        self._unconfirmed += self._pending
        self._pending = _NONE

    def _confirm(self) -> None:
        """All repetitions up to here are known to be equal to what they repeat."""
        for position in self._unconfirmed:
            uses = self._uses.pop(position)
            self._lots_used[uses] -= 1
            if uses > 2:
                self._uses[position] = uses - 1
                self._lots_used[uses - 1] += 1
        self._updates -= len(self._unconfirmed)
        self._unconfirmed, self._pending = [], _NONE
        self._same_to = self._position

    def _count(self, positions: range) -> None:
        self._updates += len(positions)
        for position in range(positions.start, min(positions.stop, self._lots_to + 1)):
            uses = self._uses.get(position, 1)
            if uses > 1:
                self._lots_used[uses] -= 1
            self._uses[position] = uses + 1
            self._lots_used[uses + 1] += 1
        if positions:
            self._lots_to = max(self._lots_to, positions[-1])

    def _begin_chain(self, *, at: int, keep: int) -> None:
        """From here on nothing is a repetition of what was recorded after position `keep`."""
        self._digests = {p: digest for p, digest in self._digests.items() if p <= keep}
        self._answers = {k: value for k, value in self._answers.items() if k[1] <= keep}
        self._chain_to = self._shown_to = self._free_to = self._compare_to = at

    def _asked(self, *, disjoint: bool, whole_plan: bool) -> list[tuple[float, float, int]]:
        return [
            (1.0, noise_multiplier, max(asked, planned) if whole_plan else asked)
            for (_, noise_multiplier, is_disjoint), (asked, planned) in self._queries.items()
            if is_disjoint == disjoint
        ]

    def _plan_by(self, accountant: str | None) -> PrivacyPlan:
        if accountant is None or accountant == self._plan.accountant:
            return self._plan
        return _with_accountant(self._plan, accountant)


@functools.lru_cache(maxsize=16)
def _with_accountant(plan: PrivacyPlan, accountant: str) -> PrivacyPlan:
    return dataclasses.replace(plan, accountant=accountant)


def _check_bool(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"Expected {name} to be True or False, got {value!r}.")


def _checked_details(details: Mapping[str, object] | None) -> dict[str, object]:
    if details is not None and not isinstance(details, Mapping):
        raise ValueError(f"Expected details to be a dict, got {details!r}.")
    return {_text(name): _scalar(name, value) for name, value in (details or {}).items()}


def _text(name: object) -> str:
    if not isinstance(name, str):
        raise ValueError(f"Expected the names in details to be strings, got {name!r}.")
    return name


def _scalar(name: str, value: object) -> object:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real) and math.isfinite(value):
        return float(value)
    raise ValueError(
        f"Expected details[{name!r}] to be a string, a finite number, a bool or None, got "
        f"{value!r}. Describe it in words."
    )
