"""The ledger: counts what a run spends of its privacy, before it is spent."""

from __future__ import annotations

import dataclasses
import math
import os
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfdpnorm import arguments
from tfdpnorm.errors import PrivacyError
from tfdpnorm.privacy import added_delta, entries, epsilons, journal
from tfdpnorm.privacy.phases import Phase
from tfdpnorm.privacy.plan import PrivacyPlan
from tfdpnorm.privacy.rounding import ceil_text, delta_text
from tfdpnorm.privacy.software import software
from tfdpnorm.privacy.state import apply, first_state

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from tfdpnorm.privacy.caveats import Caveat
    from tfdpnorm.privacy.journal import Journal
    from tfdpnorm.privacy.state import LedgerState


_FORMAT, _VERSION = "tfdpnorm-ledger", 4
_OF_A_RUNNING_PROCESS = (entries.Updates, entries.Query, entries.Answer)


class PrivacyLedger:
    """The record of the budget that a run has spent, and of caveats to its guarantee.

    The ledger is the sum of its entries, and nothing but an entry changes it. With a file
    (`create_ledger`), each entry is on the disk before the call that records it returns. Everything
    said here rests on one rule that its user keeps: record `Updates` *before* the noise of these
    updates is drawn.

    Args:
        plan: The `PrivacyPlan` of the run.
        settings: What else describes the run: a dict of str, int, float, bool and None by name.
            `privacy_statement` reads "noise_generator", "noise_grid" and "sum_rounding".

    Attributes:
        run_id: Twelve hexadecimal digits that no other run has, a string.
        software: Dict of the versions of packages that the run was begun with, by name.
        file: `tfdpnorm.privacy.journal.Journal`, or None for a ledger in memory.

    Raises:
        ValueError: if an argument is outside of its range.
    """

    def __init__(self, plan: PrivacyPlan, settings: Mapping[str, Any] | None = None) -> None:
        plan = arguments.instance("plan", plan, PrivacyPlan, remedy="Build one with make_plan.")
        settings = {} if settings is None else settings
        if not isinstance(settings, Mapping):
            raise arguments.refusal("settings", "to be a dict", settings)
        for name in settings:
            if not isinstance(name, str):
                raise ValueError(f"Expected the names in settings to be strings, got {name!r}.")
        settings = {n: arguments.scalar(f"settings[{n!r}]", v) for n, v in settings.items()}
        self._state, self._settings = first_state(plan), settings
        self.run_id = uuid.uuid4().hex[:12]
        self.software = software()
        self.file = self._stated_file = None
        self.is_as_in_file = True  # False where a report knows more than the file, which is closed
        self._must_resume = False

    @property
    def plan(self) -> PrivacyPlan:
        """The `PrivacyPlan` that is being followed."""
        return self._state.plan

    @property
    def settings(self) -> dict[str, Any]:
        """Further settings that describe the run, as they were given: a dict."""
        return dict(self._settings)

    @property
    def unit(self) -> str:
        """The sampled and protected unit: "row", an example, or "person", with all their rows."""
        return self.plan.unit

    @property
    def is_of_search(self) -> bool:
        """Whether it is the ledger of a search, and not of one of its trials or another run."""
        return self.state.search is not None and "secret" in self.settings

    @property
    def state(self) -> LedgerState:
        """The `tfdpnorm.privacy.state.LedgerState` after all entries so far."""
        return self._state

    @property
    def stated_file(self) -> Journal | None:
        """The `Journal` that a statement is checked by, also of a copy for a report; or None."""
        return self._stated_file or self.file

    @property
    def updates(self) -> int:
        """The updates that were announced, an int. All of them are spent."""
        return self._state.updates

    @property
    def guarantee_holds(self) -> bool:
        """Whether nothing is known that would invalidate the guarantee."""
        return not self.no_guarantee_because

    @property
    def confirmed_guarantee(self) -> bool | None:
        """`guarantee_holds`, but None while it is unconfirmed where the weights come from."""
        holds = self.guarantee_holds
        return None if holds and self.state.has_weights_of_unknown_runs else holds

    @property
    def no_guarantee_because(self) -> tuple[str, ...]:
        """Why no guarantee holds: what was recorded or declared, or too much is added to delta."""
        recorded = self._state.no_guarantee_because
        reason = None if recorded else added_delta.excess(self, self.claimed_epsilon())
        return recorded if reason is None else (reason,)

    def record(self, entry: Any) -> None:
        """Records one of `tfdpnorm.privacy.entries`, unless it changes nothing.

        Raises:
            ValueError: if it contradicts the entries before it.
            BudgetExhaustedError: if it announces what the plan has no budget for.
            OSError: if it cannot be written. In each case nothing is recorded.
        """
        state = apply(self._state, entry)
        if state is self._state:
            return
        if self._must_resume and isinstance(entry, _OF_A_RUNNING_PROCESS):
            raise PrivacyError(
                "The ledger was reopened, and its first entry must be Resume(position), not "
                f"{entry}. Record first how many updates the weights include."
            )
        if self.file is not None:
            self.file.append(entries.to_json(entry))
        self._state = state
        if isinstance(entry, entries.Resume):
            self._must_resume = False

    def epsilon(self, accountant: str | None = None, *, whole_plan: bool = False) -> float:
        """Returns the epsilon guaranteed to every training example; see `privacy.epsilons`."""
        return self._within_delta(epsilons.epsilon(self._state, accountant, whole_plan=whole_plan))

    def claimed_epsilon(self, accountant: str | None = None, *, whole_plan: bool = False) -> float:
        """Returns what the formula says of the updates so far. **A claim, not a guarantee.**"""
        return epsilons.claimed_epsilon(self._state, accountant, whole_plan=whole_plan)

    def validation_epsilon(
        self, accountant: str | None = None, *, whole_plan: bool = False
    ) -> float:
        """Returns the epsilon guaranteed to every validation example; see `privacy.epsilons`."""
        return epsilons.validation_epsilon(self._state, accountant, whole_plan=whole_plan)

    def person_epsilon(self, *, whole_plan: bool = False) -> float:
        """Returns the epsilon of every person with up to `plan.stated_per_person` rows.

        Raises:
            ValueError: where there is none; see `privacy.epsilons`.
        """
        rows = self.plan.stated_per_person
        if rows is None:
            raise PrivacyError(
                'Expected a plan with most_per_person and unit="row", got another one. With '
                'unit="person", epsilon() is that of a person.'
            )
        return self._within_delta(epsilons.person_epsilon(self._state, rows, whole_plan=whole_plan))

    def _within_delta(self, epsilon):
        return epsilon if added_delta.excess(self, epsilon) is None else math.inf

    def as_phase(self) -> Phase:
        """Returns what the run has spent so far, as a later run on the same data counts it.

        Raises:
            ValueError: for the ledger of a search, or of a trial: what a choice costs does not
                compose as updates do.
        """
        plan, state, claimed = self.plan, self.state, self.claimed_epsilon()
        if state.search is not None:
            raise PrivacyError(
                "Expected the ledger of a run, got that of a search or of one of its trials (run "
                f"{self.run_id}), whose cost does not compose as updates do. Leave it out, and add "
                f"its epsilon, {ceil_text(claimed)}, and its delta, {delta_text(plan.delta)}, to "
                "the sums of the others."
            )
        updates = plan.steps if state.is_held_to_plan else state.updates
        trained = [plan.mechanism(updates)] if updates else []
        settings = self._settings
        return Phase(
            run=self.run_id,
            updates=updates,
            mechanisms=(*trained, *state.mechanisms(disjoint=False, whole_plan=True)),
            validation=tuple(state.mechanisms(disjoint=True, whole_plan=True)),
            added_delta=added_delta.total(added_delta.added_to_delta(self, claimed)),
            noise_generator=settings.get("noise_generator"),
            is_exact=bool(settings.get("noise_grid") and settings.get("sum_rounding")),
            not_covered=state.sentences("not_covered"),
            reasons=self.no_guarantee_because,
            unit=plan.unit,
        )

    def phases(self) -> tuple[Phase, ...]:
        """Returns all phases of a training that ended with this run, each a `Phase`.

        Raises:
            ValueError: for a run that has not ended, and as `as_phase` does.
        """
        state = self.state
        if state.remaining_updates:
            raise PrivacyError(
                f"The run has not ended: {state.updates} of its {state.plan.steps} planned updates "
                "are spent, and the remaining ones would not be recorded here. Train it to its "
                "end, or end it: private.ledger.record(tfdpnorm.privacy.entries.Finish())."
            )
        return (*self.plan.earlier, self.as_phase())

    def close(self) -> None:
        """Closes the file, so that other processes may open it; nothing can be recorded then."""
        if self.file is not None:
            self.file.close()
            self._must_resume = False

    def with_caveats(self, caveats: Iterable[Caveat]) -> PrivacyLedger:
        """Returns a ledger in memory with the same state and `caveats` besides, for a report."""
        copy = PrivacyLedger(self.plan, self._settings)
        copy._state, copy.run_id, copy.software = self._state, self.run_id, self.software
        copy._stated_file = self.stated_file
        for each in caveats:
            copy.record(each)
        copy.is_as_in_file = copy.state is self.state
        return copy


def create_ledger(
    path: str | os.PathLike, plan: PrivacyPlan, settings: Mapping[str, Any] | None = None
) -> PrivacyLedger:
    """Starts the ledger file of a new run. It appears whole or not at all.

    Args:
        path: A file that does not exist, in a folder that does.
        plan: The `PrivacyPlan` of the run.
        settings: What else must not change when it is resumed: a dict of str, int, float, bool or
            None by name.

    Returns:
        A `PrivacyLedger` whose file is open for writing.

    Raises:
        ValueError: if `plan` is no plan, or `settings` has other values.
        FileExistsError: if there is a file already.
        OSError: if it cannot be written.
    """
    ledger = PrivacyLedger(plan, settings)
    header = {
        "kind": "header",
        "format": _FORMAT,
        "version": _VERSION,
        "run": ledger.run_id,
        "plan": _plan_fields(ledger.plan),
        "settings": ledger.settings,
        "software": ledger.software,
    }
    ledger.file = journal.create_journal(path, header)
    return ledger


def reopen_ledger(
    path: str | os.PathLike, plan: PrivacyPlan, settings: Mapping[str, Any] | None = None
) -> PrivacyLedger:
    """Opens a ledger file to continue its run, and cuts off a torn last line.

    Unless no update was announced yet, `Resume` has to come next. The file is locked against other
    processes, where the operating system can, until the ledger is closed or forgotten.

    Args:
        path: A file that `create_ledger` made.
        plan: The `PrivacyPlan` of the run, the same as then.
        settings: The same as then.

    Returns:
        A `PrivacyLedger` whose file is open for writing.

    Raises:
        LedgerCorruptError: if the file is not what was written.
        ValueError: if the run is another one: the message lists what differs.
        BlockingIOError: if another process, or another ledger in this one, has the file open.
        OSError: if it is absent, or cannot be written to.
    """
    ledger = read_ledger(path)
    differences = differences_from(ledger, plan, settings)
    if differences:
        raise PrivacyError(
            f"The ledger {path} belongs to another run: {'; '.join(differences)}. Restore these "
            "settings to continue that run, or name another ledger; the epsilons of several runs "
            "on the same data add up."
        )
    ledger.file.open()
    ledger._must_resume = ledger.updates > 0
    return ledger


def read_ledger(path: str | os.PathLike) -> PrivacyLedger:
    """Reads a ledger file, for reports; nothing can be recorded in the result.

    Args:
        path: A file that `create_ledger` made.

    Returns:
        A `PrivacyLedger`.

    Raises:
        LedgerCorruptError: if the file is not what was written.
        OSError: if it cannot be read.
    """
    path = os.fspath(path)
    file, (header, *lines) = journal.read_journal(path)
    ledger = _ledger_of_header(path, header)
    ledger.file = file
    for number, fields in enumerate(lines, 2):  # whose checksums are right
        try:
            after = apply(ledger._state, entries.from_json(fields))
        except (ValueError, TypeError, LookupError, OverflowError) as error:
            found = f"an entry that contradicts those before it ({error})"
            raise journal.corrupt(path, number, found) from error
        if after is ledger._state:
            raise journal.corrupt(path, number, "an entry that changes nothing")
        ledger._state = after
    return ledger


def differences_from(ledger, plan, settings=None):
    """Returns in what a ledger differs from that of the run with this plan and settings: texts."""
    now = PrivacyLedger(plan, settings)
    differences = []
    for old, new in (
        (_plan_fields(ledger.plan), _plan_fields(now.plan)),
        (ledger.settings, now.settings),
    ):
        for name in dict.fromkeys((*old, *new)):
            before, after = (repr(d[name]) if name in d else "nothing" for d in (old, new))
            if before != after:
                differences.append(f"{name} is {before} there and {after} here")
    return differences


def _ledger_of_header(path, header):
    if (header.get("kind"), header.get("format")) != ("header", _FORMAT):
        raise journal.corrupt(path, 1, "no header")
    if header.get("version") != _VERSION:
        raise journal.LedgerCorruptError(
            f"Expected {path} to have version {_VERSION} of the format, got "
            f"{header.get('version')!r}. Use the release that wrote it to read it or to resume its "
            "run."
        )
    try:
        fields = {n: math.inf if v == "inf" else v for n, v in header["plan"].items()}
        ledger = PrivacyLedger(PrivacyPlan(**fields), header["settings"])
        ledger.run_id = arguments.text("run", header["run"])
        known = header.get("software", {}).items()  # older ledgers do not say it
        ledger.software = {name: arguments.text(name, version) for name, version in known}
    except (KeyError, AttributeError, TypeError, ValueError, OverflowError) as error:
        raise journal.corrupt(path, 1, f"a header without a valid plan ({error})") from error
    return ledger


def _plan_fields(plan):
    """The fields of a plan by name, with "inf" where JSON has no number."""
    fields = {field.name: getattr(plan, field.name) for field in dataclasses.fields(plan)}
    fields["earlier"] = [dataclasses.asdict(phase) for phase in plan.earlier]
    return {name: "inf" if value == math.inf else value for name, value in fields.items()}
