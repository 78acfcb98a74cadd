"""Earlier phases of a training: what another run on the same data has spent, as a plan counts it.

A phase has its own noise, clipping norm and sampling rate. A schedule of them is a chain of phases.
"""

import dataclasses

from tfdpnorm import arguments
from tfdpnorm.errors import PrivacyError
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.rounding import ceil_text, delta_text

UNITS = ("row", "person")


@dataclasses.dataclass(frozen=True)
class Phase:
    """The releases of a run that has ended; `phase_of` reads them from a ledger.

    Attributes:
        run: The `run_id` of its ledger.
        updates: The updates that it has spent.
        mechanisms: Tuple of (sampling rate, noise multiplier, count): what it released about its
            training examples.
        validation: The same about its validation examples that are no training examples.
        added_delta: What its statement adds to its delta.
        noise_generator: As in its settings, or None.
        is_exact: Whether its noise lies on a grid and its sums have a bound on rounding.
        not_covered: Tuple of sentences: what its own guarantee does not cover.
        reasons: Tuple of sentences: why no guarantee holds for it; empty if one does.
        unit: What it protects, "row" or "person".
    """

    run: str
    updates: int
    mechanisms: tuple
    validation: tuple = ()
    added_delta: float = 0.0
    noise_generator: str | None = None
    is_exact: bool = True
    not_covered: tuple = ()
    reasons: tuple = ()
    unit: str = "row"

    def __post_init__(self):
        arguments.text("run", self.run)
        arguments.choice("unit", self.unit, UNITS)
        arguments.whole("updates", self.updates, at_least=0)
        arguments.nonnegative("added_delta", self.added_delta)
        for name in ("mechanisms", "validation"):
            parts = tuple(map(tuple, getattr(self, name)))
            for rate, noise, count in parts:
                arguments.sampling_rate("sampling rate", rate)
                arguments.noise_multiplier("noise multiplier", noise)
                arguments.whole("count", count, at_least=0)
            object.__setattr__(self, name, parts)
        for name in ("not_covered", "reasons"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    @property
    def in_words(self):
        """The releases about its training examples: counts, sampling rates and noise."""
        parts = [
            f"{count} at q = {rate:.6g} and z = {noise:.6g}"
            for rate, noise, count in self.mechanisms
        ]
        return ", ".join(parts) or "nothing"

    @classmethod
    def of(cls, fields):
        """Returns a `Phase` as it is, and one of its fields, a dict, as a ledger's file has them.

        Raises:
            ValueError: for other fields.
        """
        if isinstance(fields, cls):
            return fields
        try:
            return cls(**fields)
        except TypeError as error:
            raise ValueError(f"Expected the fields of a Phase, got {fields!r} ({error}).") from None


def phase_of(ledger):
    """Returns the `Phase` of a run so far.

    Args:
        ledger: `PrivacyLedger`.

    Raises:
        ValueError: for the ledger of a search, or of a trial: what a choice costs does not compose
            as updates do.
    """
    # Not above: they need a plan, which has phases.
    from tfdpnorm.privacy.added_delta import added_to_delta, total

    plan, state = ledger.plan, ledger.state
    if state.search is not None:
        raise PrivacyError(
            "Expected the ledger of a run, got that of a search or of one of its trials (run "
            f"{ledger.run_id}), whose cost does not compose as updates do. Leave it out, and add "
            f"its epsilon, {ceil_text(ledger.claimed_epsilon())}, and its delta, "
            f"{delta_text(plan.delta)}, to the sums of the others."
        )
    updates = plan.steps if state.is_held_to_plan else state.updates
    trained = [(plan.sampling_rate, plan.noise_multiplier, updates)] if updates else []
    return Phase(
        run=ledger.run_id,
        updates=updates,
        mechanisms=(*trained, *state.mechanisms(disjoint=False, whole_plan=True)),
        validation=tuple(state.mechanisms(disjoint=True, whole_plan=True)),
        added_delta=total(added_to_delta(ledger, ledger.claimed_epsilon())),
        noise_generator=ledger.settings.get("noise_generator"),
        is_exact=bool(ledger.settings.get("noise_grid") and ledger.settings.get("sum_rounding")),
        not_covered=state.sentences("not_covered"),
        reasons=ledger.no_guarantee_because,
        unit=plan.unit,
    )


def phases_after(ledger):
    """Returns all phases of a training whose last one has this ledger: a tuple of `Phase`.

    Args:
        ledger: `PrivacyLedger`, or the path of its file.

    Raises:
        ValueError: for a run that has not ended, and as `phase_of` does.
        LedgerCorruptError: if the file is not what was written.
    """
    from tfdpnorm.privacy.ledger import PrivacyLedger, read_ledger

    if not isinstance(ledger, PrivacyLedger):
        ledger = read_ledger(ledger)
    state = ledger.state
    if state.remaining_updates:
        raise PrivacyError(
            f"The run has not ended: {state.updates} of its {state.plan.steps} planned updates are "
            "spent, and the remaining ones would not be recorded here. Train it to its end, or end "
            "it: private.ledger.record(tfdpnorm.privacy.entries.Finish())."
        )
    return (*ledger.plan.earlier, phase_of(ledger))


def caveats_of_phases(phases):
    """Returns the caveats of a run on what its earlier phases do not cover, a list of `Caveat`.

    Args:
        phases: Tuple of `Phase`.
    """
    return [
        caveat("not_covered", sentence=f"of the phase {phase.run}: {sentence}")
        for phase in phases
        for sentence in phase.not_covered
    ]
