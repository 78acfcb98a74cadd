"""The headings "Mechanism and settings" and "Accounting" of a privacy statement."""

from tfdpnorm.privacy import epsilons
from tfdpnorm.privacy.rounding import ceil_text
from tfdpnorm.privacy.words import manner_of, number, unit_of

_ACCOUNTANTS = {
    "rdp": "Renyi differential privacy (RDP)",
    "pld": "privacy loss distributions (PLD)",
}
_CURVES = {
    True: "by PLD or RDP, whichever is tighter.",
    False: "from the Renyi divergences of the search. Attacks may stay well below these bounds.",
}


def mechanism(ledger):
    plan, unit = ledger.plan, unit_of(ledger)
    batch = f"{plan.expected_batch_size} of {plan.num_examples} {unit.many}"
    if plan.sampling == "poisson" and plan.sampling_rate == 1:
        sampling = f"every {unit.one} is in every batch ({batch}, q = 1)"
    elif plan.sampling == "poisson":
        sampling = (
            f"Poisson: each {unit.one} enters each batch independently with probability q = "
            f"{plan.sampling_rate:.6g} ({batch} expected), and is put into a random slot"
        )
    else:
        sampling = f"{plan.sampling}, {batch}"
    if plan.most_per_person is not None:
        sampling += (
            f". A person in a batch contributes the mean gradient of up to {plan.most_per_person} "
            "of their rows, clipped once"
        )
    return [
        f"{manner_of(ledger).mechanism} Planned: {number(plan.steps, manner_of(ledger).counted)}.",
        f"Sampling: {sampling}.",
        f"Noise and clipping: noise multiplier z = {plan.noise_multiplier!r}, l2 clipping norm C = "
        f"{plan.l2_norm_clip!r}.",
        *_rounding(ledger),
        *_statistics(plan),
    ]


def _rounding(ledger):
    more = ledger.settings.get("sum_rounding")
    if not more or not ledger.plan.noise_multiplier:
        return []
    return [
        f"Rounding: the standard deviation of the noise is z C (1 + {ceil_text(more, 2)}), since "
        f"with rounding, one {unit_of(ledger).one} can change the computed sums by that much more "
        "than C."
    ]


def _statistics(plan):
    if not plan.statistics_queries:
        return []
    return [
        "Statistics: each update releases the sum of clipped gradients with noise multiplier "
        f"z_g = {plan.gradient_noise_multiplier:.6g}. From the same batch it also releases "
        f"{plan.statistics_queries} sums of truncated activations and of their squares, for the "
        "running averages of normalisation layers, with noise multiplier z_s = "
        f"{plan.statistics_noise_multiplier:.6g} each. These account for "
        f"a share of {plan.statistics_budget_share!r} of the privacy loss of the update. Together "
        "the sums compose to one with noise multiplier z."
    ]


def accounting(ledger, person):
    lines = [
        accountant(ledger),
        "True-positive rates and mu are computed from the whole curve of epsilon and delta, "
        + _CURVES[ledger.state.search is None],
        *updates_made(ledger),
        *_earlier(ledger.plan),
        *search(ledger),
    ]
    if person is not None:
        by = "the group privacy lemma, over the Renyi divergences of the search"
        if ledger.state.search is None:
            by = (
                "PLD of the mixture of Gaussians with a binomial number of the person's examples "
                "in each batch (Ganesh 2024), or the group privacy lemma, whichever is tighter"
            )
        lines.append(f"Persons with several examples: computed by {by}.")
    reason = epsilons.persons_unavailable(ledger.state)
    if ledger.most_rows_per_person is not None and reason is not None:
        lines.append(reason)
    return lines


def accountant(ledger):
    plan, stated = ledger.plan, epsilons.updates_in_epsilon(ledger.state)
    by = f"Accountant: {_ACCOUNTANTS[plan.accountant]}, dp-accounting"
    if not ledger.state.is_held_to_plan and stated > ledger.updates:
        by += (
            f"; as long as updates are left of the plan, epsilon moves in steps: the one stated is "
            f"that of {stated} updates, not of the {ledger.updates} made, so that it is never too "
            "small"
        )
    return f"{by}."


def updates_made(ledger):
    state, updates, planned = ledger.state, ledger.updates, ledger.plan.steps
    if state.lost_updates:
        return [
            f"Updates: T = {updates} spent, of {planned} planned; the present weights are the "
            f"result of {state.position}."
        ]
    return [f"Updates: T = {updates} made, of {planned} planned."]


def _earlier(plan):
    """The part of earlier phases in the epsilon, and for whom it holds."""
    if not plan.earlier:
        return []
    listed = [f"run {phase.run} ({phase.in_words})" for phase in plan.earlier]
    return [
        "Includes: earlier phases of the training on the same data, releases at sampling rate q, "
        f"noise multiplier z: {'; '.join(listed)}. The epsilon is that of all phases composed. It "
        "assumes that the results of a phase influenced neither the settings (noise, sampling "
        "rate, number of updates) of a later phase nor the time at which it ended, and that no "
        "validation example is a training example of any phase."
    ]


def search(ledger):
    """Returns what the search is that the run was part of, and what its epsilon presumes."""
    plan, delta = ledger.state.search, ledger.plan.delta
    if plan is None:
        return []
    alone = ceil_text(plan.trial_epsilon(delta))
    lines = []
    if plan.is_composed:
        lines.append(
            f"Search: this run is one of at most {plan.in_words}, whose settings may depend on "
            "the scores of earlier trials. The epsilon is that of all of them composed, so that "
            "all their weights and noisy scores may be released. One trial alone would have "
            f"epsilon {alone}."
        )
    else:
        composed = ceil_text(plan.composed_epsilon(delta))
        lines.append(
            "Search: this run is the best of a random number of trials with random settings "
            f"({plan.in_words}), drawn in secret and independently of the data (Papernot and "
            "Steinke 2022). The epsilon includes the choice. It assumes that nothing about the "
            "other trials is released (weights, scores, their number), and that the data did not "
            "influence when a process of the search ended. One trial alone "
            f"would have epsilon {alone}, and {plan.expected_trials:g} of them, all released, "
            f"{composed}."
        )
    if plan.score_noise_multiplier is None:
        lines.append(
            "Scores: of public examples. If they are not public, this epsilon does not protect "
            "them."
        )
    return lines
