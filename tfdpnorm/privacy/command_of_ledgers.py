"""The lines of `tfdpnorm-epsilon --ledger`: the statement of a run, or several runs composed."""

import json
import math
import os
import warnings

from tfdpnorm import arguments
from tfdpnorm.choices import ACCOUNTANTS
from tfdpnorm.errors import PrivacyWarning
from tfdpnorm.privacy.accountants import composed_epsilon
from tfdpnorm.privacy.added_delta import added_to_phases
from tfdpnorm.privacy.caveats import UNITS
from tfdpnorm.privacy.command_of_settings import printed, rounded
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
    if len({os.path.realpath(path) for path in flags.ledger}) < len(flags.ledger):
        raise ValueError("A ledger is given twice, and would count twice. Give each file once.")
    ledgers = [read_ledger(path) for path in flags.ledger]
    if len(ledgers) > 1:
        return _composed(flags, ledgers)
    if flags.disjoint or flags.delta is not None or flags.accountant is not None:
        raise ValueError(
            "--disjoint, --delta and --accountant are for several ledgers: one holds its own "
            "settings. Leave them out."
        )
    if ledgers[0].file.torn:
        warnings.warn(
            "The last line of the ledger is torn: the updates it announces did not happen, and are "
            "not counted.",
            PrivacyWarning,
            stacklevel=2,
        )
    if flags.json:
        return [json.dumps(statement_json(ledgers[0]))]
    return privacy_statement(ledgers[0]).splitlines()


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
    groups = [[run, *ledger.plan.earlier] for run, ledger in zip(runs, ledgers, strict=True)]
    if flags.disjoint and sum(map(len, groups)) > len({p.run for group in groups for p in group}):
        raise ValueError(
            "A run is in two of the ledgers, or a phase of two: their data are not disjoint. Give "
            "one ledger for each group, or leave --disjoint out."
        )
    earlier = dict.fromkeys(phase for group in groups for phase in group[1:])
    runs += [phase for phase in earlier if phase not in runs]
    groups = groups if flags.disjoint else [runs]
    is_unconfirmed = any(ledger.confirmed_guarantee is None for ledger in ledgers)
    reasons = [f"run {phase.run}: {reason}" for phase in runs for reason in phase.reasons]

    def spent(of_phase, accountant):
        """The epsilon of each group."""
        parts = [[part for phase in group for part in of_phase(phase)] for group in groups]
        return [composed_epsilon(each, delta, accountant) for each in parts]

    def record_of(accountant):
        trained = spent(lambda phase: phase.mechanisms, accountant)
        validated = max(spent(lambda phase: phase.validation, accountant))
        found = [added_to_phases(g, e, delta) for g, e in zip(groups, trained, strict=True)]
        because = [*reasons, *(excess for _, excess in found if excess)]
        return {
            "ledgers": flags.ledger,
            "runs": [phase.run for phase in runs],
            "unit": ledgers[0].unit,
            "accountant": accountant,
            "guarantee_holds": None if is_unconfirmed and not because else not because,
            "no_guarantee_because": because,
            "epsilon": json_number(math.inf if because else max(trained)),
            "claimed_epsilon": json_number(max(trained)),
            "validation_epsilon": json_number(math.inf if because else validated),
            "delta": delta,
            "added_to_delta": max(added for added, _ in found),
            "updates": sum(phase.updates for phase in runs),
            "disjoint": flags.disjoint,
            "adjacency": "add_or_remove_one",
        }

    def remarks(records):
        unit = UNITS[ledgers[0].unit]
        because = dict.fromkeys(y for x in records for y in x["no_guarantee_because"])
        return [
            *(f"- {reason}" for reason in because),
            *(f"- run {phase.run}: {phase.in_words}" for phase in runs),
            f"Holds for {unit.neighbours}, in the data of every run (add_or_remove_one). It "
            "assumes that the results of a run influenced neither the noise, the sampling rate and "
            "the number of updates of another run, nor the time at which it ended. "
            f"{_IF_DISJOINT.format(unit.one) if flags.disjoint else ''}Each run's own statement "
            "lists what it does not cover: tfdpnorm-epsilon --ledger=FILE.",
        ]

    names = ACCOUNTANTS if flags.accountant in (None, "both") else (flags.accountant,)
    return printed(flags, names, record_of, _composed_sentence, remarks)


def _composed_sentence(record):
    spent = (
        f"{len(record['runs'])} runs {'of disjoint data' if record['disjoint'] else 'composed'}, "
        f"{record['updates']} updates, at delta = {delta_text(record['delta'])}"
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
