"""The facts of a run that its statement, the JSON and the command say, computed from its ledger.

`statement_text` and `statement_as_json` read these and nothing else: each question to a ledger is
answered here, once.
"""

import datetime
import functools
import math
import os
import types
from typing import NamedTuple

from scipy import special

from tfdpnorm import arguments
from tfdpnorm.privacy import epsilons, profiles
from tfdpnorm.privacy.added_delta import GRID_NUMBERS, added_to_delta, rounding_loss, total
from tfdpnorm.privacy.budget import usual_delta
from tfdpnorm.privacy.caveats import KINDS, UNITS
from tfdpnorm.privacy.ledger import PrivacyLedger
from tfdpnorm.privacy.rounding import ceil_text, number
from tfdpnorm.privacy.software import software

CANNOT_SHOW = (
    "A ledger cannot show whether later lines are missing: compare this number of lines and the "
    "SHA-256 with the statement that the run itself gave."
)
FALSE_POSITIVE_RATES = {"0.01": 0.01, "0.001": 0.001}
WEAK = 10  # the last tier of Ponomareva et al. (2023), "How to DP-fy ML", is above
_LARGEST = 700.0  # exp of more overflows
_VERIFIED = ("verified_from_graph", "computed_per_example", "one_release")
_PHILOX = (
    "The noise generator, Philox, is not cryptographic. No way to predict it from released values "
    "is known, but none is proved impossible."
)
_GENERATORS = {
    "openssl": "The noise generator is cryptographic: that of OpenSSL, seeded by the operating "
    "system.",
}


class LedgerFile(NamedTuple):
    """A ledger's file, as a statement names it."""

    name: str
    lines: int
    sha256: str


def facts_of(ledger, weights=None):
    """Returns the facts of a run so far, a read-only dict.

    Args:
        ledger: `PrivacyLedger`.
        weights: The digest of its weights, or None.

    Raises:
        ValueError: if `ledger` is none.
    """
    arguments.instance("ledger", ledger, PrivacyLedger)
    guarantee = _guarantee(ledger)
    return types.MappingProxyType(
        {
            **_run(ledger, weights),
            **_plan(ledger),
            **_search(ledger),
            **_counts(ledger.state),
            **_declared(ledger),
            **guarantee,
            **(_figures(ledger, **guarantee) if guarantee["holds"] else {}),
            "counted": _counted(ledger.plan, ledger.state),
        }
    )


def _run(ledger, weights):
    """The run, its file, and what was recorded: `state`, and sentences by kind of caveat."""
    state, file, now = ledger.state, ledger.stated_file, software()
    begun = {name: f"{name} {version}" for name, version in ledger.software.items()}
    main = [begun[name] for name in ("tfdpnorm", "tensorflow", "keras") if name in begun]
    return {
        "run": ledger.run_id,
        "weights": weights,
        "date": datetime.date.today().isoformat(),
        "software": ledger.software,
        "main_software": ", ".join(main) or "unknown software",
        "all_software": ", ".join(begun.values()) or "software that its ledger does not name",
        "computed_with": now,
        "file": file and LedgerFile(os.path.basename(file.path), file.tail[0], file.sha256),
        "is_as_in_file": ledger.is_as_in_file,
        "cannot_show": CANNOT_SHOW,
        "state": state,
        **{kind: state.sentences(kind) for kind in KINDS},
        "reasons_for_plan": "; ".join(state.sentences("held_to_plan")),
        "one_release": state.has_code("one_release"),
        "is_verified": any(map(state.has_code, _VERIFIED)),
    }


def _plan(ledger):
    """The plan, the unit that it protects, and its noise."""
    plan, settings, unit = ledger.plan, ledger.settings, UNITS[ledger.unit]
    grid, sums = settings.get("noise_grid"), settings.get("sum_rounding")
    is_exact = all(phase.is_exact for phase in plan.earlier)
    generators = [settings.get("noise_generator"), *(x.noise_generator for x in plan.earlier)]
    return {
        "plan": plan,
        "unit": unit,
        "protects_persons": ledger.unit == "person",
        "rows_per_person": plan.stated_per_person,
        "owns_one": plan.stated_per_person == 1,
        "has_weak_delta": plan.delta >= 1 / plan.num_examples,
        "has_usual_delta": plan.delta == usual_delta(plan.num_examples),
        "is_limited": plan.most_per_batch < plan.num_examples,
        "takes_all": plan.sampling_rate == 1,
        "batch": f"{plan.expected_batch_size} of {plan.num_examples} {unit.many}",
        "sum_rounding": sums,
        "has_exact_noise": bool(grid) and is_exact,
        "has_exact_sums": bool(sums) and is_exact,
        "grid_numbers": GRID_NUMBERS,
        "generators": tuple(dict.fromkeys(_GENERATORS.get(x, _PHILOX) for x in generators)),
    }


def _search(ledger):
    """The search that the run is part of."""
    search, delta = ledger.state.search, ledger.plan.delta
    in_secret = search is not None and not search.is_composed
    return {
        "search": search,
        "is_of_search": ledger.is_of_search,
        "is_chosen_in_secret": in_secret,
        "is_of_all_trials": in_secret and bool(ledger.state.trials),
        "trial_epsilon": search and search.trial_epsilon(delta),
        "composed_epsilon": search and search.composed_epsilon(delta),
    }


def _counts(state):
    """Updates and answers, made and planned."""
    plan, held = state.plan, state.is_held_to_plan
    apart, planned_apart = (state.queries(disjoint=True, whole_plan=x) for x in (False, True))
    other, planned_other = (state.queries(disjoint=False, whole_plan=x) for x in (False, True))
    stated = epsilons.updates_in_epsilon(state)
    return {
        "charged_updates": plan.steps if held else state.updates,
        "updates_in_epsilon": stated,
        "moves_in_steps": not held and stated > state.updates,
        "lost_one": state.lost_updates == 1,
        "answers": state.queries(),
        "answers_apart": apart,
        "planned_answers_apart": planned_apart,
        "overlapping_answers": other,
        "planned_answers": planned_other,
        "stopped_asking": not held and planned_apart > apart,
        "stopped_early": not held and (0 < state.updates < plan.steps or other < planned_other),
    }


def _declared(ledger):
    """What the data holder declared of settings and weights, and what is known of the weights."""
    state, declared = ledger.state, ledger.state.declaration
    settings_declared = declared.settings_used_private_data is not None
    relies, unknown = state.relies_on_initial_weights, state.has_weights_of_unknown_runs
    return {
        "declared": declared,
        "settings_declared": settings_declared,
        "only_answers": declared.search is None and state.search is None,
        "relies_on_weights": relies,
        "weights_unconfirmed": relies and declared.initial_weights_used_private_data is None,
        "knows_other_runs": bool(state.plan.earlier) or state.has_weights_of_guaranteed_runs,
        "has_unknown_weights": unknown,
        "has_known_weights": not unknown and state.has_code("private_run"),
    }


def _guarantee(ledger):
    state, claimed, rows = ledger.state, ledger.claimed_epsilon(), ledger.plan.stated_per_person
    holds = ledger.guarantee_holds
    no_person_because = None if rows is None else epsilons.persons_unavailable(state)
    has_person = holds and rows is not None and no_person_because is None
    return {
        "holds": holds,
        "confirmed": ledger.confirmed_guarantee,
        "reasons": ledger.no_guarantee_because,
        "claims": bool(state.updates) and not math.isinf(claimed),
        "claimed_epsilon": claimed,
        "validation_epsilon": ledger.validation_epsilon(),
        "planned_validation_epsilon": ledger.validation_epsilon(whole_plan=True),
        "figures": Figures(ledger) if holds else None,
        "person": Figures(ledger, rows) if has_person else None,
        "no_person_because": no_person_because,
        "was_released": False,
    }


def _figures(ledger, figures, person, **others):
    """What only a guarantee has: whether something was released, and the effects of rounding."""
    # An epsilon of 0 may also be one that the accountant cannot tell from it.
    released = bool(ledger.updates or figures.epsilon or ledger.plan.earlier)
    stated = [each.epsilon for each in (figures, person) if each is not None]
    has_grid = ledger.settings.get("noise_grid")
    lost = [rounding_loss(ledger, each)[0] if has_grid else 0.0 for each in stated]
    parts = [f"{ceil_text(lost[0], 2)} to epsilon"] if lost[0] else []
    parts += [f"{ceil_text(figures.added_in_all, 2)} to delta"] if figures.added_in_all else []
    return {
        "was_released": released,
        "covers_owners": released and ledger.plan.stated_per_person is not None,
        "is_less_than_planned": figures.epsilon < figures.whole_plan_epsilon,
        "additions": " and ".join(parts),
        "has_weak_epsilon": figures.epsilon > WEAK,
        "epsilon_with_additions": figures.epsilon + lost[0],
        "epsilon_is_rounded_up": ceil_text(figures.epsilon + lost[0]) != ceil_text(figures.epsilon),
        "delta_with_additions": figures.delta + figures.added_in_all,
        "most_lost_epsilon": max(lost),
    }


def _counted(plan, state):
    """What an epsilon counts, in words."""
    if state.search is not None:
        return f"the search that chose this model ({state.search.in_words}), with all its updates"
    charged = plan.steps if state.is_held_to_plan else state.updates
    if state.has_code("one_release"):
        parts = [number(charged, "release")]
    else:
        parts = [f"{number(charged, 'update')} of the weights"]
    if charged != state.updates:
        parts = [f"{parts[0]} charged, {state.updates} of them made"]
    if state.lost_updates:
        parts.append(f"{state.lost_updates} of them lost in crashes")
    if plan.statistics_queries:
        parts.append("the running averages of normalisation layers")
    if state.queries():
        parts.append(number(state.queries(), "noisy answer") + " about validation examples")
    if plan.earlier:
        parts.append(number(len(plan.earlier), "earlier phase") + " of the training")
    return ", ".join(parts)


class Figures:
    """The guarantee for an example, or for a person who owns some.

    Args:
        ledger: `PrivacyLedger` whose guarantee holds.
        rows: None for the sampled unit; for persons where examples are sampled, how many each has.

    Attributes:
        epsilon: So far, a float.
        whole_plan_epsilon: After the last update and answer planned.
        added: Dict of the additions to delta, by reason.
        added_in_all: Their sum.
    """

    def __init__(self, ledger, rows=None):
        self._state, self._rows = ledger.state, rows
        self.delta = ledger.plan.delta
        epsilon = ledger.epsilon if rows is None else ledger.person_epsilon
        self.epsilon, self.whole_plan_epsilon = epsilon(), epsilon(whole_plan=True)
        computed = self.epsilon if rows is None else epsilons.person_epsilon(self._state, rows)
        self.added = added_to_delta(ledger, computed)
        self.added_in_all, self.is_finite = total(self.added), math.isfinite(self.epsilon)

    @functools.cached_property
    def odds(self):
        """The factor by which odds change at most, except with probability delta; maybe infinite.

        More than exp(epsilon): results beyond that may have a probability of more than delta.
        """
        loss = profiles.loss_at(self._profile, self.delta)
        return math.exp(loss) if loss < _LARGEST else math.inf

    @property
    def certainty(self):
        """How sure an attacker with even odds can become, except with that probability."""
        return 1 / (1 + 1 / self.odds)

    @functools.cached_property
    def true_positive_rates(self):
        """The highest true-positive rate of an attack by its false-positive rate, as text."""
        return {
            name: profiles.true_positive_rate(self._profile, rate)
            for name, rate in FALSE_POSITIVE_RATES.items()
        }

    @property
    def mu_is_close(self):
        """Whether attacks with few false positives are about as good as mu says.

        What bounds a search is far from a Gaussian mechanism: its mu would look like another
        guarantee.
        """
        by_mu = special.ndtr(special.ndtri(FALSE_POSITIVE_RATES["0.01"]) + self.mu)
        return bool(by_mu <= 2 * self.true_positive_rates["0.01"])

    @functools.cached_property
    def mu(self):
        """See `profiles.gaussian_mu`."""
        return profiles.gaussian_mu(self._profile)

    @functools.cached_property
    def _profile(self):
        found = epsilons.profile(self._state, self._rows)
        return profiles.plus(found, self.added_in_all)
