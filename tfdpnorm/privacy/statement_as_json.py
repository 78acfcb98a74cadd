"""The privacy statement as JSON, with the fields of the OpenDP deployment registry."""

from __future__ import annotations

import datetime
import math
from typing import TYPE_CHECKING

from tfdpnorm import arguments
from tfdpnorm.privacy import epsilons, statement_details, statement_mechanism
from tfdpnorm.privacy.entries import ANSWERS
from tfdpnorm.privacy.figures import Figures, person_figures
from tfdpnorm.privacy.ledger import PrivacyLedger
from tfdpnorm.privacy.software import software
from tfdpnorm.privacy.statement import NOT_GIVEN
from tfdpnorm.privacy.words import counted, unit_of

if TYPE_CHECKING:
    from typing import Any


FORMAT = "tfdpnorm privacy statement, version 2"
_NOT_OF_TRIALS = ("updates_charged", "mechanisms")  # their epsilon is that of the search
_NOT_OF_SEARCHES = (
    *_NOT_OF_TRIALS,
    *("expected_batch_size", "sampling_rate", "updates", "updates_planned"),
    *("noise_multiplier", "l2_norm_clip"),
)


def statement_json(ledger: PrivacyLedger, weights: str | None = None) -> dict[str, Any]:
    """Returns what `privacy_statement` says, as a dict that JSON can hold.

    Args:
        ledger: See `privacy_statement`.
        weights: See there.

    Returns:
        A dict. "guarantee_holds" is None while it is unconfirmed where the weights come from: the
        figures then hold if no private data trained them. "guarantee" and "person" have the
        figures, None where none hold; infinity is "inf". "parameters" has the numbers that they
        are computed from, see docs/privacy_statement.md. "deployment" is an entry for the OpenDP
        deployment registry, for the data holder to complete where it says "not given"; None
        without a confirmed guarantee.

    Raises:
        ValueError: if `ledger` is not a `PrivacyLedger`.
    """
    arguments.instance("ledger", ledger, PrivacyLedger)
    holds, state = ledger.guarantee_holds, ledger.state
    figures, person = (Figures(ledger), person_figures(ledger)) if holds else (None, None)
    file = ledger.stated_file
    today = datetime.date.today().isoformat()
    told = _details(ledger, figures, person)
    return {
        "format": FORMAT,
        "run": ledger.run_id,
        "date": today,
        "unit": ledger.unit,
        "bound": f"{unit_of(ledger).neighbours}, added or removed",
        "guarantee_holds": ledger.confirmed_guarantee,
        "no_guarantee_because": list(ledger.no_guarantee_because),
        "guarantee": _figures(figures),
        "most_rows_per_person": ledger.most_rows_per_person,
        "person": _figures(person),
        "validation_epsilon": _number(ledger.validation_epsilon()),
        "counted": counted(ledger),
        "parameters": _parameters(ledger),
        "search": None if state.search is None else state.search.entry(),
        "search_before": state.declaration.search,
        **{name: getattr(state.declaration, name) for name in ANSWERS},
        "weights_from_elsewhere": list(state.sentences("foreign_weights")),
        "held_to_plan_because": list(state.sentences("held_to_plan")),
        "not_covered": told["Not covered"],
        "responsible": state.declaration.responsible,
        "contact": state.declaration.contact,
        "weights_sha256": weights,
        "ledger": file and {"lines": file.tail[0], "sha256": file.sha256},
        "trained_with": ledger.software,
        "computed_with": software(),
        "deployment": _deployment(ledger, figures, told, today)
        if ledger.confirmed_guarantee
        else None,
    }


def _details(ledger, figures, person):
    """The details of the text, by heading."""
    if figures is None:
        return statement_details.without_guarantee(ledger)
    return statement_details.of_guarantee(ledger, figures, person)


def _figures(figures):
    if figures is None:
        return None
    return {
        "epsilon": _number(figures.epsilon),
        "delta": figures.delta,
        "added_to_delta": figures.added,
        "whole_plan_epsilon": _number(figures.whole_plan_epsilon),
        "true_positive_rates": {f"{r:g}": x for r, x in figures.true_positive_rates.items()},
        "gaussian_mu": _number(figures.mu),
    }


def _parameters(ledger):
    """The numbers that epsilon is computed from, None where a search has none: trials differ."""
    plan, state = ledger.plan, ledger.state
    found = {
        "num_examples": plan.num_examples,
        "expected_batch_size": plan.expected_batch_size,
        "sampling_rate": plan.sampling_rate,
        "sampling": plan.sampling,
        "neighbouring_relation": "add_or_remove_one",
        "updates": state.updates,
        "updates_planned": plan.steps,
        "updates_charged": plan.steps if state.is_held_to_plan else state.updates,
        "noise_multiplier": plan.noise_multiplier,
        "l2_norm_clip": _number(plan.l2_norm_clip),
        "accountant": plan.accountant,
        "mechanisms": _mechanisms(state),
    }
    if state.search is not None:
        found |= dict.fromkeys(_NOT_OF_SEARCHES if ledger.is_of_search else _NOT_OF_TRIALS)
    return found


def _mechanisms(state):
    """What epsilon composes: of this run, of its noisy answers, of earlier phases."""
    plan = state.plan
    own = (plan.sampling_rate, plan.noise_multiplier, epsilons.updates_in_epsilon(state))
    asked = state.mechanisms(disjoint=False, whole_plan=state.is_held_to_plan)
    names = ("sampling_rate", "noise_multiplier", "count")
    parts = [own, *asked, *plan.earlier_mechanisms]
    return [dict(zip(names, part, strict=True)) for part in parts if part[2]]


def _deployment(ledger, figures, details, today):
    """An entry of the registry, with the names of its schema of July 2026."""
    plan, unit, declared = ledger.plan, unit_of(ledger), ledger.state.declaration
    told = {heading: " ".join(items) for heading, items in details.items()}
    curator = declared.responsible or NOT_GIVEN
    return {
        "basic": {
            "name": f"Model of the training run {ledger.run_id}",
            "data_curators": [curator],
            "intended_use": NOT_GIVEN,
            "data_product_type": "Machine learning model",
            "data_product_region": NOT_GIVEN,
            "description": f"The weights of a model trained by DP-SGD on {plan.num_examples} "
            f"{unit.protected}.",
            "publication_date": today,
        },
        "dp_variant": {
            "variant_name": "Approximate DP",
            "data_domain": f"Sets of {unit.protected}, of the shapes that the model takes.",
            "unprotected_quantities": _unprotected(plan, unit),
        },
        "privacy_loss": {
            "privacy_unit": unit.one.capitalize(),
            "privacy_unit_details": told["Unit and neighbouring relation"],
            "privacy_parameters": {"epsilon": figures.epsilon, "delta": figures.delta},
            "privacy_parameters_details": told["Guarantee"],
        },
        "deployment_model": {
            "model_name": "Central",
            "actors": told["Threat model and assumptions"],
            "release_type": "One release",
            "release_type_details": told["Released"],
            "data_source_type": "Static",
            "access_type": "Non-interactive",
        },
        "accounting": {
            "post_processing": "The optimizer, averages of weights, predictions and exports are "
            "functions of noisy sums and cost nothing.",
            "composition": told["Accounting"],
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": _tuning(ledger),
            "mechanisms": f"{told['Mechanism and settings']} {told['Numerical safety']}",
            "justification": NOT_GIVEN,
        },
        "administrative": {
            "notes": f"Not covered: {told['Not covered']}",
            "registry_authors": [curator],
        },
    }


def _unprotected(plan, unit):
    return (
        f"The number of {unit.many} N = {plan.num_examples}, the sampling rate q = "
        f"{plan.sampling_rate:.6g}, the expected batch size {plan.expected_batch_size}, the "
        f"number of updates T = {plan.steps}, the architecture of the model, the shapes of inputs "
        "and targets (such as image size), the number and the names of classes, and all settings."
    )


def _tuning(ledger):
    state = ledger.state
    if state.search is not None:
        return f"The epsilon includes the search: {' '.join(statement_mechanism.search(ledger))}"
    declared = state.declaration.search
    if declared is None:
        return "Not accounted for: preprocessing, and any search for settings. None was declared."
    return (
        "Not accounted for: preprocessing, and any search for settings. Of the latter, the data "
        f'holder says: "{declared}".'
    )


def _number(value):
    return "inf" if math.isinf(value) else value  # JSON has no infinity.
