"""Earlier phases of a training: what another run on the same data has spent, as a plan counts it.

A phase has its own noise, clipping norm and sampling rate. A schedule of them is a chain of phases.
"""

import dataclasses

from tfdpnorm import arguments
from tfdpnorm.checked import Checked, field
from tfdpnorm.choices import UNITS
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.mechanisms import Mechanism


def _mechanisms(_, parts):
    return tuple(map(Mechanism.of, parts))


def _tuple(_, values):
    return tuple(values)


@dataclasses.dataclass(frozen=True)
class Phase(Checked):
    """The releases of a run that has ended; see `PrivacyLedger.as_phase`.

    Attributes:
        run: The `run_id` of its ledger.
        updates: The updates that it has spent.
        mechanisms: Tuple of `Mechanism`s: what it released about its training examples.
        validation: The same about its validation examples that are no training examples.
        added_delta: What its statement adds to its delta.
        noise_generator: As in its settings, or None.
        is_exact: Whether its noise lies on a grid and its sums have a bound on rounding.
        not_covered: Tuple of sentences: what its own guarantee does not cover.
        reasons: Tuple of sentences: why no guarantee holds for it; empty if one does.
        unit: What it protects, "row" or "person".
    """

    run: str = field(arguments.text)
    updates: int = field(arguments.whole, at_least=0)
    mechanisms: tuple = field(_mechanisms)
    validation: tuple = field(_mechanisms, ())
    added_delta: float = field(arguments.nonnegative, 0.0)
    noise_generator: str | None = None
    is_exact: bool = True
    not_covered: tuple = field(_tuple, ())
    reasons: tuple = field(_tuple, ())
    unit: str = field(arguments.choice, "row", allowed=UNITS)

    @property
    def in_words(self):
        """The releases about its training examples: counts, sampling rates and noise."""
        parts = [
            f"{each.count} at q = {each.sampling_rate:.6g} and z = {each.noise_multiplier:.6g}"
            for each in self.mechanisms
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


def caveats_of_phases(phases):
    """Returns the caveats of a run on what its earlier `phases` do not cover, a list."""
    return [
        caveat("not_covered", sentence=f"of the phase {phase.run}: {sentence}")
        for phase in phases
        for sentence in phase.not_covered
    ]
