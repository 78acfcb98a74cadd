"""The epsilons of a `LedgerState`: of training, of validation, so far or for the whole plan.

All of them are infinite if no guarantee holds, but `claimed_epsilon`. Arguments of all:

    state: `LedgerState`.
    accountant: "rdp" or "pld"; None for the plan's. Before the last update "pld" reports the
        epsilon of a slightly later one, never less (see `EpsilonCurve`). Of a search, both are by
        Renyi DP, the only one that knows what a choice costs.
    whole_plan: Whether to give the epsilon after the last update and query planned, as a run that
        is held to its plan does anyway.
"""

import dataclasses
import functools
import math

from tfdpnorm.privacy.composition import composed_epsilon, run_epsilon


def epsilon(state, accountant=None, *, whole_plan=False):
    """Returns the epsilon guaranteed to every training example."""
    claimed = claimed_epsilon(state, accountant, whole_plan=whole_plan)
    return claimed if state.guarantee_holds else math.inf


def claimed_epsilon(state, accountant=None, *, whole_plan=False):
    """Returns what the formula says of the updates so far. **A claim, not a guarantee.**"""
    plan, search = _plan_by(state.plan, accountant), state.search
    whole_plan = whole_plan or state.is_held_to_plan
    asked = state.mechanisms(disjoint=False, whole_plan=whole_plan or search is not None)
    if search is not None:
        # A trial whose queries look at training examples may cost more than was planned.
        trained = (plan.sampling_rate, plan.noise_multiplier, plan.steps)
        return search.epsilon(plan.delta, [trained, *asked] if asked else ())
    return run_epsilon(plan, plan.steps if whole_plan else state.updates, asked)


def validation_epsilon(state, accountant=None, *, whole_plan=False):
    """Returns the epsilon guaranteed to every validation example that is no training example.

    It counts the queries with `disjoint=True`, at the plan's delta: 0 before the first.
    """
    if not state.guarantee_holds:
        return math.inf
    plan, search = _plan_by(state.plan, accountant), state.search
    whole_plan = whole_plan or state.is_held_to_plan or search is not None
    asked = state.mechanisms(disjoint=True, whole_plan=whole_plan)
    if search is not None:
        return search.score_epsilon(plan.delta, asked)
    before = [part for phase in plan.earlier for part in phase.validation]
    return composed_epsilon([*asked, *before], plan.delta, plan.accountant)


def _plan_by(plan, accountant):
    if accountant is None or accountant == plan.accountant:
        return plan
    return _with_accountant(plan, accountant)


@functools.lru_cache(maxsize=16)
def _with_accountant(plan, accountant):
    return dataclasses.replace(plan, accountant=accountant)
