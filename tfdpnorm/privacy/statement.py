"""The privacy statement: plain English for the person who has to sign for an epsilon.

Its first lines summarise it in plain English, the rest gives the details under fixed headings
(`tfdpnorm.privacy.statement_details`). What is known of a run is in its ledger; whatever else is
said here follows from the ledger alone, so that `tfdpnorm-epsilon --ledger=...` says it again.
"""

from __future__ import annotations

import datetime
import itertools
import math
import os

from tfdpnorm import arguments
from tfdpnorm.privacy import epsilons, statement_details
from tfdpnorm.privacy.added_delta import rounding_loss, total
from tfdpnorm.privacy.figures import Figures, person_figures
from tfdpnorm.privacy.ledger import PrivacyLedger
from tfdpnorm.privacy.rounding import ceil_text, delta_text
from tfdpnorm.privacy.words import (
    at_most,
    counted,
    has_weak_delta,
    item,
    manner_of,
    percent,
    unit_of,
)

NOT_GIVEN = "not given"
CANNOT_SHOW = (
    "A ledger cannot show whether later lines are missing: compare this number of lines and the "
    "SHA-256 with the statement that the run itself gave."
)
_NOT_IN_FILE = (
    " It was closed before the weights were replaced, so that what it prints lacks the remarks on "
    "them."
)
_FROM_ELSEWHERE = "Unconfirmed: where the weights come from"
_OF_ANOTHER_RUN = "Not included: what another run spent on these weights"
_CHOSEN = (
    "Settings were chosen using the private data, and epsilon does not cover what that reveals."
)
_ON_SETTINGS = {
    None: "states nothing",
    False: "states only that the private data were not used",
    True: "states only that the private data were used",
}
_VERIFIED = {"verified_from_graph", "computed_per_example", "one_release"}


def privacy_statement(ledger: PrivacyLedger, weights: str | None = None) -> str:
    """Says what is guaranteed so far, for whom, on what conditions, and what is not covered.

    Args:
        ledger: The `PrivacyLedger` of the run.
        weights: What the weights are known by, 64 hexadecimal digits (see
            `tfdpnorm.training.weights_digest`); None if only the ledger is there.

    Returns:
        Several lines of English, a string: about ten in plain words, then the details under
        headings. Epsilon is rounded upwards. Where no guarantee holds, the text begins with "NO
        GUARANTEE" and gives the reasons. It then gives an epsilon at most as "claimed ... not a
        guarantee".

    Raises:
        ValueError: if `ledger` is not a `PrivacyLedger`.
    """
    arguments.instance("ledger", ledger, PrivacyLedger)
    last = [how_to_check(ledger), _made(ledger, weights), _responsible(ledger)]
    if ledger.guarantee_holds:
        figures, person = Figures(ledger), person_figures(ledger)
        lines = _numbered([*_guaranteed(ledger, figures, person), *last])
        sections = statement_details.of_guarantee(ledger, figures, person)
    else:
        lines = [*_not_guaranteed(ledger), *last]
        sections = statement_details.without_guarantee(ledger)
    sections["Provenance"] = statement_details.provenance(ledger, weights)
    for heading, items in sections.items():
        lines += ["", heading, *map(item, items)]
    return "\n".join(lines)


def _numbered(lines):
    """The lines with their numbers, which docs/privacy_statement.md explains; not items below."""
    numbers = itertools.count(1)
    return [line if line == item(line[2:]) else f"{next(numbers)}. {line}" for line in lines]


def first_line(ledger, figures):
    """Returns the guarantee in a sentence."""
    # An epsilon of 0 may also be one that the accountant cannot tell from it.
    if not was_released(ledger, figures):
        first = "No update has been made: this run's own updates have used no private data. "
        if ledger.state.has("foreign_weights"):
            return (
                f"{first}But the data that its weights were trained on are unknown, so no epsilon "
                "can be stated."
            )
        return (
            f"{first}If its weights were freshly initialised, epsilon = 0. The ledger does not "
            "record which data any other initial weights were trained on."
        )
    of_search = "" if ledger.state.search is None else ", with the search that it is part of,"
    if ledger.unit == "person":
        whom = "one person with all their rows"
    elif ledger.most_rows_per_person is None:
        whom = "one example, not one person"
    else:
        owner = ", who owns at most one" if ledger.most_rows_per_person == 1 else " with several"
        whom = f"one example (a person{owner}: see below)"
    return (
        f"{manner_of(ledger).it}{of_search} satisfies (epsilon, delta)-differential privacy with "
        f"epsilon = {ceil_text(figures.epsilon)} (rounded up) and delta = "
        f"{delta_text(ledger.plan.delta)}, for any {whom}, on the conditions below."
        f"{_of_weakness(ledger)}{_of_rounding(ledger, figures)}{_of_stopping(ledger, figures)}"
        f"{_unconfirmed(ledger)}{_of_weights(ledger, 'see the next line')}"
    )


def _of_rounding(ledger, figures):
    """A sentence on what the accountant's figures leave out; the details say for what."""
    grid = ledger.settings.get("noise_grid")
    more = rounding_loss(ledger, figures.epsilon)[0] if grid else 0.0
    added = total(figures.added)
    parts = [f"{ceil_text(more, 2)} to epsilon"] if more else []
    parts += [f"{ceil_text(added, 2)} to delta"] if added else []
    if not parts:
        return ""
    what = "Rounding adds" if ledger.plan.sampling_rate == 1 else "Rounding and large batches add"
    return (
        f" {what} at most {' and '.join(parts)}: with them, epsilon = "
        f"{ceil_text(figures.epsilon + more)} and delta = {delta_text(figures.delta + added)}."
    )


def _of_stopping(ledger, figures):
    """A sentence on the epsilon that holds if private data decided when to stop, or nothing."""
    is_less = figures.epsilon < figures.whole_plan_epsilon
    if not (is_less and statement_details.stopped_early(ledger.state)):
        return ""
    return (
        " If the decision to stop before the end of the plan looked at the model or at private "
        f"data, epsilon = {ceil_text(figures.whole_plan_epsilon)} instead."
    )


def _of_weakness(ledger):
    """A sentence on a delta that is too large, or nothing."""
    if not has_weak_delta(ledger.plan):
        return ""
    one = unit_of(ledger).one
    return f" Weak: so large a delta allows publishing a whole {one}."


def _unconfirmed(ledger):
    """Sentences on what nobody answers for, and on settings that the private data chose."""
    state, declared = ledger.state, ledger.state.declaration
    of_search = "" if state.search is None else " that the search did not choose"
    of_what = []
    if declared.settings_used_private_data is None:
        of_what.append(f"that the settings{of_search} were not chosen using the private data")
    if state.relies_on_initial_weights and declared.initial_weights_used_private_data is None:
        not_fresh = ", which were not fresh," if state.has_code("initial_weights_not_fresh") else ""
        by = _but_for_known_runs(state)
        weights = f"the initial weights{not_fresh}"
        of_what.append(f"that {weights} were not trained on the private data{by}")
    chosen = f" {_CHOSEN}" if declared.settings_used_private_data else ""
    return f"{chosen} Unconfirmed: {'; '.join(of_what)}." if of_what else chosen


def _but_for_known_runs(state):
    """Words on runs that are known to have trained the initial weights, or nothing."""
    some = state.plan.earlier or state.has_weights_of_guaranteed_runs
    return ", other than by the runs named here" if some else ""


def _of_weights(ledger, where):
    """A sentence on weights from elsewhere, which points to what is known of them, or nothing."""
    if ledger.state.has_weights_of_unknown_runs:
        return f" {_FROM_ELSEWHERE} ({where})."
    return f" {_OF_ANOTHER_RUN} ({where})." if ledger.state.has_code("private_run") else ""


def is_of_all_trials(ledger):
    """Whether a ledger is that of a search of which only the winner may be released."""
    search = ledger.state.search
    return search is not None and not search.is_composed and bool(ledger.state.trials)


def was_released(ledger, figures):
    """Whether anything was released, of this run or of an earlier phase."""
    return bool(ledger.updates or figures.epsilon or ledger.plan.earlier)


def how_to_check(ledger):
    """Returns how the figures are computed again, in a sentence."""
    file = ledger.stated_file
    if file is None and not ledger.guarantee_holds:
        return "How to check it: there is no guarantee to check."
    if file is None:
        return (
            "How to check it: not possible later, since the ledger, the record of the privacy "
            "budget spent, was kept in memory only. If a run has a folder, its ledger is a file "
            "from which anyone can recompute the figures."
        )
    lines, _ = file.tail
    more = "" if ledger.is_as_in_file else _NOT_IN_FILE
    return (
        f"How to check it: tfdpnorm-epsilon --ledger={os.path.basename(file.path)} recomputes "
        "these figures from the ledger, the record of the privacy budget spent: a file whose first "
        f"{lines} lines have the SHA-256 {file.sha256}. {CANNOT_SHOW}"
        f"{more}"
    )


def _guaranteed(ledger, figures, person):
    unit, foreign = unit_of(ledger), ledger.state.sentences("foreign_weights")
    released = was_released(ledger, figures)
    lines = [first_line(ledger, figures), *map(item, foreign)]
    lines.append(
        _meaning(figures, unit) if released else "What it means: nothing has been released yet."
    )
    return [
        *lines,
        _protected(ledger, unit, person, released),
        _published(ledger),
        _secret(ledger),
        _counted(ledger),
        _relies_on(ledger, unit),
    ]


def _meaning(figures, unit):
    rates = figures.true_positive_rates
    return (
        "What it means: an attacker who first believes with 50 % certainty that a given "
        f"{unit.one} is in the training data can become at most {percent(figures.certainty)} "
        "certain of it, and one who is more certain at first can become more so: the odds change "
        f"by a factor of at most {ceil_text(figures.odds, 3)}. Results that allow more have a "
        f"probability of at most {_one_in(figures.delta)}. An attack with false "
        f"positives for 1 % of the {unit.many} outside the data identifies at most "
        f"{percent(rates[0.01])} of those inside; with 0.1 %, at most {percent(rates[0.001])}."
        f"{_of_mu(figures)}"
    )


def _of_mu(figures):
    """A sentence on mu, if attacks with few false positives are about as good as it says.

    What bounds a search is far from a Gaussian mechanism: its mu would look like another guarantee.
    """
    if figures.rate_by_mu(0.01) > 2 * figures.true_positive_rates[0.01]:
        return ""
    return (
        " For experts: attacks with 0.1 % to 99.9 % of false positives do no better than against "
        f"Gaussian differential privacy with mu = {ceil_text(figures.mu, 3)}."
    )


def _one_in(probability):
    if not 0 < probability < 0.5:
        return f"{probability:g}"
    return f"1 in {math.floor((1 + 1e-9) / probability):,}"


def _protected(ledger, unit, person, released):
    text = _who(ledger, unit, person, released)
    if ledger.state.has_code("acted_on_validation"):
        text += " Who is in the validation examples, which guided a choice, is not protected."
    return text


def _who(ledger, unit, person, released):
    whom = f"Who is protected: any one of {ledger.plan.num_examples} {unit.protected}"
    if ledger.unit == "person":
        return (
            f"{whom}, persons as identified by the data holder's ids. The number counts persons, "
            "not rows."
        )
    rows = ledger.most_rows_per_person
    if rows is None or not released:
        return (
            f"{whom}, each individually. If one person owns several of them, this epsilon does "
            "not cover them jointly, and no figure for such a person is stated."
        )
    if person is None:
        return f"{whom}, each individually. {epsilons.persons_unavailable(ledger.state)}"
    if math.isinf(person.epsilon):
        return f"{whom}, each individually. A person who owns {rows} of them is not protected."
    return (
        f"{whom}; and any person who owns {at_most(rows)} of them, with epsilon = "
        f"{ceil_text(person.epsilon)} (rounded up) at the same delta: a certainty of "
        f"50 % becomes at most {percent(person.certainty)} (with the exception of line 2), an "
        "attack with 1 % false positives identifies at most "
        f"{percent(person.true_positive_rates[0.01])} of such persons, and mu = "
        f"{ceil_text(person.mu, 3)}."
    )


def _published(ledger):
    search = ledger.state.search
    if is_of_all_trials(ledger):
        return (
            "What may be published: nothing of this, neither this statement nor the ledger, since "
            "both tell the number of trials, which the guarantee needs to be secret. Publish the "
            "winner, its own statement and its own ledger."
        )
    if search is not None and not search.is_composed:
        first = "only this model of the search: its weights after every update"
    elif search is not None:
        first = "the weights after every update of all trials of the search, their noisy scores"
    else:
        first = manner_of(ledger).published
    also = "this statement" if ledger.stated_file is None else "this statement, and the ledger"
    return (
        f"What may be published: without weakening the guarantee, {first}; every function of them "
        "that does not use the private data again (predictions, averages, exported models); "
        f"{also}.{_of_weights(ledger, 'see line 1')} This is not a legal permission."
    )


def _secret(ledger):
    search = ledger.state.search
    others = ""
    if search is not None and not search.is_composed:
        others = "the other trials, their scores and their number; "
    manner = manner_of(ledger)
    return (
        f"What must stay secret, or be deleted: the training data; {manner.without_noise}{others}"
        f"and the memory of the process: {manner.in_memory}. The noise key was never written to "
        "disk."
    )


def _counted(ledger):
    state, declared = ledger.state, ledger.state.declaration.search
    search = "every other run and search on the same data, whether used or discarded"
    if declared is not None:
        search += f' (on how the settings were found, the data holder states: "{declared}")'
    elif state.search is None:
        used = state.declaration.settings_used_private_data
        search += f" (on how the settings were found, the data holder {_ON_SETTINGS[used]})"
    metrics = "the loss and the metrics that training printed or logged; "
    metrics = metrics if manner_of(ledger).without_noise else ""
    return (
        f"What was counted: {counted(ledger)}. What was not: {search}; {metrics}and everything "
        "else computed from private data "
        f"{'' if state.search is None else 'outside of the search '}(see Not covered)."
    )


def _relies_on(ledger, unit):
    known = {each.code for each in ledger.state.caveats}
    verified = known & _VERIFIED
    how = "(verified)" if verified else "(not fully verified)"
    if verified and "given_features" in known:
        how = "(verified, but for the computation of the features)"
    drawn = "" if ledger.plan.sampling_rate == 1 else "batches drawn at random in secret; "
    settings = "settings that are public and were not chosen using the private data"
    if ledger.state.search is not None:
        settings += ", other than by the counted search"
    used = ledger.state.declaration.settings_used_private_data
    if used:
        settings = "settings that are public: that they were chosen using the private data is not "
        settings += "covered"
    else:
        settings += " (not declared by the data holder)" if used is None else " (as declared)"
    if "given_public_rows" in known:
        settings += "; public rows that are no one's private data"
    settings += _initial_weights(ledger, known)
    return (
        f"What it relies on: {drawn}a noise key that stays secret; "
        f"{manner_of(ledger).contribution} of each {unit.one} that depends on no other {unit.one} "
        f"{how}; {settings}; code of the data holder's, such as callbacks, that neither changes "
        "weights nor keeps private data; and correct software and hardware."
    )


def _initial_weights(ledger, known):
    """What a statement assumes of the weights that the run began with, or nothing."""
    if not ledger.state.relies_on_initial_weights:
        return ""
    fresh = " (not fresh)" if "initial_weights_not_fresh" in known else ""
    used = ledger.state.declaration.initial_weights_used_private_data
    said = "not declared by the data holder" if used is None else "as declared"
    by = _but_for_known_runs(ledger.state)
    return f"; initial weights{fresh} that were not trained on the private data{by} ({said})"


def _not_guaranteed(ledger):
    lines = [
        "NO GUARANTEE: no differential privacy is guaranteed for this training run, and no epsilon "
        "may be stated for it, because:",
        *map(item, ledger.no_guarantee_because),
    ]
    claimed = ledger.claimed_epsilon()
    if ledger.updates and not math.isinf(claimed):
        lines.append(
            f"Not achieved: claimed epsilon = {ceil_text(claimed)} at delta = "
            f"{delta_text(ledger.plan.delta)} (not a guarantee). The accountant computes it "
            "for the settings below, ignoring the reasons above."
        )
    return [
        *lines,
        "What it means: nothing bounds how much the weights reveal about the training data.",
        "Who is protected: no one.",
        "What may be published: neither the model nor anything computed from it, if the training "
        "data are private. Train again without the fault named above.",
        "What must stay secret, or be deleted, if the training data are private: the weights, "
        "everything computed from them, and the output and logs of training.",
    ]


def _made(ledger, weights):
    names = [name for name in ("tfdpnorm", "tensorflow", "keras") if name in ledger.software]
    used = ", ".join(f"{name} {ledger.software[name]}" for name in names)
    known = f"; weights with the SHA-256 {weights}" if weights else ""
    return (
        f"What it is about: run {ledger.run_id}{known}; trained with "
        f"{used or 'unknown software'}; stated on {datetime.date.today().isoformat()}."
    )


def _responsible(ledger):
    declared = ledger.state.declaration
    return (
        f"Responsible person: {declared.responsible or NOT_GIVEN}. Contact: "
        f"{declared.contact or NOT_GIVEN}."
    )
