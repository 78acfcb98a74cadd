"""The privacy statement as JSON, with a record for the OpenDP deployment registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdpnorm.privacy.entries import ANSWERS
from tfdpnorm.privacy.facts import facts_of
from tfdpnorm.privacy.rounding import json_number
from tfdpnorm.privacy.statement import sections_of

if TYPE_CHECKING:
    from typing import Any

    from tfdpnorm.privacy.ledger import PrivacyLedger


NOT_GIVEN = "not given"
FORMAT = "tfdpnorm privacy statement, version 3"
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
        are computed from, see docs/privacy_statement.md. "registry_record" is a draft for the
        OpenDP deployment registry, for the data holder to complete where it says "not given"; None
        without a confirmed guarantee.

    Raises:
        ValueError: if `ledger` is not a `PrivacyLedger`.
    """
    facts = facts_of(ledger, weights)
    declared, file, search = facts["declared"], facts["file"], facts["search"]
    details = sections_of(facts)
    return {
        "format": FORMAT,
        "run": facts["run"],
        "date": facts["date"],
        "unit": facts["plan"].unit,
        "bound": f"{facts['unit'].neighbours}, added or removed",
        "guarantee_holds": facts["confirmed"],
        "no_guarantee_because": list(facts["reasons"]),
        "guarantee": _figures(facts["figures"]),
        "most_per_person": facts["plan"].most_per_person,
        "person": _figures(facts["person"]),
        "validation_epsilon": json_number(facts["validation_epsilon"]),
        "counted": facts["counted"],
        "parameters": _parameters(facts),
        "search": None if search is None else search.entry(),
        "search_before": declared.search,
        **{name: getattr(declared, name) for name in ANSWERS},
        "weights_from_elsewhere": list(facts["foreign_weights"]),
        "held_to_plan_because": list(facts["held_to_plan"]),
        "not_covered": details["Not covered"],
        "responsible": declared.responsible,
        "contact": declared.contact,
        "weights_sha256": facts["weights"],
        "ledger": file and {"lines": file.lines, "sha256": file.sha256},
        "trained_with": facts["software"],
        "computed_with": facts["computed_with"],
        "registry_record": _registry_record(facts, details) if facts["confirmed"] else None,
    }


def _figures(figures):
    if figures is None:
        return None
    return {
        "epsilon": json_number(figures.epsilon),
        "delta": figures.delta,
        "added_to_delta": figures.added,
        "whole_plan_epsilon": json_number(figures.whole_plan_epsilon),
        "true_positive_rates": figures.true_positive_rates,
        "gaussian_mu": json_number(figures.mu),
    }


def _parameters(facts):
    """The numbers that epsilon is computed from, None where a search has none: trials differ."""
    plan, state = facts["plan"], facts["state"]
    own = plan.mechanism(facts["updates_in_epsilon"])
    asked = state.mechanisms(disjoint=False, whole_plan=state.is_held_to_plan)
    # Epsilon composes those of this run, of its noisy answers, and of earlier phases.
    mechanisms = [own, *asked, *plan.earlier_mechanisms]
    found = {
        "num_examples": plan.num_examples,
        "expected_batch_size": plan.expected_batch_size,
        "sampling_rate": plan.sampling_rate,
        "sampling": "poisson",
        "most_per_batch": plan.most_per_batch,
        "neighbouring_relation": "add_or_remove_one",
        "updates": state.updates,
        "updates_planned": plan.steps,
        "updates_charged": facts["charged_updates"],
        "noise_multiplier": plan.noise_multiplier,
        "l2_norm_clip": json_number(plan.l2_norm_clip),
        "accountant": plan.accountant,
        "mechanisms": [each._asdict() for each in mechanisms if each.count],
    }
    if facts["search"] is not None:
        found |= dict.fromkeys(_NOT_OF_SEARCHES if facts["is_of_search"] else _NOT_OF_TRIALS)
    return found


def _registry_record(facts, details):
    """A record of the registry, in the form of its schema of July 2026."""
    plan, unit, figures = facts["plan"], facts["unit"], facts["figures"]
    told = {heading: " ".join(sentences) for heading, sentences in details.items()}
    curator = facts["declared"].responsible or NOT_GIVEN
    deployment = {
        "basic": {
            "name": f"Model of the training run {facts['run']}",
            "data_curators": [curator],
            "intended_use": NOT_GIVEN,
            "data_product_type": "Machine learning model",
            "data_product_region": NOT_GIVEN,
            "description": f"The weights of a model trained by DP-SGD on {plan.num_examples} "
            f"{unit.protected}.",
            "publication_date": facts["date"],
        },
        "dp_variant": {
            "variant_name": "Approximate DP",
            "data_domain": f"Sets of {unit.protected}, of the shapes that the model takes.",
            "unprotected_quantities": f"The number of {unit.many} N = {plan.num_examples}, the "
            f"sampling rate q = {plan.sampling_rate:.6g}, the expected batch size "
            f"{plan.expected_batch_size}, the number of updates T = {plan.steps}, the architecture "
            "of the model, the shapes of inputs and targets (such as image size), the number and "
            "the names of classes, and all settings.",
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
            "preprocessing_and_hyperparameter_tuning": _tuning(facts, details),
            "mechanisms": f"{told['Mechanism and settings']} {told['Numerical safety']}",
            "justification": NOT_GIVEN,
        },
        "administrative": {
            "notes": f"Not covered: {told['Not covered']}",
            "registry_authors": [curator],
        },
    }
    return {
        "url_slug": f"training-run-{facts['run']}",
        "status": "Draft",
        "tier": 3,
        "deployment": deployment,
    }


def _tuning(facts, details):
    if facts["search"] is not None:
        of_search = [x for x in details["Accounting"] if x.startswith(("Search: ", "Scores: "))]
        return f"The epsilon includes the search: {' '.join(of_search)}"
    declared = facts["declared"].search
    if declared is None:
        return "Not accounted for: preprocessing, and any search for settings. None was declared."
    return (
        "Not accounted for: preprocessing, and any search for settings. Of the latter, the data "
        f'holder says: "{declared}".'
    )
