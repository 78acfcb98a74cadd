"""The count of what a run has spent, kept before it is spent."""

import math

from tfdpnorm.privacy import _validate
from tfdpnorm.privacy.plan import PrivacyPlan


class BudgetExhaustedError(RuntimeError):
    """An update was announced that the plan has no budget for."""


class PrivacyLedger:
    """How many updates of a plan were made, and what became known against its guarantee.

    Record an update *before* its noisy gradient is used: after a crash between the two the
    reported epsilon is too high by one update, never too low. Nothing can be taken back.

    Args:
      plan: What the run is going to do.
      updates: Updates already made, to resume a run; between 0 and `plan.steps`.
      no_guarantee_because: Reasons found in the part of the run already done.

    Raises:
      ValueError: An argument is outside of its range.
      BudgetExhaustedError: `updates` exceeds `plan.steps`.
    """

    def __init__(
        self, plan: PrivacyPlan, *, updates: int = 0, no_guarantee_because: tuple[str, ...] = ()
    ):
        if not isinstance(plan, PrivacyPlan):
            raise ValueError(
                f"Expected plan to be a PrivacyPlan, received {plan!r}. Build one with make_plan."
            )
        self._plan = plan
        self._updates = 0
        found = _validate.reasons("no_guarantee_because", no_guarantee_because)
        self._reasons = tuple(dict.fromkeys((*plan.no_guarantee_because, *found)))
        self._updates = self._sum(_validate.whole("updates", updates, at_least=0))

    @property
    def plan(self) -> PrivacyPlan:
        """The plan that is being followed."""
        return self._plan

    @property
    def updates(self) -> int:
        """Updates recorded so far."""
        return self._updates

    @property
    def remaining_updates(self) -> int:
        """Updates that the plan still allows."""
        return self._plan.steps - self._updates

    @property
    def no_guarantee_because(self) -> tuple[str, ...]:
        """The plan's reasons why no guarantee holds, then those found at run time."""
        return self._reasons

    @property
    def guarantee_holds(self) -> bool:
        """Whether nothing is known that would void the guarantee."""
        return not self._reasons

    def record_updates(self, count: int = 1) -> None:
        """Records `count` >= 1 updates that are about to be made.

        Raises:
          ValueError: `count` is not a whole number >= 1.
          BudgetExhaustedError: They would exceed `plan.steps`; then none of them is recorded.
        """
        updates = self._sum(_validate.whole("count", count, at_least=1))
        self._persist(updates, self._reasons)
        self._updates = updates

    def void(self, reason: str) -> None:
        """Declares that no guarantee holds, for a `reason` found at run time.

        From then on `epsilon()` is infinite. The reason completes "No guarantee, because ...".
        """
        reason = _validate.reason("reason", reason)
        if reason not in self._reasons:
            reasons = (*self._reasons, reason)
            self._persist(self._updates, reasons)
            self._reasons = reasons

    def epsilon(self) -> float:
        """Epsilon guaranteed for the updates recorded so far; infinite if no guarantee holds."""
        return self._plan.epsilon_after(self._updates) if self.guarantee_holds else math.inf

    def claimed_epsilon(self) -> float:
        """What the formula says of the updates so far. **A claim, not a guarantee.**"""
        return self._plan.claimed_epsilon_after(self._updates)

    def _sum(self, count: int) -> int:
        if count > self.remaining_updates:
            raise BudgetExhaustedError(
                f"Expected at most {self.remaining_updates} more updates, received {count}: "
                f"{self._updates} of the {self._plan.steps} planned are made. Stop training here, "
                "or start anew from a plan with more steps, whose noise is calibrated to them."
            )
        return self._updates + count

    def _persist(self, updates: int, reasons: tuple[str, ...]) -> None:
        """Called before the ledger changes; a ledger with a file writes it here, or raises."""
