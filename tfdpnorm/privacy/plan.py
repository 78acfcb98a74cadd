"""The plan of a private training run: the numbers that its accountant needs."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from tfdpnorm import arguments
from tfdpnorm.checked import Checked, field
from tfdpnorm.choices import UNITS
from tfdpnorm.errors import PrivacyError
from tfdpnorm.privacy.accountants import ACCOUNTANTS, accountant_of, composed_epsilon, event_of
from tfdpnorm.privacy.mechanisms import Mechanism, overflows
from tfdpnorm.privacy.phases import Phase
from tfdpnorm.privacy.slots import most_per_batch_at, most_per_batch_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    import dp_accounting


NO_NOISE = "the noise multiplier is 0"
_NO_SCHEDULE = "For a schedule, train in phases: make_plan(..., after=ledger)."


def unit_of(unit, most_per_person):
    """Returns the unit of a plan, "row" or "person", with the default for None."""
    default = "row" if most_per_person is None else "person"
    return default if unit is None else arguments.choice("unit", unit, UNITS)


@dataclasses.dataclass(frozen=True)
class PrivacyPlan(Checked):
    """The plan of one run of DP-SGD (Abadi et al. 2016, Algorithm 1). `make_plan` builds it.

    Epsilon here is for the neighbouring relation add_or_remove_one: add or remove one example, with
    N, the sampling rate and the expected batch size as public constants. It assumes what no plan
    can check: batches are really Poisson-sampled, each example's gradient is clipped and depends on
    no other private example, and the noisy sum is divided by `expected_batch_size`, not by the size
    that the batch happened to have.

    Attributes:
        num_examples: Number N of private training examples, >= 1; treated as public. Of persons,
            where they are the unit.
        expected_batch_size: Expected batch size, 0 < expected_batch_size <= N.
        steps: Number of optimizer updates planned, >= 1.
        noise_multiplier: z, noise on the sum of clipped gradients over `l2_norm_clip`, >= 0. With
            statistics queries, that of one Gaussian mechanism that costs as much as all that an
            update releases.
        l2_norm_clip: Largest l2 norm of one example's gradient, > 0; infinite only without noise.
        delta: 0 < delta < 1.
        accountant: "rdp" or "pld".
        epsilon_target: The epsilon that the noise was calibrated to, or None if it was given.
        no_guarantee_because: Why no guarantee holds, a tuple of sentences; empty if one does. A
            noise multiplier of 0 adds its own reason.
        statistics_queries: Number n >= 0 of further sums that each update releases with noise, over
            the same batch: moments of activations, for the running averages of normalisation
            layers. `make_private` sets it to those of the model.
        statistics_budget_share: Their share s of the privacy loss of an update, 0 < s < 1, and 0
            for none, or in `make_private` for its default; without queries it has no effect.
            Gaussian mechanisms on the same batch compose to one. In units of what one example
            changes each sum by, the gradient's noise multiplier z_g and the statistics' z_s have
            1 / z_g^2 = (1 - s) / z^2 and n / z_s^2 = s / z^2. So their sum,
            1 / z_g^2 + n / z_s^2, is 1 / z^2, and the guarantee is the same for any s.
        earlier: Tuple of `tfdpnorm.privacy.phases.Phase`: earlier phases of the training, which
            every epsilon includes.
        most_per_person: Most rows k of one person, >= 1, or None where persons do not matter.
        unit: The unit of privacy. "person": persons are sampled and protected, each with all of
            their rows, of which an update reads up to k. "row": rows are sampled and protected; the
            statement has an epsilon for a person with up to k rows as well. None is "person" with
            `most_per_person`, and "row" without.
        most_per_batch: The most examples S that take part in an update, 1 to N. Where more are
            drawn, S of them do, chosen at random; every epsilon includes what that costs. None
            for the fewest whose cost is at most 0.1 % of epsilon, also of a person's.

    Raises:
        ValueError: if a value is outside of its range, the expected batch is larger than the data
            set, there are statistics queries without a share, or an earlier phase protects another
            unit; for unit "person" without `most_per_person`; if more than one update is expected
            to draw too many for `most_per_batch`.
    """

    num_examples: int = field(arguments.whole, at_least=1)
    expected_batch_size: float = field(arguments.positive)
    steps: int = field(arguments.updates, at_least=1)
    noise_multiplier: float = field(
        arguments.noise_multiplier,
        remedy="It is the noise's standard deviation over l2_norm_clip; 0 means no noise. "
        + _NO_SCHEDULE,
    )
    l2_norm_clip: float = field(arguments.positive, allow_inf=True, remedy=_NO_SCHEDULE)
    delta: float = field(arguments.open_unit)
    accountant: str = field(arguments.choice, "rdp", allowed=ACCOUNTANTS)
    epsilon_target: float | None = field(arguments.positive, None, allow_inf=True)
    no_guarantee_because: tuple[str, ...] = field(
        arguments.sentences, (), remedy="Say in words why no guarantee holds."
    )
    statistics_queries: int = field(arguments.whole, 0, at_least=0)
    statistics_budget_share: float = 0.0
    earlier: tuple[Phase, ...] = field(lambda _, phases: tuple(map(Phase.of, phases)), ())
    most_per_person: int | None = field(arguments.whole, None, at_least=1)
    unit: str | None = None
    most_per_batch: int | None = field(arguments.whole, None, at_least=1)

    def __post_init__(self):
        super().__post_init__()
        self._set("unit", unit_of(self.unit, self.most_per_person))
        self._check_persons()
        share = self.statistics_budget_share
        if self.statistics_queries or share != 0:
            share = arguments.open_unit(
                "statistics_budget_share", share, remedy="The gradient needs the rest."
            )
        self._set("statistics_budget_share", float(share))
        self._check_sizes()
        if math.isinf(self.l2_norm_clip) and self.noise_multiplier > 0:
            raise ValueError(
                "Expected a finite l2_norm_clip where there is noise, got l2_norm_clip=inf "
                f"and noise_multiplier={self.noise_multiplier!r}. The noise's standard deviation "
                "is noise_multiplier * l2_norm_clip and would be infinite: give a finite "
                "l2_norm_clip, or noise_multiplier=0 (epsilon=inf) for training without privacy."
            )
        own = [NO_NOISE] if self.noise_multiplier == 0 else []
        before = [f"of an earlier phase: {r}" for phase in self.earlier for r in phase.reasons]
        reasons = dict.fromkeys((*self.no_guarantee_because, *own, *before))
        self._set("no_guarantee_because", tuple(reasons))
        most, count = self.most_per_batch, self.num_examples
        if most is None:
            all_updates = Mechanism(self.sampling_rate, self.noise_multiplier, self.steps)
            rows = self.stated_per_person or 1
            most = most_per_batch_at(all_updates, count, self.delta, self.accountant, rows)
        self._set("most_per_batch", min(most, count))
        if overflows([self.mechanism(self.steps)]) > 1:
            enough = most_per_batch_for(count, self.sampling_rate, 1 / self.steps)
            raise ValueError(
                f"Expected most_per_batch of at least {enough}, got {most}: of {self.steps} "
                "updates, more than one would draw too many. Give more, or leave it out."
            )

    def _check_persons(self):
        if self.unit == "person" and self.most_per_person is None:
            raise ValueError(
                'Expected most_per_person with unit="person", got None. Give the most rows of a '
                "person that an update reads."
            )
        others = [phase.run for phase in self.earlier if phase.unit != self.unit]
        if others:
            raise PrivacyError(
                f"Expected earlier phases that protect a {self.unit}, as this phase does, got "
                f"{others[0]}, which protects another unit: their epsilons do not compose. Train "
                "all phases with the same unit."
            )

    def _check_sizes(self):
        size, count = self.expected_batch_size, self.num_examples
        size = int(size) if size.is_integer() else size
        self._set("expected_batch_size", size)
        got = f"got expected_batch_size={size!r} and num_examples={count}"
        if size > count:
            raise ValueError(
                f"Expected expected_batch_size <= num_examples, {got}. Lower expected_batch_size; "
                "equal to num_examples it makes every batch the whole data set."
            )
        if size / count < 1e-300:
            raise ValueError(
                f"Expected expected_batch_size / num_examples >= 1e-300, {got}. Give the number of "
                "examples in an average batch."
            )

    @property
    def drawn_per_person(self) -> int | None:
        """Most rows of a drawn person in an update; None where rows are drawn."""
        return self.most_per_person if self.unit == "person" else None

    @property
    def stated_per_person(self) -> int | None:
        """For a person of how many rows an epsilon is stated, too; None where for no such one."""
        return self.most_per_person if self.unit == "row" else None

    @property
    def sampling_rate(self) -> float:
        """Probability q with which each example enters each batch, a float."""
        return self.expected_batch_size / self.num_examples

    def mechanism(self, updates: int) -> Mechanism:
        """What `updates` >= 0 updates release, for the accountants."""
        limit = (self.most_per_batch, self.num_examples)
        if self.most_per_batch == self.num_examples:
            limit = ()  # no batch of the data set exceeds it
        return Mechanism(self.sampling_rate, self.noise_multiplier, updates, *limit)

    @property
    def gradient_noise_multiplier(self) -> float:
        """z_g: noise on the sum of clipped gradients over `l2_norm_clip`, a float."""
        share = self.statistics_budget_share if self.statistics_queries else 0.0
        return self.noise_multiplier / math.sqrt(1 - share)

    @property
    def statistics_noise_multiplier(self) -> float:
        """z_s: noise on each statistics query over what one example adds to it; 0 without any."""
        if not self.statistics_queries:
            return 0.0
        share = self.statistics_budget_share / self.statistics_queries
        return self.noise_multiplier / math.sqrt(share)

    def of_model(
        self, *, statistics_queries: int, default_share: float, no_guarantee_because: Sequence[str]
    ) -> PrivacyPlan:
        """Returns the plan with the fields that depend on the model and its training.

        Args:
            statistics_queries: See the class.
            default_share: s, where there are queries and the plan says no share.
            no_guarantee_because: Further reasons, a tuple of sentences.

        Returns:
            A `PrivacyPlan`.
        """
        share = self.statistics_budget_share or default_share
        return dataclasses.replace(
            self,
            statistics_queries=statistics_queries,
            statistics_budget_share=share if statistics_queries else 0.0,
            no_guarantee_because=(*self.no_guarantee_because, *no_guarantee_because),
        )

    @property
    def guarantee_holds(self) -> bool:
        """Whether nothing is known that would invalidate the guarantee."""
        return not self.no_guarantee_because

    @property
    def earlier_mechanisms(self) -> list:
        """The releases of earlier phases about their training examples, for `composed_epsilon`."""
        return [part for phase in self.earlier for part in phase.mechanisms]

    def dp_event(self) -> dp_accounting.DpEvent:
        """Returns the planned updates as an event of dp_accounting, with those of earlier phases.

        With it, another accountant than those of this library computes the epsilon, as its PLD
        accountant does, which may charge a little more for limited batches::

            accountant = dp_accounting.pld.PLDAccountant()
            print(accountant.compose(plan.dp_event()).get_epsilon(plan.delta))

        Returns:
            A `dp_accounting.DpEvent`.

        Raises:
            NotImplementedError: for limited batches, with dp-accounting before 0.6.
        """
        return event_of([*self.earlier_mechanisms, self.mechanism(self.steps)])

    def reported_at(self, updates: int) -> int:
        """The update count >= `updates`, an int, whose epsilon is stated after `updates`."""
        return accountant_of(self.accountant).reported_at(updates, self.steps)

    def epsilon_after(self, updates: int) -> float:
        """Epsilon guaranteed after `updates` >= 0 updates, a float; infinite without a guarantee.

        With the "pld" accountant the value is exact at `steps`. Before, it is that of a slightly
        larger number of updates.
        """
        epsilon = self.claimed_epsilon_after(updates)
        return epsilon if self.guarantee_holds else math.inf

    def claimed_epsilon_after(
        self, updates: int, *, also: Sequence[tuple] = (), accountant: str | None = None
    ) -> float:
        """Epsilon by the formula after `updates`, a float, whatever is known against it.

        **A claim, not a guarantee**: anyone who prints it must say so. It serves to compare with
        papers whose scheme does not keep its promise.

        Args:
            updates: >= 0.
            also: What else was released about the training examples, for `composed_epsilon`.
            accountant: Another one than the plan's; None for that.
        """
        updates = arguments.whole("updates", updates, at_least=0)
        accountant = self.accountant if accountant is None else accountant
        reported = accountant_of(accountant).reported_at(updates, self.steps)
        own = self.mechanism(reported)
        return composed_epsilon([own, *also, *self.earlier_mechanisms], self.delta, accountant)
