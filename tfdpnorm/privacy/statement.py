"""The privacy statement: plain English for the person who has to sign for an epsilon.

Its first lines say the whole in plain words, the rest gives the details under fixed headings
(`tfdpnorm.privacy.statement_details`). What is known of a run is in its ledger; whatever else is
said here follows from the ledger alone, so that `tfdpnorm-epsilon --ledger=...` says it again.
"""

from __future__ import annotations

import datetime
import math
import os

from tfdpnorm import arguments
from tfdpnorm.privacy import epsilons, statement_details
from tfdpnorm.privacy.figures import Figures, person_figures
from tfdpnorm.privacy.ledger import PrivacyLedger
from tfdpnorm.privacy.rounding import ceil_text
from tfdpnorm.privacy.words import counted, item, percent, unit_of

NOT_GIVEN = "not given"
_VERIFIED = {"verified_from_graph", "computed_per_example"}


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
    if ledger.guarantee_holds:
        figures, person = Figures(ledger), person_figures(ledger)
        lines = _guaranteed(ledger, figures, person)
        sections = statement_details.of_guarantee(ledger, figures, person)
    else:
        lines = _not_guaranteed(ledger)
        sections = statement_details.without_guarantee(ledger)
    lines += [how_to_check(ledger), _made(ledger, weights), _responsible(ledger)]
    sections["Provenance"] = statement_details.provenance(ledger, weights)
    for heading, items in sections.items():
        lines += ["", heading, *map(item, items)]
    return "\n".join(lines)


def first_line(ledger, figures):
    """Returns the guarantee in a sentence."""
    # An epsilon of 0 may also be one that the accountant cannot tell from it.
    if not was_released(ledger, figures):
        first = "No update has been made: this run has used no private data so far. "
        if ledger.state.has("foreign_weights"):
            return (
                f"{first}But what its weights have seen is not known, and no epsilon can be stated."
            )
        return (
            f"{first}If its weights were freshly initialised, epsilon = 0; what any others that it "
            "began with have seen is not known to it."
        )
    of_search = "" if ledger.state.search is None else ", with the search that it is part of,"
    return (
        f"Training{of_search} satisfies (epsilon, delta)-differential privacy with epsilon = "
        f"{ceil_text(figures.epsilon)} (rounded up) and delta = {ledger.plan.delta!r}."
    )


def was_released(ledger, figures):
    """Whether anything was released, of this run or of an earlier phase."""
    return bool(ledger.updates or figures.epsilon or ledger.plan.earlier)


def how_to_check(ledger):
    """Returns how the figures are computed again, in a sentence."""
    file = ledger.stated_file
    if file is None:
        return (
            "How to check it: not possible later, since this run kept its ledger, the account of "
            "what it spent, in memory alone. With a folder for the run, the ledger is a file, from "
            "which anybody can compute the figures again."
        )
    lines, _ = file.tail
    return (
        f"How to check it: tfdpnorm-epsilon --ledger={os.path.basename(file.path)} computes these "
        f"figures again from the ledger, the account of what the run spent: a file whose first "
        f"{lines} lines have the SHA-256 {file.sha256}."
    )


def _guaranteed(ledger, figures, person):
    unit, foreign = unit_of(ledger), ledger.state.sentences("foreign_weights")
    released = was_released(ledger, figures)
    lines = [first_line(ledger, figures), *map(item, foreign)]
    lines.append(_meaning(figures, unit) if released else "What it means: nothing to learn yet.")
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
        f"What it means: an attacker who thinks it as likely as not that a certain {unit.one} is "
        f"in the training data can become at most {percent(figures.certainty)} sure of it: the "
        f"odds change by a factor of at most e^epsilon = {ceil_text(figures.odds, 3)}, up to a "
        "failure with a probability of delta. An attack that wrongly accuses 1 % of the "
        f"{unit.many} that are not in the data finds at most {percent(rates[0.01])} of those that "
        f"are; one that wrongly accuses 0.1 % finds at most {percent(rates[0.001])}. For experts: "
        "attacks do no better than on Gaussian differential privacy with mu = "
        f"{ceil_text(figures.mu, 3)}."
    )


def _protected(ledger, unit, person, released):
    whom = f"Who is protected: any one of {ledger.plan.num_examples} {unit.protected}"
    if ledger.unit == "person":
        return f"{whom}. The number counts persons, not rows."
    rows = ledger.most_rows_per_person
    if rows is None or not released:
        return (
            f"{whom}, each by itself. If one person owns several of them, this epsilon does not "
            "cover them jointly, and no figure for such a person is stated."
        )
    if person is None:
        return f"{whom}, each by itself. {epsilons.persons_unavailable(ledger.state)}"
    if math.isinf(person.epsilon):
        return f"{whom}, each by itself. A person with {rows} of them is not protected."
    return (
        f"{whom}; and any person who owns up to {rows} of them, with epsilon = "
        f"{ceil_text(person.epsilon)} (rounded up) at the same delta: even odds become at most "
        f"{percent(person.certainty)}, an attack that wrongly accuses 1 % finds at "
        f"most {percent(person.true_positive_rates[0.01])} of such persons, and mu = "
        f"{ceil_text(person.mu, 3)}."
    )


def _published(ledger):
    search = ledger.state.search
    if search is not None and not search.is_composed:
        first = "of the search, this model alone: its weights after every update"
    elif search is not None:
        first = "the weights after every update of all trials of the search, their noised scores"
    else:
        first = "the model, with its weights after every update, the released ones included"
    return (
        f"What may be published: {first}; every function of them that does not use the private "
        "data again (predictions, averages, exported models); this statement, and the ledger."
    )


def _secret(ledger):
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


def _counted(ledger):
    state, declared = ledger.state, ledger.state.declaration.search
    search = "every other run and search on the same data, kept or thrown away"
    if declared is not None:
        search += f' (of how the settings were found, the data holder says: "{declared}")'
    elif state.search is None:
        search += " (of how the settings were found, the data holder says nothing)"
    return (
        f"What was counted: {counted(ledger)}. What was not: {search}; the loss and the metrics "
        "that training printed or logged; and whatever else was computed from private data "
        f"{'' if state.search is None else 'outside of the search '}(see Not covered)."
    )


def _relies_on(ledger, unit):
    known = {each.code for each in ledger.state.caveats}
    verified = known & _VERIFIED and "randomized_check_only" not in known
    how = "which was verified" if verified else "as far as it was checked"
    drawn = "" if ledger.plan.sampling_rate == 1 else "batches drawn at random in secret; "
    return (
        f"What it relies on: {drawn}noise from a key that nobody learns; gradients of each "
        f"{unit.one} that depend on no other one, {how}; settings that are public and were not "
        "chosen by the private data; and programs and a processor that compute as they should."
    )


def _not_guaranteed(ledger):
    lines = [
        "NO GUARANTEE: no differential privacy is guaranteed for this training run, and no epsilon "
        "may be stated for it, because:",
        *map(item, ledger.state.sentences("no_guarantee")),
    ]
    claimed = ledger.claimed_epsilon()
    if ledger.updates and not math.isinf(claimed):
        lines.append(
            f"For comparison only, claimed epsilon = {ceil_text(claimed)} at delta = "
            f"{ledger.plan.delta!r} (not a guarantee): the accountant's formula gives it for the "
            "settings below, as if nothing were known against them."
        )
    return [
        *lines,
        "What it means: nothing bounds what the weights tell of the training data.",
        "Who is protected: nobody.",
        "What may be published: nothing that rests on this statement.",
        "What must stay secret, or be deleted, if the training data are private: the weights, "
        "whatever was computed from them, and what training printed or logged.",
    ]


def _made(ledger, weights):
    names = [name for name in ("tfdpnorm", "tensorflow", "keras") if name in ledger.software]
    used = ", ".join(f"{name} {ledger.software[name]}" for name in names)
    known = f"; weights with the SHA-256 {weights}" if weights else ""
    return (
        f"What it is about: run {ledger.run_id}{known}; trained by "
        f"{used or 'software that is not known'}; stated on {datetime.date.today().isoformat()}."
    )


def _responsible(ledger):
    declared = ledger.state.declaration
    return (
        f"Responsible person: {declared.responsible or NOT_GIVEN}. Contact: "
        f"{declared.contact or NOT_GIVEN}."
    )
