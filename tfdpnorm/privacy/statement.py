"""The privacy statement: plain English for the person who has to state an epsilon.

What is known of a run is in its ledger as caveats, whose sentences `tfdpnorm.privacy.caveats` has.
Here is what holds of every run, and the order.
"""

import math

from tfdpnorm import arguments
from tfdpnorm.privacy.added_delta import GRID_NUMBERS, added_to_delta
from tfdpnorm.privacy.epsilons import persons_unavailable
from tfdpnorm.privacy.floating_point import floating_point_loss
from tfdpnorm.privacy.ledger import PrivacyLedger
from tfdpnorm.privacy.rounding import ceil_text

_ACCOUNTANT_NAMES = {
    "rdp": "Renyi differential privacy (RDP), dp_accounting",
    "pld": "privacy loss distributions (PLD), dp_accounting",
}

_LEFT_OUT = (
    "Hyperparameter search: every further run or trial on the same data, kept or thrown away, adds "
    "to the epsilon, and so does choosing the best of several. Only searches by tfdpnorm.tuning "
    "are counted, in the runs that are their trials (docs/searches.md).",
    "The training loss and every metric computed on private data during training, wherever they "
    "were printed or logged, and whatever was chosen by them: a stopping time, a checkpoint, a "
    "learning rate.",
    "Whatever else was computed from private data and went into the run: preprocessing, a "
    "vocabulary, sample weights or class weights, initial weights, the choice of examples.",
)
_OTHER_SEARCHES = (
    "Any other search: every further run on the same data, kept or thrown away, adds to this "
    "epsilon."
)
_VALIDATION_LEFT_OUT = (
    "Private validation data that guided a choice: this epsilon does not protect its examples."
)
_OTHER_VALIDATION_LEFT_OUT = (
    "Private validation data, where anything but the noisy answers counted above guided a choice."
)
_FLOATING_POINT = (
    "Floating-point effects (Mironov 2012): the accountant assumes exact Gaussian noise on exact "
    "sums. This run draws the noise from 32-bit random words, and computes and adds it in float32, "
    "where some numbers never come out. Whoever knows two candidates for the sum of an update can "
    "tell from the bits of what was released which of them it was, whatever epsilon says."
)
_ROUNDED_SUM = (
    "Floating-point effects on the sums before the noise (Casacuberta et al. 2022): one example "
    "moves the exact sum by at most C, and the computed one by more, because it changes the "
    "rounding of others. For this engine there is no bound."
)
_KERNELS = (
    "Processors and kernels that do not compute as docs/exact_noise.md assumes: each operation "
    "rounded as IEEE 754 says, and the numbers of an example from nothing but that example and "
    "its position in the batch."
)
_GENERATORS = {
    "shake256": "The noise generator is a cryptographic one (SHAKE256, FIPS 202).",
    None: "The noise generator, Philox, is not a cryptographic one.",
}
_SECRETS = (
    "Anybody who learns the secrets of the run: the key of the noise, the members and slots of the "
    "sampled lots, sums, gradients and metrics without noise, or what else is in the memory of the "
    "process. Nor anybody who measures how long training takes, or which memory it reads."
)
_ATTACKER = (
    "Against whom: anybody who sees the weights after every update, this statement and the ledger, "
    "and knows the code, all settings and all the other examples."
)


def privacy_statement(ledger):
    """Says what is guaranteed so far, for whom, on what conditions, and what is not covered.

    Args:
        ledger: The `PrivacyLedger` of the run.

    Returns:
        Several lines of English, a string, one line for each point. Epsilon is rounded upwards.
        Where no guarantee holds, the text begins with "NO GUARANTEE" and gives the reasons. It then
        gives an epsilon at most as "claimed ... not a guarantee".

    Raises:
        ValueError: if `ledger` is not a `PrivacyLedger`.
    """
    arguments.instance("ledger", ledger, PrivacyLedger)
    excluded = ledger.state.sentences("not_covered")
    foreign = ledger.state.sentences("foreign_weights")
    if ledger.guarantee_holds:
        paragraphs = [*_guaranteed(ledger, foreign), *_settings(ledger)]
        left_out = (*_left_out(ledger), *excluded)
        paragraphs += ["Not covered by this guarantee:", *map(_item, left_out)]
    else:
        paragraphs = [*_not_guaranteed(ledger), *_settings(ledger)]
        remarks = (*foreign, *excluded)
        if remarks:
            paragraphs += ["Further remarks on what is not covered:", *map(_item, remarks)]
    return "\n".join(paragraphs)


def _left_out(ledger):
    generators = [ledger.settings.get("noise_generator")]
    generators += [phase.noise_generator for phase in ledger.plan.earlier]
    first = _LEFT_OUT[0] if ledger.state.search is None else _OTHER_SEARCHES
    return [
        first,
        *_LEFT_OUT[1:],
        _OTHER_VALIDATION_LEFT_OUT if ledger.state.queries() else _VALIDATION_LEFT_OUT,
        *_floating_point(ledger),
        *dict.fromkeys(_GENERATORS.get(each, _GENERATORS[None]) for each in generators),
        _SECRETS,
    ]


def _floating_point(ledger):
    are_exact = all(phase.is_exact for phase in ledger.plan.earlier)
    of_sums = _KERNELS if _sum_rounding(ledger) and are_exact else _ROUNDED_SUM
    if not ledger.settings.get("noise_grid") or not are_exact:
        return [_FLOATING_POINT, of_sums]
    more, _ = floating_point_loss(GRID_NUMBERS, ledger.epsilon(), ledger.plan.delta)
    return [
        "Floating-point effects on the noise (Mironov 2012), beyond this: the noised sums are "
        "rounded to a grid and have the distribution that the accountant assumes, up to factors "
        f"that add at most {ceil_text(more)} to epsilon, and to delta what is stated above, for up "
        f"to {GRID_NUMBERS:.0e} noised numbers (weights times updates).",
        of_sums,
    ]


def _sum_rounding(ledger):
    return ledger.settings.get("sum_rounding")


def _guaranteed(ledger, foreign):
    plan, epsilon = ledger.plan, ledger.epsilon()
    # An epsilon of 0 may also be one that the accountant cannot tell from it.
    if ledger.updates == 0 and epsilon == 0 and not plan.earlier:
        first = "No update has been made: this run has used no private data so far. "
        if foreign:
            first += "But what its weights have seen is not known, and no epsilon can be stated."
        else:
            first += (
                "If its weights were freshly initialised, epsilon = 0; what any others that it "
                "began with have seen is not known to it."
            )
    else:
        of_search = "" if ledger.state.search is None else ", with the search that it is part of,"
        first = (
            f"Training{of_search} satisfies (epsilon, delta)-differential privacy with epsilon = "
            f"{ceil_text(epsilon)} (rounded up) and delta = {plan.delta!r}."
        )
    lines = [
        first,
        *map(_item, foreign),
        *map(_item, _added(ledger)),
        _item(_for_whom(ledger)),
        _item(
            "Neighbouring relation: add or remove one example (add_or_remove_one). The number of "
            "examples, the sampling rate, the expected batch size and all settings below are "
            "public constants (docs/guarantee.md)."
        ),
        *map(_item, _earlier(plan)),
        _item(_ATTACKER),
        _item(
            "Covers: the weights after every update, the released ones included, and every "
            "function of them that does not use the private data again (predictions, averages, "
            "exported models)."
        ),
        *map(_item, ledger.state.sentences("established")),
        *map(_item, _search(ledger)),
        *map(_item, _validation(ledger)),
    ]
    if ledger.state.search is None:  # The epsilon of a search is that of all updates planned.
        lines += map(_item, _stopped_early(ledger))
    if plan.delta >= 1 / plan.num_examples:
        lines.append(
            _item(
                f"Weak: delta is not below 1 / {plan.num_examples}. Such a guarantee allows "
                "publishing a whole example. Choose a delta well below that."
            )
        )
    return lines


def _for_whom(ledger):
    plan, rows = ledger.plan, ledger.most_rows_per_person
    if plan.unit == "person":
        return (
            f"For whom: any one person of the {plan.num_examples} whose rows were trained on, with "
            "any number of rows. An example, below, is a person: the mean gradient of up to "
            f"{plan.most_per_person} of their rows, clipped once."
        )
    one = f"For whom: any one example of the {plan.num_examples} private training examples."
    if rows is None:
        return (
            f"{one} If one person owns several of them, this epsilon does not cover them jointly."
        )
    reason = persons_unavailable(ledger.state)
    if reason is not None:
        return f"{one} {reason}"
    epsilon = ledger.person_epsilon()
    more = sum(added_to_delta(ledger, epsilon).values())
    return (
        f"{one} For any one person who owns up to {rows} of them, epsilon = {ceil_text(epsilon)} "
        f"(rounded up) and delta = {plan.delta!r}, to which at most {ceil_text(more)} is added. "
        "Whether nobody owns more is for the data holder to know."
    )


def _added(ledger):
    """What the delta of the accountant leaves out."""
    added = added_to_delta(ledger)
    if not added:
        return []
    parts = [f"{ceil_text(amount)} for {reason}" for reason, amount in added.items()]
    return [
        f"To this delta, at most {ceil_text(sum(added.values()))} is added: {', '.join(parts)}."
    ]


def _earlier(plan):
    """What the epsilon counts of earlier phases, and for whom."""
    if not plan.earlier:
        return []
    listed = [f"run {phase.run} ({phase.in_words})" for phase in plan.earlier]
    return [
        "Includes: earlier phases of the training on the same data, releases at sampling rate q, "
        f"noise multiplier z: {'; '.join(listed)}. The epsilon is that of all phases composed. It "
        "presumes that what came out of a phase decided neither the noise, the sampling rate and "
        "the number of updates of a later one nor when it ended, and that no validation example is "
        "a training example of any phase."
    ]


def _stopped_early(ledger):
    """What the plan has to do with the epsilon of a run that did not reach its end."""
    state, steps = ledger.state, ledger.plan.steps
    if state.is_held_to_plan:
        return [
            f"This is the epsilon of the whole plan of {steps} updates, however many were made, "
            f"because: {'; '.join(state.sentences('held_to_plan'))}."
        ]
    answers = state.queries(disjoint=False, whole_plan=True)
    if 0 < state.updates < steps or state.queries(disjoint=False) < answers:
        planned = f"{steps} updates" + (f" and {answers} answers" if answers else "")
        return [
            f"The run was planned for {planned}. If the decision to stop earlier looked at "
            "the model or at private data, state the epsilon of the whole plan instead: "
            f"{ceil_text(ledger.epsilon(whole_plan=True))} (rounded up)."
        ]
    return []


def _search(ledger):
    """What the search is that the run was part of, and what its epsilon presumes."""
    search, delta = ledger.state.search, ledger.plan.delta
    if search is None:
        return []
    alone = ceil_text(search.trial_epsilon(delta))
    lines = []
    if search.is_composed:
        lines.append(
            f"Search: this run is one of at most {search.in_words}, whose settings may follow from "
            "the scores of those before. The epsilon is that of all of them composed, so that all "
            "their weights and noised scores may be released. One trial alone would have epsilon "
            f"{alone}."
        )
    else:
        composed = ceil_text(search.composed_epsilon(delta))
        lines.append(
            "Search: this run is the best of a random number of trials with random settings "
            f"({search.in_words}), drawn in secret and independently of the data (Papernot and "
            "Steinke 2022). The epsilon includes the choice. It presumes that nothing of the other "
            "trials is released: no weights, no scores, not how many there were; and that no data "
            "decided when a process of the search died. One trial alone "
            f"would have epsilon {alone}, and {search.expected_trials:g} of them, all released, "
            f"{composed}."
        )
    if search.score_noise_multiplier is None:
        lines.append(
            "Scores: of public examples. If they are not public, this epsilon does not protect "
            "them."
        )
    return lines


def _stopped_asking(ledger):
    """What the queries planned have to do with the epsilon of those that were asked."""
    planned = ledger.state.queries(disjoint=True, whole_plan=True)
    if ledger.state.is_held_to_plan:
        return f" It is the epsilon of all {planned} answers that were planned."
    if planned > ledger.state.queries(disjoint=True):
        return (
            f" {planned} answers were planned. If the answers decided when to stop asking, state "
            "the epsilon of all of them instead: "
            f"{ceil_text(ledger.validation_epsilon(whole_plan=True))} (rounded up)."
        )
    return (
        " If the answers decided how many were asked, and that number was not fixed before, state "
        "the epsilon of the most that could have been asked instead."
    )


def _validation(ledger):
    """The second guarantee, for validation examples, and what they add to the first."""
    lines = []
    epsilon = ledger.validation_epsilon()
    apart = ledger.state.queries(disjoint=True)
    if apart and ledger.state.search is not None:
        lines.append(
            "Validation: a second guarantee holds for any one validation example. It covers the "
            "noisy scores of the trials and the choice by them, with epsilon = "
            f"{ceil_text(epsilon)} (rounded up) and delta = {ledger.plan.delta!r}. It assumes that "
            "no validation example is a training example."
        )
    elif apart:
        lines.append(
            "Validation: a second guarantee holds for any one validation example. It covers the "
            f"noisy answers about these examples ({apart} so far) and whatever was chosen by the "
            f"answers, with epsilon = {ceil_text(epsilon)} (rounded up) and delta = "
            f"{ledger.plan.delta!r}. It assumes that no validation example is a training example; "
            f"to training examples the answers cost nothing.{_stopped_asking(ledger)}"
        )
    overlapping = ledger.state.queries(disjoint=False)
    if overlapping:
        lines.append(
            f"Includes: the noisy answers ({overlapping} so far) about validation examples that "
            "are training examples too, or may be; the epsilon applies to these as well."
        )
    return lines


def _not_guaranteed(ledger):
    lines = [
        "NO GUARANTEE: no differential privacy is guaranteed for this training run, and no epsilon "
        "may be stated for it, because:",
        *map(_item, ledger.state.sentences("no_guarantee")),
    ]
    claimed = ledger.claimed_epsilon()
    if ledger.updates and not math.isinf(claimed):
        lines.append(
            f"For comparison only, claimed epsilon = {ceil_text(claimed)} at delta = "
            f"{ledger.plan.delta!r} (not a guarantee): the accountant's formula gives it for the "
            "settings below, as if nothing were known against them."
        )
    return lines


def _settings(ledger):
    plan = ledger.plan
    lot = f"{plan.expected_batch_size} of {plan.num_examples} examples"
    if plan.sampling == "poisson" and plan.sampling_rate == 1:
        sampling = f"every example is in every lot ({lot}, q = 1)"
    elif plan.sampling == "poisson":
        sampling = (
            "Poisson: each example enters each lot independently with probability q = "
            f"{plan.sampling_rate:.6g} ({lot} expected), and takes a slot at random"
        )
    else:
        sampling = f"{plan.sampling}, {lot}"
    accountant = _ACCOUNTANT_NAMES[plan.accountant]
    if plan.accountant == "pld" and 0 < ledger.updates < plan.steps:
        accountant += (
            "; before the last update it reports the epsilon of a slightly later one, never less"
        )
    noise = f"noise multiplier z = {plan.noise_multiplier!r}"
    return [
        "Settings, as planned:",
        _item(f"Sampling: {sampling}."),
        *map(_item, _updates(ledger)),
        _item(f"Noise and clipping: {noise}, l2 clipping norm C = {plan.l2_norm_clip!r}."),
        *map(_item, _rounding(ledger)),
        *map(_item, _statistics(plan)),
        _item(f"Accountant: {accountant}."),
    ]


def _rounding(ledger):
    more = _sum_rounding(ledger)
    if not more or not ledger.plan.noise_multiplier:
        return []
    return [
        f"Rounding: the standard deviation of the noise is z C (1 + {ceil_text(more, 2)}), since "
        "rounding lets one example move the computed sums by that much more than C "
        "(docs/exact_noise.md)."
    ]


def _statistics(plan):
    if not plan.statistics_queries:
        return []
    return [
        "Statistics: each update releases the sum of clipped gradients with noise multiplier "
        f"z_g = {plan.gradient_noise_multiplier:.6g}. From the same lot it also releases "
        f"{plan.statistics_queries} sums of truncated activations and of their squares, for the "
        "running averages of normalisation layers, with noise multiplier z_s = "
        f"{plan.statistics_noise_multiplier:.6g} each. These take a share of "
        f"{plan.statistics_budget_share!r} of the privacy loss of the update. All of the sums "
        "compose to one with noise multiplier z."
    ]


def _updates(ledger):
    state, updates, planned = ledger.state, ledger.updates, ledger.plan.steps
    if state.lost_updates:
        lines = [
            f"Updates: T = {updates} spent, of {planned} planned; the present weights have seen "
            f"{state.position}."
        ]
    else:
        lines = [f"Updates: T = {updates} done of {planned} planned."]
    if state.is_finished:
        lines.append("The run was ended: no further update can be made.")
    if state.resumes:
        times = "once" if state.resumes == 1 else f"{state.resumes} times"
        lines.append(
            f"The run was resumed {times}; {state.lost_updates} updates were lost and are "
            "charged. Each resumption drew new noise and new batches."
        )
    return lines


def _item(text):
    return f"- {text}"
