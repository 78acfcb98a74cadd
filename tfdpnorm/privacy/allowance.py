"""How many more updates a run can afford: what keeps it at the epsilon that was planned.

A run whose repeated updates were counted again has spent more on them than was planned. So fewer
updates are left, as many as keep epsilon at that of the plan.
"""

import functools

from tfdpnorm.privacy.composition import exact_epsilon


def affordable(plan, lots, position, queries):
    """Returns how many updates after `position` may still be made, an int >= 0.

    It is the largest number whose epsilon, with all that was counted, is at most the planned one:
    that of `plan.steps` updates on lots of their own. What validation queries cost is on top of
    either. Without a lot that was used twice it is what the plan has left, and no accountant is
    asked.

    Args:
        plan: The `PrivacyPlan` of the run.
        lots: `LotUses`: what was counted.
        position: Up to here, updates are made, or are free; lots that were used beyond it would be
            used once more.
        queries: As in `run_epsilon`.
    """
    left = max(0, plan.steps - lots.updates)
    reused = lots.used_after(position)
    if not left or plan.noise_multiplier == 0 or not (lots.shared or reused):
        return left
    shared, queries = tuple(lots.shared), tuple(queries)
    if not reused:
        # By the lots used twice alone, so that the answer stays known while updates are made.
        single = _largest_single(plan, shared, queries)
        return 0 if single < 0 else min(left, max(0, single - lots.not_shared))
    return max(0, _largest_reusing(plan, lots.not_shared, shared, reused, left, queries))


def fits(plan, lots, queries):
    """Whether all that was counted costs at most the planned epsilon.

    Args:
        plan: The `PrivacyPlan` of the run.
        lots: `LotUses`.
        queries: As in `run_epsilon`.
    """
    if not lots.shared:
        return lots.updates <= plan.steps
    return _fits(plan, lots.single, tuple(lots.shared), tuple(queries))


@functools.lru_cache(maxsize=64)
def _largest_single(plan, shared, queries):
    """The largest number of updates on lots of their own beside those of `shared` lots."""
    return _largest(lambda count: _fits(plan, count, shared, queries), plan.steps)


@functools.lru_cache(maxsize=64)
def _largest_reusing(plan, not_shared, shared, reused, left, queries):
    """As `affordable`, where the next lots were used before: as often as `reused` says."""

    def fits_after(count):
        uses = dict(shared)
        again = reused[:count]
        for before in again:
            if before > 1:
                uses[before] -= 1
            uses[before + 1] = uses.get(before + 1, 0) + 1
        alone = max(0, not_shared - again.count(1) + max(0, count - len(reused)))
        return _fits(plan, alone, tuple(sorted((m, n) for m, n in uses.items() if n)), queries)

    return _largest(fits_after, left)


def _largest(fits, most):
    """The largest count from 0 to `most` that fits, by bisection; -1 if none does."""
    low, high = -1, most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _fits(plan, single, shared, queries):
    return exact_epsilon(plan, single, shared, queries) <= exact_epsilon(
        plan, plan.steps, (), queries
    )
