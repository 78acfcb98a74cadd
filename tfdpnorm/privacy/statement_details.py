"""The details of a privacy statement, under its fixed headings."""

from tfdpnorm.privacy import statement_limits, statement_mechanism
from tfdpnorm.privacy.added_delta import total
from tfdpnorm.privacy.rounding import ceil_text, delta_text
from tfdpnorm.privacy.software import software
from tfdpnorm.privacy.words import at_most, has_weak_delta, manner_of, number, unit_of


def of_guarantee(ledger, figures, person):
    """Returns the details where a guarantee holds: a dict from headings to lists of sentences.

    Args:
        ledger: `PrivacyLedger`.
        figures: `Figures` of the sampled unit.
        person: `Figures` of a person with several examples; None where none are stated.
    """
    return {
        "Guarantee": _guarantee(ledger, figures, person),
        "Unit and neighbouring relation": _unit(ledger),
        "Released": _released(ledger),
        "Threat model and assumptions": statement_limits.threats(ledger),
        "Mechanism and settings": statement_mechanism.mechanism(ledger),
        "Accounting": statement_mechanism.accounting(ledger, person),
        "Not covered": statement_limits.not_covered(ledger),
        "Numerical safety": statement_limits.numerical_safety(ledger, figures, person),
    }


def without_guarantee(ledger):
    """Returns the details where no guarantee holds, as `of_guarantee` does."""
    state = ledger.state
    remarks = (*state.sentences("foreign_weights"), *state.sentences("not_covered"))
    return {
        "Guarantee": ["None holds, for the reasons above."],
        "Mechanism and settings": statement_mechanism.mechanism(ledger),
        "Accounting": [
            statement_mechanism.accountant(ledger),
            *statement_mechanism.updates_made(ledger),
        ],
        "Not covered": ["Nothing is covered, since no guarantee holds.", *remarks],
    }


def provenance(ledger, weights):
    """Returns where a run and its statement come from, as `of_guarantee` returns the rest.

    Args:
        ledger: `PrivacyLedger`.
        weights: As for `privacy_statement`.
    """
    state, now, lines = ledger.state, software(), []
    begun = ", ".join(f"{name} {version}" for name, version in ledger.software.items())
    lines = [
        f"The run was started with {begun or 'software that its ledger does not name'}.",
        f"This statement was computed by tfdpnorm {now['tfdpnorm']} with dp-accounting "
        f"{now['dp-accounting']}.",
    ]
    if weights:
        lines.append(
            "The digest of the weights is that of tfdpnorm.training.weights_digest(model), for the "
            "model as tfdpnorm saved it. Files in other formats have other digests."
        )
    if state.is_finished:
        lines.append("The run has ended: no further update is possible.")
    if state.resumes:
        times = "once" if state.resumes == 1 else f"{state.resumes} times"
        were = "was lost and is" if state.lost_updates == 1 else "were lost and are"
        lines.append(
            f"The run was resumed {times}; {number(state.lost_updates, 'update')} {were} charged "
            "to the budget. Each resumption drew new noise and new batches."
        )
    return lines


def _guarantee(ledger, figures, person):
    state, plan, delta = ledger.state, ledger.plan, delta_text(ledger.plan.delta)
    lines = [
        f"(epsilon, delta) = ({ceil_text(figures.epsilon)}, {delta}): with and without "
        f"{unit_of(ledger).neighbours}, the probability of every set of results differs by a "
        "factor of at most e^epsilon, up to delta.",
        *_added(figures),
    ]
    if person is not None:
        added = total(person.added)
        lines.append(
            f"For a person who owns {at_most(ledger.most_rows_per_person)} of the examples: "
            f"({ceil_text(person.epsilon)}, {delta}), with at most {ceil_text(added)} added "
            "to delta; true-positive rates of at most "
            f"{_rates(person)}; mu = {ceil_text(person.mu, 3)}."
        )
        if state.queries():
            lines.append("The same number of private validation examples of a person is included.")
    lines.append(
        f"True-positive rates of at most {_rates(figures)}. mu is that of a Gaussian mechanism "
        "against which attacks with a false-positive rate from 0.1 % to 99.9 % do at least as "
        "well. These figures include the additions to delta."
    )
    if state.search is None:  # The epsilon of a search is that of all updates planned.
        lines += _stopped_early(ledger, figures, person)
    if has_weak_delta(plan):
        lines.append(
            f"Weak: delta is not below 1 / {plan.num_examples}. Such a guarantee allows publishing "
            f"a whole {unit_of(ledger).one}. Choose a delta of at most a "
            "tenth of that."
        )
    return lines


def _rates(figures):
    """True-positive rates at false-positive rates, as numbers."""
    return ", ".join(
        f"{ceil_text(best, 3)} at {rate:g}" for rate, best in figures.true_positive_rates.items()
    )


def _added(figures):
    """The additions to the accountant's delta."""
    added = figures.added
    if not added:
        return []
    parts = [f"{ceil_text(amount)} for {reason}" for reason, amount in added.items()]
    return [
        f"To this delta, at most {ceil_text(total(added))} is added: "
        f"{', '.join(parts)} (each rounded up)."
    ]


def _stopped_early(ledger, figures, person):
    """How the plan affects the epsilon of a run that did not reach its end."""
    state, steps = ledger.state, ledger.plan.steps
    if state.is_held_to_plan:
        return [
            f"This is the epsilon of the full plan of {number(steps, 'update')}, regardless of how "
            f"many were made, because: {'; '.join(state.sentences('held_to_plan'))}."
        ]
    if stopped_early(state):
        answers = state.queries(disjoint=False, whole_plan=True)
        planned = number(steps, "update")
        planned += f" and {number(answers, 'answer')}" if answers else ""
        of_person = (
            "" if person is None else f", for a person {ceil_text(person.whole_plan_epsilon)}"
        )
        return [
            f"The run was planned for {planned}. If the decision to stop earlier looked at "
            "the model or at private data, state the epsilon of the full plan instead: "
            f"{ceil_text(figures.whole_plan_epsilon)} (rounded up){of_person}."
        ]
    return []


def stopped_early(state):
    """Whether less was released than planned, and epsilon is that of what was."""
    if state.is_held_to_plan:
        return False
    answers = state.queries(disjoint=False, whole_plan=True)
    return 0 < state.updates < state.plan.steps or state.queries(disjoint=False) < answers


def _unit(ledger):
    unit, rows = unit_of(ledger), ledger.most_rows_per_person
    return [
        f"Unit: {unit.neighbours}, of {ledger.plan.num_examples} "
        f"{unit.many if ledger.unit == 'person' else unit.protected}.",
        *(
            []
            if rows is None
            else [f"Second unit: one person with {at_most(rows)} of these examples, see Guarantee."]
        ),
        f"Neighbouring relation: add or remove {unit.neighbours} (add_or_remove_one). The number "
        f"of {unit.many}, the sampling rate, the expected batch size and all settings below are "
        "public constants, the same for both data sets.",
    ]


def _released(ledger):
    return [
        f"Covers: {manner_of(ledger).published}, and every function of them that does not use the "
        "private data again (predictions, averages, exported models, the state of the optimizer).",
        "The ledger holds the settings, the counts above and noisy answers; nothing else depends "
        "on the private data.",
        *_validation(ledger),
    ]


def _validation(ledger):
    """The second guarantee, for validation examples, and what they add to the first."""
    state, delta, lines = ledger.state, delta_text(ledger.plan.delta), []
    epsilon, apart = ledger.validation_epsilon(), state.queries(disjoint=True)
    if apart and state.search is not None:
        lines.append(
            "Validation: a second guarantee holds for any one validation example. It covers the "
            "noisy scores of the trials and the choice based on them, with epsilon = "
            f"{ceil_text(epsilon)} (rounded up) and delta = {delta}. It assumes that no "
            "validation example is a training example."
        )
    elif apart:
        lines.append(
            "Validation: a second guarantee holds for any one validation example. It covers the "
            f"noisy answers about these examples ({apart} so far) and every choice based on the "
            f"answers, with epsilon = {ceil_text(epsilon)} (rounded up) and delta = {delta}. It "
            "assumes that no validation example is a training example; for training examples "
            f"the answers cost nothing.{_stopped_asking(ledger)}"
        )
    overlapping = state.queries(disjoint=False)
    if overlapping:
        lines.append(
            f"Includes: the noisy answers ({overlapping} so far) about validation examples that "
            "are or may be training examples as well; the epsilon applies to them, too."
        )
    return lines


def _stopped_asking(ledger):
    """How the planned queries affect the epsilon of those that were made."""
    planned = ledger.state.queries(disjoint=True, whole_plan=True)
    if ledger.state.is_held_to_plan:
        return f" It is the epsilon of all {planned} planned answers."
    if planned > ledger.state.queries(disjoint=True):
        return (
            f" {planned} answers were planned. If the answers decided when to stop, state the "
            "epsilon of all of them instead: "
            f"{ceil_text(ledger.validation_epsilon(whole_plan=True))} (rounded up)."
        )
    return (
        " If the answers decided how many queries were made, and that number was not fixed "
        "beforehand, state the epsilon of the largest possible number of queries instead."
    )
