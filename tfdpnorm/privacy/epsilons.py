"""The epsilons of a `LedgerState`: of training, of validation, so far or for the whole plan.

All of them are infinite if no guarantee holds, but `claimed_epsilon`. Arguments of all:

    state: `LedgerState`.
    accountant: "rdp" or "pld"; None for the plan's. Before the last update "pld" reports the
        epsilon of a slightly later one, never less. Of a search, both are by
        Renyi DP, the only one that knows what a choice costs.
    whole_plan: Whether to give the epsilon after the last update and query planned, as a run that
        is held to its plan does anyway.

`person_epsilon` and `profile` take no accountant: they use what is tighter.
"""

import math

from tfdpnorm import arguments
from tfdpnorm.privacy import profiles
from tfdpnorm.privacy.accountants import composed_epsilon, epsilon_at


def epsilon(state, accountant=None, *, whole_plan=False):
    """Returns the epsilon guaranteed to every training example."""
    claimed = claimed_epsilon(state, accountant, whole_plan=whole_plan)
    return claimed if state.guarantee_holds else math.inf


def claimed_epsilon(state, accountant=None, *, whole_plan=False):
    """Returns what the formula says of the updates so far. **A claim, not a guarantee.**"""
    plan, search = state.plan, state.search
    whole_plan = whole_plan or state.is_held_to_plan
    asked = state.mechanisms(disjoint=False, whole_plan=whole_plan or search is not None)
    if search is not None:
        # A trial whose queries look at training examples may cost more than was planned.
        trained = plan.mechanism(plan.steps)
        return search.epsilon(plan.delta, [trained, *asked] if asked else ())
    updates = plan.steps if whole_plan else state.updates
    return plan.claimed_epsilon_after(updates, also=asked, accountant=accountant)


def updates_in_epsilon(state):
    """Returns how many updates `epsilon` is that of, an int; by "pld", perhaps a few more."""
    plan = state.plan
    return plan.steps if state.is_held_to_plan else plan.reported_at(state.updates)


def validation_epsilon(state, accountant=None, *, whole_plan=False):
    """Returns the epsilon guaranteed to every validation example that is no training example.

    It counts the queries with `disjoint=True`, at the plan's delta: 0 before the first.
    """
    if not state.guarantee_holds:
        return math.inf
    plan, search = state.plan, state.search
    whole_plan = whole_plan or state.is_held_to_plan or search is not None
    asked = state.mechanisms(disjoint=True, whole_plan=whole_plan)
    if search is not None:
        return search.score_epsilon(plan.delta, asked)
    before = [part for phase in plan.earlier for part in phase.validation]
    return composed_epsilon([*asked, *before], plan.delta, accountant or plan.accountant)


def person_epsilon(state, rows, *, whole_plan=False):
    """Returns the epsilon guaranteed to every person with up to `rows` examples, at plan.delta.

    Up to `rows` training examples, and as many examples of private validation: of these, noisy
    answers are counted too, as the person may have both.

    Raises:
        ValueError: where `persons_unavailable`.
    """
    if not state.guarantee_holds:
        return math.inf
    reason = persons_unavailable(state)
    if reason is not None:
        raise ValueError(f"{reason} Leave most_per_person out.")
    found = profile(state, rows, whole_plan=whole_plan)
    return math.inf if found is None else epsilon_at(found, state.plan.delta)


def persons_unavailable(state):
    """Returns why there is no epsilon for persons with several examples, a sentence, or None."""
    search = state.search
    if search is None or (search.score_noise_multiplier is None and not state.asked):
        return None
    return (
        "Epsilon for persons is not available for searches with private validation examples: a "
        "person may own examples among these and among the training examples."
    )


def profile(state, rows=None, *, whole_plan=False):
    """Returns the profile of the releases; None where something was released without noise.

    It is a function, see `tfdpnorm.privacy.profiles`. `rows` is for how many examples of a person,
    for whom answers about validation examples are counted as in `person_epsilon`; None for a
    training example. What is known against the guarantee is not looked at.
    """
    of_person = rows is not None
    rows = arguments.whole("rows", rows, at_least=1) if of_person else 1
    plan, search = state.plan, state.search
    whole_plan = whole_plan or state.is_held_to_plan or search is not None
    phases = [part for phase in plan.earlier for part in phase.mechanisms]
    if of_person:
        phases += [part for phase in plan.earlier for part in phase.validation]
    asked = state.mechanisms(disjoint=None if of_person else False, whole_plan=whole_plan)
    updates = plan.steps if whole_plan else state.updates
    parts = [plan.mechanism(updates), *asked, *phases]
    if any(part[2] and not part[1] for part in parts):
        return None
    if search is not None:
        return search.profile(plan, rows, parts if asked else ())
    return profiles.composed_profile(tuple(parts), plan.delta, rows)
