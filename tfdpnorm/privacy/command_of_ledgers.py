"""The lines of `tfdpnorm-epsilon --ledger`: the epsilon of a run, or of several composed."""

import math
import os

from tfdpnorm import arguments
from tfdpnorm.choices import ACCOUNTANTS
from tfdpnorm.privacy.accountants import composed_epsilon
from tfdpnorm.privacy.added_delta import added_to_phases
from tfdpnorm.privacy.caveats import UNITS
from tfdpnorm.privacy.command_of_settings import check_alone, printed, records_of, rounded
from tfdpnorm.privacy.facts import CANNOT_SHOW
from tfdpnorm.privacy.ledger import read_ledger
from tfdpnorm.privacy.rounding import ceil_text, delta_text, json_number
from tfdpnorm.privacy.statement import privacy_statement
from tfdpnorm.privacy.statement_as_json import statement_json

_IF_DISJOINT = (
    "It is your statement that no {0} is in the training or validation data of two ledgers, and "
    "that the group of a {0} depends on nothing but public facts and that {0}. "
)


def lines(flags):
    """Returns the lines for one ledger or several."""
    check_alone(
        flags,
        ("ledger", "accountant", "json", *(["delta", "disjoint"] if len(flags.ledger) > 1 else [])),
        "--ledger cannot be combined with {}, since the ledger holds its own settings. Remove the "
        "others.",
    )
    if len(flags.ledger) > 1:
        if len({os.path.realpath(path) for path in flags.ledger}) < len(flags.ledger):
            raise ValueError("A ledger is given twice, and would count twice. Give each file once.")
        return _composed(flags, [read_ledger(path) for path in flags.ledger])
    ledger = read_ledger(flags.ledger[0])
    names = (
        ACCOUNTANTS if flags.accountant == "both" else (flags.accountant or ledger.plan.accountant,)
    )
    stated = statement_json(ledger)
    records = records_of(names, lambda name: _record(ledger, stated, name))
    return printed(flags, records, _sentence, *([] if flags.json else _remarks(ledger)))


def _composed(flags, ledgers):
    """The epsilon of several runs composed.

    A run that has a ledger here and is an earlier phase of another one counts once, if both say the
    same of it. Two ledgers of one run count twice: a copied folder may have gone on by itself.

    With --disjoint, each ledger is of other examples or persons: only one of them, with its earlier
    phases, is a function of any one person, and the largest epsilon holds (parallel composition,
    McSherry 2009, Theorem 4; also where runs depend on the results of earlier ones, which is
    post-processing for a person of an earlier one).
    """
    deltas = sorted({ledger.plan.delta for ledger in ledgers})
    if flags.delta is None and len(deltas) > 1:
        raise ValueError(
            f"The ledgers have different deltas, {', '.join(map(repr, deltas))}, and there is no "
            "--delta. Pass the delta of the composed guarantee."
        )
    delta = deltas[0] if flags.delta is None else arguments.open_unit("--delta", flags.delta)
    runs = [ledger.as_phase() for ledger in ledgers]
    units = {phase.unit: phase.run for phase in runs}
    if len(units) > 1:
        raise ValueError(
            f"Run {units['person']} protects a person and run {units['row']} an example: their "
            "epsilons do not compose. Give the ledgers of runs that protect the same."
        )
    groups = [[ledger.as_phase(), *ledger.plan.earlier] for ledger in ledgers]
    earlier = dict.fromkeys(phase for ledger in ledgers for phase in ledger.plan.earlier)
    if flags.disjoint and sum(map(len, groups)) > len({p.run for group in groups for p in group}):
        raise ValueError(
            "A run is in two of the ledgers, or a phase of two: their data are not disjoint. Give "
            "one ledger for each group, or leave --disjoint out."
        )
    runs += [phase for phase in earlier if phase not in runs]
    groups = groups if flags.disjoint else [runs]
    is_unconfirmed = any(ledger.confirmed_guarantee is None for ledger in ledgers)
    reasons = [f"run {phase.run}: {reason}" for phase in runs for reason in phase.reasons]

    def record_of(accountant):
        epsilons = [
            [
                composed_epsilon([part for p in parts for part in p], delta, accountant)
                for parts in ([p.mechanisms for p in group], [p.validation for p in group])
            ]
            for group in groups
        ]
        trained, validated = (max(each) for each in zip(*epsilons, strict=True))
        found = [added_to_phases(g, e, delta) for g, (e, _) in zip(groups, epsilons, strict=True)]
        added = max(each for each, _ in found)
        because = [*reasons, *(excess for _, excess in found if excess)]
        return {
            "ledgers": [ledger.file.path for ledger in ledgers],
            "runs": [phase.run for phase in runs],
            "unit": ledgers[0].unit,
            "accountant": accountant,
            "guarantee_holds": None if is_unconfirmed and not because else not because,
            "no_guarantee_because": because,
            "epsilon": json_number(math.inf if because else trained),
            "claimed_epsilon": json_number(trained),
            "validation_epsilon": json_number(math.inf if because else validated),
            "delta": delta,
            "added_to_delta": added,
            "updates": sum(phase.updates for phase in runs),
            "disjoint": flags.disjoint,
            "adjacency": "add_or_remove_one",
        }

    names = ACCOUNTANTS if flags.accountant in (None, "both") else (flags.accountant,)
    records = records_of(names, record_of)
    said = _IF_DISJOINT.format(UNITS[ledgers[0].unit].one) if flags.disjoint else ""
    because = dict.fromkeys(y for x in records for y in x.get("no_guarantee_because", ()))
    return printed(
        flags,
        records,
        _composed_sentence,
        *(f"- {reason}" for reason in because),
        *(f"- run {phase.run}: {phase.in_words}" for phase in runs),
        f"Holds for {UNITS[ledgers[0].unit].neighbours}, in the data of every run "
        "(add_or_remove_one). It assumes that the results of a run influenced neither the noise, "
        "the sampling rate and the number of updates of another run, nor the time at which it "
        f"ended. {said}Each run's own statement lists what it does not cover: tfdpnorm-epsilon "
        "--ledger=FILE.",
    )


def _composed_sentence(record):
    spent = (
        f"{len(record['runs'])} runs {'of disjoint data' if record['disjoint'] else 'composed'}, "
        f"{record['updates']} updates, at delta = "
        f"{delta_text(record['delta'])}"
    )
    if record["guarantee_holds"] is False:
        return (
            f"NO GUARANTEE; claimed epsilon = {rounded(record['claimed_epsilon'])} (not a "
            f"guarantee) for {spent}, because:"
        )
    sentence = (
        f"epsilon = {rounded(record['epsilon'])} (rounded up) for {spent}, to which at most "
        f"{ceil_text(record['added_to_delta'])} is added"
    )
    if record["validation_epsilon"]:
        sentence += f"; for validation examples epsilon = {rounded(record['validation_epsilon'])}"
    return sentence


def _record(ledger, stated, accountant):
    plan, state = ledger.plan, ledger.state
    return {
        "ledger": ledger.file.path,
        "accountant": accountant,
        "guarantee_holds": stated["guarantee_holds"],
        "no_guarantee_because": stated["no_guarantee_because"],
        "epsilon": json_number(ledger.epsilon(accountant) if stated["guarantee"] else math.inf),
        "claimed_epsilon": json_number(ledger.claimed_epsilon(accountant)),
        "whole_plan_epsilon": json_number(ledger.epsilon(accountant, whole_plan=True)),
        "validation_epsilon": json_number(ledger.validation_epsilon(accountant)),
        "delta": plan.delta,
        "updates": state.updates,
        "position": state.position,
        "steps": plan.steps,
        "lost_updates": state.lost_updates,
        "resumes": state.resumes,
        "queries": state.queries(),
        "torn": ledger.file.torn,
        "lines": ledger.file.tail[0],
        "noise_multiplier": plan.noise_multiplier,
        "l2_norm_clip": json_number(plan.l2_norm_clip),
        "sampling_rate": plan.sampling_rate,
        "num_examples": plan.num_examples,
        "adjacency": "add_or_remove_one",
        "sampling": "poisson",
        "most_per_batch": plan.most_per_batch,
        "held_to_plan_because": stated["held_to_plan_because"],
        "excluded": list(state.sentences("not_covered")),
        "foreign": stated["weights_from_elsewhere"],
        "finished": state.is_finished,
        "search": stated["search"],
        "is_of_search": ledger.is_of_search,
        "settings": ledger.settings,  # As in the header of the ledger.
        "statement": stated,
    }


def _sentence(record):
    spent = f"at delta = {delta_text(record['delta'])}, for "
    if record["is_of_search"]:
        spent += "a whole search: this is its own ledger, and each of its trials has another one"
    else:
        spent += (
            f"{record['updates']} of {record['steps']} planned updates, which are spent; the "
            f"present weights result from {record['position']} of them"
        )
    if record["guarantee_holds"] is not False:
        return f"epsilon = {rounded(record['epsilon'])} (rounded up) {spent}"
    return (
        f"NO GUARANTEE; claimed epsilon = {rounded(record['claimed_epsilon'])} (not a guarantee) "
        f"{spent}"
    )


def _remarks(ledger):
    lines, state = ledger.file.tail[0], "none of them torn"
    if ledger.file.torn:
        state = "the last line is torn: the updates it announces did not happen and are not counted"
    return [
        f"Ledger: {lines} lines; {state}. {CANNOT_SHOW}",
        *privacy_statement(ledger).splitlines(),
    ]
