"""The details of a privacy statement, under its fixed headings."""

from tfdpnorm.privacy import epsilons
from tfdpnorm.privacy.added_delta import GRID_NUMBERS, rounding_loss
from tfdpnorm.privacy.rounding import ceil_text
from tfdpnorm.privacy.software import software
from tfdpnorm.privacy.words import unit_of

ACCOUNTANTS = {
    "rdp": "Renyi differential privacy (RDP)",
    "pld": "privacy loss distributions (PLD)",
}
GENERATORS = {
    "shake256": "The noise generator is a cryptographic one (SHAKE256, FIPS 202).",
    None: "The noise generator, Philox, is not a cryptographic one.",
}
_OTHER_RUNS = (
    "Hyperparameter search: every further run or trial on the same data, kept or thrown away, adds "
    "to the epsilon, and so does choosing the best of several. Only searches by tfdpnorm.tuning "
    "are counted, in the runs that are their trials."
)
_OTHER_SEARCHES = (
    "Any other search: every further run on the same data, kept or thrown away, adds to this "
    "epsilon."
)
_LEFT_OUT = (
    "The training loss and every metric computed on private data during training, wherever they "
    "were printed or logged, and whatever was chosen by them: a stopping time, a checkpoint, a "
    "learning rate.",
    "Whatever else was computed from private data and went into the run: preprocessing, a "
    "vocabulary, sample weights or class weights, initial weights, the choice of examples.",
)
_VALIDATION = (
    "Private validation data that guided a choice: this epsilon does not protect its examples."
)
_OTHER_VALIDATION = (
    "Private validation data, where anything but the noisy answers counted above guided a choice."
)
_SIDE_CHANNELS = "How long training takes, and which memory it reads."
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


def of_guarantee(ledger, figures, person):
    """Returns the details where a guarantee holds: a dict from headings to lists of sentences.

    Args:
        ledger: `PrivacyLedger`.
        figures: `Figures` of what is sampled.
        person: `Figures` of a person with several examples; None where none are stated.
    """
    return {
        "Guarantee": _guarantee(ledger, figures, person),
        "Unit and neighbouring relation": _unit(ledger),
        "Released": _released(ledger),
        "Threat model and assumptions": _threats(ledger),
        "Mechanism and settings": _mechanism(ledger),
        "Accounting": _accounting(ledger, person),
        "Not covered": _not_covered(ledger),
        "Numerical safety": _numerical_safety(ledger, figures, person),
    }


def without_guarantee(ledger):
    """Returns the details where no guarantee holds, as `of_guarantee` does."""
    state = ledger.state
    remarks = (*state.sentences("foreign_weights"), *state.sentences("not_covered"))
    return {
        "Guarantee": ["None holds, for the reasons above."],
        "Mechanism and settings": _mechanism(ledger),
        "Accounting": [_accountant(ledger), *_updates(ledger)],
        "Not covered": ["Nothing is covered, since no guarantee holds.", *remarks],
    }


def published(ledger):
    """Returns what may be published, in a sentence."""
    search = ledger.state.search
    if search is not None and not search.is_composed:
        first = "of the search, this model alone: its weights after every update"
    elif search is not None:
        first = "the weights after every update of all trials of the search, their noised scores"
    else:
        first = "the weights after every update, the released ones included"
    return (
        f"What may be published: {first}; every function of them that does not use the private "
        "data again (predictions, averages, exported models); this statement, and the ledger."
    )


def secret(ledger):
    """Returns what must stay secret or be deleted, in a sentence."""
    search = ledger.state.search
    others = ""
    if search is not None and not search.is_composed:
        others = "the trials that lost, their scores, and how many there were; "
    return (
        "What must stay secret, or be deleted: the training data; the loss and the metrics that "
        f"training printed or logged, which have no noise; {others}and what was in the memory of "
        "the process: the key of the noise, the members of the sampled batches, sums and gradients "
        "without noise. The key of the noise was never written to a disk."
    )


def provenance(ledger, weights):
    """Returns where a run and its statement come from, as `of_guarantee` returns the rest.

    Args:
        ledger: `PrivacyLedger`.
        weights: As for `privacy_statement`.
    """
    state, now, lines = ledger.state, software(), []
    begun = ", ".join(f"{name} {version}" for name, version in ledger.software.items())
    lines = [
        f"The run was begun with {begun or 'software that its ledger does not name'}.",
        f"This statement was computed by tfdpnorm {now['tfdpnorm']} with dp-accounting "
        f"{now['dp-accounting']}.",
    ]
    if weights:
        lines.append(
            "The digest of the weights is that of tfdpnorm.training.weights_digest(model), for the "
            "model as tfdpnorm saved it. Other formats have digests of their own."
        )
    if state.is_finished:
        lines.append("The run was ended: no further update can be made.")
    if state.resumes:
        times = "once" if state.resumes == 1 else f"{state.resumes} times"
        lines.append(
            f"The run was resumed {times}; {state.lost_updates} updates were lost and are "
            "charged. Each resumption drew new noise and new batches."
        )
    return lines


def _guarantee(ledger, figures, person):
    state, plan = ledger.state, ledger.plan
    lines = [
        f"(epsilon, delta) = ({ceil_text(figures.epsilon)}, {plan.delta!r}): with and without "
        f"{unit_of(ledger).neighbours}, the probability of every set of results differs by a "
        "factor of at most e^epsilon, up to delta.",
        *_added(figures),
    ]
    if person is not None:
        added = sum(person.added.values())
        lines.append(
            f"For a person with up to {ledger.most_rows_per_person} examples: "
            f"({ceil_text(person.epsilon)}, {plan.delta!r}), with at most {ceil_text(added)} added "
            "to delta; true-positive rates of at most "
            f"{_rates(person)}; mu = {ceil_text(person.mu, 3)}."
        )
        if state.queries():
            lines.append("Of a person, as many examples of private validation are counted, too.")
    lines.append(
        f"True-positive rates of at most {_rates(figures)}. mu is that of a Gaussian mechanism "
        "that no attack with a false-positive rate from 0.1 % to 99.9 % tells apart less well. "
        "These figures include what is added to delta."
    )
    if state.search is None:  # The epsilon of a search is that of all updates planned.
        lines += _stopped_early(ledger, figures, person)
    if plan.delta >= 1 / plan.num_examples:
        lines.append(
            f"Weak: delta is not below 1 / {plan.num_examples}. Such a guarantee allows publishing "
            f"a whole {unit_of(ledger).one}. Choose a delta well below that."
        )
    return lines


def _rates(figures):
    """True-positive rates at false-positive rates, as numbers."""
    return ", ".join(
        f"{ceil_text(best, 3)} at {rate:g}" for rate, best in figures.true_positive_rates.items()
    )


def _added(figures):
    """What the delta of the accountant leaves out."""
    added = figures.added
    if not added:
        return []
    parts = [f"{ceil_text(amount)} for {reason}" for reason, amount in added.items()]
    return [
        f"To this delta, at most {ceil_text(sum(added.values()))} is added: {', '.join(parts)}."
    ]


def _stopped_early(ledger, figures, person):
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
        of_person = (
            "" if person is None else f", for a person {ceil_text(person.whole_plan_epsilon)}"
        )
        return [
            f"The run was planned for {planned}. If the decision to stop earlier looked at "
            "the model or at private data, state the epsilon of the whole plan instead: "
            f"{ceil_text(figures.whole_plan_epsilon)} (rounded up){of_person}."
        ]
    return []


def _unit(ledger):
    unit = unit_of(ledger)
    return [
        f"Unit: {unit.neighbours}, of {ledger.plan.num_examples} {unit.protected}.",
        f"Neighbouring relation: add or remove {unit.neighbours} (add_or_remove_one). The number "
        f"of {unit.many}, the sampling rate, the expected batch size and all settings below are "
        "public constants, the same for both data sets.",
    ]


def _released(ledger):
    return [
        "Covers: the weights after every update, the released ones included, and every function of "
        "them that does not use the private data again (predictions, averages, exported models, "
        "what the optimizer keeps).",
        "The ledger holds the settings, what was counted, and answers with noise; nothing else of "
        "the private data.",
        *_validation(ledger),
    ]


def _validation(ledger):
    """The second guarantee, for validation examples, and what they add to the first."""
    state, delta, lines = ledger.state, ledger.plan.delta, []
    epsilon, apart = ledger.validation_epsilon(), state.queries(disjoint=True)
    if apart and state.search is not None:
        lines.append(
            "Validation: a second guarantee holds for any one validation example. It covers the "
            "noisy scores of the trials and the choice by them, with epsilon = "
            f"{ceil_text(epsilon)} (rounded up) and delta = {delta!r}. It assumes that no "
            "validation example is a training example."
        )
    elif apart:
        lines.append(
            "Validation: a second guarantee holds for any one validation example. It covers the "
            f"noisy answers about these examples ({apart} so far) and whatever was chosen by the "
            f"answers, with epsilon = {ceil_text(epsilon)} (rounded up) and delta = {delta!r}. It "
            "assumes that no validation example is a training example; to training examples the "
            f"answers cost nothing.{_stopped_asking(ledger)}"
        )
    overlapping = state.queries(disjoint=False)
    if overlapping:
        lines.append(
            f"Includes: the noisy answers ({overlapping} so far) about validation examples that "
            "are training examples too, or may be; the epsilon applies to these as well."
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


def _threats(ledger):
    presumed = list(ledger.state.sentences("established"))
    if ledger.most_rows_per_person is not None:
        presumed.append(
            f"That no person owns more than {ledger.most_rows_per_person} examples is presumed, "
            "unless the program was given the owners and checked them."
        )
    return [
        "Against whom: anybody who sees the weights after every update, this statement and the "
        "ledger, and knows the code, all settings and all the other "
        f"{unit_of(ledger).many}.",
        "It is presumed that nobody learns the secrets of the run: the key of the noise, the "
        "members and slots of the sampled batches, sums, gradients and metrics without noise, or "
        "what else is in the memory of the process.",
        *presumed,
    ]


def _mechanism(ledger):
    plan, unit = ledger.plan, unit_of(ledger)
    batch = f"{plan.expected_batch_size} of {plan.num_examples} {unit.many}"
    if plan.sampling == "poisson" and plan.sampling_rate == 1:
        sampling = f"every {unit.one} is in every batch ({batch}, q = 1)"
    elif plan.sampling == "poisson":
        sampling = (
            f"Poisson: each {unit.one} enters each batch independently with probability q = "
            f"{plan.sampling_rate:.6g} ({batch} expected), and takes a slot at random"
        )
    else:
        sampling = f"{plan.sampling}, {batch}"
    if plan.most_per_person is not None:
        sampling += (
            f". Of a person in a batch there is the mean gradient of up to {plan.most_per_person} "
            "of their rows, clipped once"
        )
    return [
        f"DP-SGD (Abadi et al. 2016): each update releases the sum of clipped gradients of a "
        f"random batch, with Gaussian noise. {plan.steps} updates are planned.",
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
        f"rounding lets one {unit_of(ledger).one} move the computed sums by that much more than C."
    ]


def _statistics(plan):
    if not plan.statistics_queries:
        return []
    return [
        "Statistics: each update releases the sum of clipped gradients with noise multiplier "
        f"z_g = {plan.gradient_noise_multiplier:.6g}. From the same batch it also releases "
        f"{plan.statistics_queries} sums of truncated activations and of their squares, for the "
        "running averages of normalisation layers, with noise multiplier z_s = "
        f"{plan.statistics_noise_multiplier:.6g} each. These take a share of "
        f"{plan.statistics_budget_share!r} of the privacy loss of the update. All of the sums "
        "compose to one with noise multiplier z."
    ]


def _accounting(ledger, person):
    lines = [
        _accountant(ledger),
        "True-positive rates and mu are computed from the whole curve of epsilon and delta, by "
        "PLD or RDP, whichever is tighter.",
        *_updates(ledger),
        *_earlier(ledger.plan),
        *search(ledger),
    ]
    if person is not None:
        by = "the lemma for groups, over the Renyi divergences of the search"
        if ledger.state.search is None:
            by = (
                "PLD of the mixture of Gaussians with a binomial number of the person's examples "
                "in each batch (Ganesh 2024), or the lemma for groups, whichever is tighter"
            )
        lines.append(f"Persons with several examples: by {by}.")
    reason = epsilons.persons_unavailable(ledger.state)
    if ledger.most_rows_per_person is not None and reason is not None:
        lines.append(reason)
    return lines


def _accountant(ledger):
    plan = ledger.plan
    by = f"Accountant: {ACCOUNTANTS[plan.accountant]}, dp-accounting"
    if plan.accountant == "pld" and 0 < ledger.updates < plan.steps:
        by += "; before the last update it reports the epsilon of a slightly later one, never less"
    return f"{by}."


def _updates(ledger):
    state, updates, planned = ledger.state, ledger.updates, ledger.plan.steps
    if state.lost_updates:
        return [
            f"Updates: T = {updates} spent, of {planned} planned; the present weights have seen "
            f"{state.position}."
        ]
    return [f"Updates: T = {updates} done of {planned} planned."]


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


def search(ledger):
    """Returns what the search is that the run was part of, and what its epsilon presumes."""
    plan, delta = ledger.state.search, ledger.plan.delta
    if plan is None:
        return []
    alone = ceil_text(plan.trial_epsilon(delta))
    lines = []
    if plan.is_composed:
        lines.append(
            f"Search: this run is one of at most {plan.in_words}, whose settings may follow from "
            "the scores of those before. The epsilon is that of all of them composed, so that all "
            "their weights and noised scores may be released. One trial alone would have epsilon "
            f"{alone}."
        )
    else:
        composed = ceil_text(plan.composed_epsilon(delta))
        lines.append(
            "Search: this run is the best of a random number of trials with random settings "
            f"({plan.in_words}), drawn in secret and independently of the data (Papernot and "
            "Steinke 2022). The epsilon includes the choice. It presumes that nothing of the other "
            "trials is released: no weights, no scores, not how many there were; and that no data "
            "decided when a process of the search died. One trial alone "
            f"would have epsilon {alone}, and {plan.expected_trials:g} of them, all released, "
            f"{composed}."
        )
    if plan.score_noise_multiplier is None:
        lines.append(
            "Scores: of public examples. If they are not public, this epsilon does not protect "
            "them."
        )
    return lines


def _not_covered(ledger):
    state, (of_noise, of_sums) = ledger.state, _is_exact(ledger)
    return [
        _OTHER_RUNS if state.search is None else _OTHER_SEARCHES,
        *_LEFT_OUT,
        _OTHER_VALIDATION if state.queries() else _VALIDATION,
        *([] if of_noise else [_FLOATING_POINT]),
        *([] if of_sums else [_ROUNDED_SUM]),
        _SIDE_CHANNELS,
        *state.sentences("not_covered"),
    ]


def _is_exact(ledger):
    """Whether noise lies on a grid, and whether sums have a bound on rounding, in all phases."""
    of_phases = all(phase.is_exact for phase in ledger.plan.earlier)
    settings = ledger.settings
    return (
        bool(settings.get("noise_grid")) and of_phases,
        bool(settings.get("sum_rounding")) and of_phases,
    )


def _numerical_safety(ledger, figures, person):
    of_noise, of_sums = _is_exact(ledger)
    lines = []
    if of_noise:
        more = max(rounding_loss(ledger, each)[0] for each in _epsilons(figures, person))
        lines.append(
            "Noise (Mironov 2012): the noised sums are rounded to a grid and have the distribution "
            f"that the accountant assumes, up to factors that add at most {ceil_text(more)} to "
            "epsilon, and to delta what is stated above, for up to "
            f"{GRID_NUMBERS:.0e} noised numbers (weights times updates)."
        )
    else:
        lines.append("Noise: not safe, see Not covered.")
    if of_sums:
        lines.append(
            "Sums (Casacuberta et al. 2022): the noise is larger by what rounding can add to the "
            "effect of one example. That holds for processors and kernels that round each "
            "operation as IEEE 754 says, and compute the numbers of an example from nothing but "
            "that example and its position in the batch."
        )
    else:
        lines.append("Sums: there is no bound on what rounding does to them, see Not covered.")
    used = [ledger.settings.get("noise_generator")]
    used += [phase.noise_generator for phase in ledger.plan.earlier]
    return [*lines, *dict.fromkeys(GENERATORS.get(each, GENERATORS[None]) for each in used)]


def _epsilons(figures, person):
    return [None] if person is None else [None, min(person.epsilon, 700.0)]
