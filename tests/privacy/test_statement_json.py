"""The statement as JSON: the figures of the text, and an entry that the registry takes."""

import dataclasses
import json
import math

import dp_accounting
import pytest

from tests.each import each
from tests.statements import section
from tfdpnorm.privacy import (
    Declaration,
    PrivacyLedger,
    create_ledger,
    make_plan,
    privacy_statement,
    read_ledger,
    statement_json,
)
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.command import main
from tfdpnorm.privacy.entries import Query, Search, Updates
from tfdpnorm.privacy.figures import Figures
from tfdpnorm.privacy.search import SearchPlan

SETTINGS = {
    "num_examples": 60_000,
    "expected_batch_size": 600,
    "steps": 400,
    "l2_norm_clip": 1.25,
    "noise_multiplier": 2.684,
    "delta": 1e-5,
}
TRIAL = (0.01, SETTINGS["noise_multiplier"], SETTINGS["steps"])
# The schema of the registry in July 2026: required fields are marked, enumerations are tuples.
TEXT, NUMBER, TEXTS = str, float, list
SCHEMA = {
    "basic!": {
        "name!": TEXT,
        "data_curators!": TEXTS,
        "intended_use!": TEXT,
        "data_product_type!": ("Summary statistics", "Machine learning model", "Dataset"),
        "data_product_region!": TEXT,
        "description!": TEXT,
        "publication_date!": TEXT,
        "data_product_sector": TEXT,
    },
    "dp_variant": {
        "variant_name": ("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP"),
        "data_domain": TEXT,
        "unprotected_quantities": TEXT,
    },
    "privacy_loss": {
        "privacy_unit": TEXT,
        "privacy_unit_details": TEXT,
        "privacy_parameters": {"epsilon": NUMBER, "delta": NUMBER, "rho": NUMBER},
        "privacy_parameters_details": TEXT,
    },
    "deployment_model": {
        "model_name": ("Local", "Central", "Shuffle", "Federated"),
        "model_name_details": TEXT,
        "actors": TEXT,
        "release_type": ("One release", "Many releases"),
        "release_type_details": TEXT,
        "data_source_type": ("Static", "Dynamic"),
        "data_source_type_details": TEXT,
        "access_type": ("Interactive", "Non-interactive"),
        "access_type_details": TEXT,
    },
    "accounting": {"post_processing": TEXT, "composition": TEXT},
    "implementation": {
        "preprocessing_and_hyperparameter_tuning": TEXT,
        "mechanisms": TEXT,
        "justification": TEXT,
    },
    "administrative": {"sources": TEXT, "notes": TEXT, "registry_authors!": TEXTS},
}


def departures(value, schema, path=""):
    """What the registry would reject, a list of paths."""
    if isinstance(schema, dict):
        known = {name.rstrip("!"): inner for name, inner in schema.items()}
        missing = [n[:-1] for n in schema if n.endswith("!") and n[:-1] not in value]
        found = [f"{path}/{n} {why}" for why, names in (("missing", missing),) for n in names]
        for name, inner in value.items():
            at = f"{path}/{name}"
            found += departures(inner, known[name], at) if name in known else [f"{at} unknown"]
        return found
    if isinstance(schema, tuple):
        return [] if value in schema else [f"{path} {value!r}"]
    texts = [value] if schema is TEXT else value if schema is TEXTS else []
    is_one = isinstance(value, schema) and all(isinstance(t, str) and t.strip() for t in texts)
    return [] if is_one else [f"{path} {value!r}"]


def ledger_of(updates=400, settings=None, **changes):
    ledger = PrivacyLedger(make_plan(**{**SETTINGS, **changes}), settings)
    if updates:
        ledger.record(Updates(updates))
    return ledger


def plain(value):
    """As it comes back from a file; infinities and NaN are rejected."""
    return json.loads(json.dumps(value, allow_nan=False))


def test_the_figures_are_those_of_the_text():
    ledger = ledger_of(settings={"most_rows_per_person": 3})
    found = plain(statement_json(ledger, "ab" * 32))
    for name, rows in (("guarantee", None), ("person", 3)):
        figures = Figures(ledger, rows)
        assert found[name] == {
            "epsilon": figures.epsilon,
            "delta": 1e-5,
            "added_to_delta": figures.added,
            "whole_plan_epsilon": figures.whole_plan_epsilon,
            "true_positive_rates": {
                "0.01": figures.true_positive_rates[0.01],
                "0.001": figures.true_positive_rates[0.001],
            },
            "gaussian_mu": figures.mu,
        }
    assert found["person"]["epsilon"] > 2 * found["guarantee"]["epsilon"]
    assert found["weights_sha256"] == "ab" * 32 and found["run"] == ledger.run_id
    assert found["guarantee_holds"] is True and found["most_rows_per_person"] == 3


def test_weights_of_unknown_provenance_have_no_confirmed_guarantee():
    ledger = ledger_of()
    ledger.record(caveat("weights_replaced", position=1, interventions=1))
    found = statement_json(ledger)
    assert found["guarantee_holds"] is None and found["deployment"] is None
    assert found["guarantee"]["epsilon"] == ledger.epsilon()
    ledger.record(caveat("no_guarantee", sentence="a reason"))
    assert statement_json(ledger)["guarantee_holds"] is False


@each("settings", [None, {"most_rows_per_person": 2}, {"noise_grid": "stddev / 32"}])
@each("declared", [Declaration(), Declaration("Jane Doe", "jane@example.org", "by hand")])
def test_the_registry_takes_the_entry(settings, declared):
    ledger = ledger_of(settings=settings)
    ledger.record(declared)
    entry = plain(statement_json(ledger))["deployment"]
    assert departures(entry, SCHEMA) == []
    assert entry["privacy_loss"]["privacy_parameters"] == {
        "epsilon": ledger.epsilon(),
        "delta": 1e-5,
    }
    assert entry["basic"]["data_curators"] == [declared.responsible or "not given"]
    for part in ("N = 60000", "q = 0.01", "T = 400", "names of classes", "image size"):
        assert part in entry["dp_variant"]["unprotected_quantities"]


def recomputed(found, accountant, **own):
    """Epsilon from nothing but what a statement holds, by dp_accounting alone."""
    mechanisms = found["parameters"]["mechanisms"]
    mechanisms = [{**mechanisms[0], **own}, *mechanisms[1:]]
    for each_one in mechanisms:
        event = dp_accounting.GaussianDpEvent(each_one["noise_multiplier"])
        event = dp_accounting.PoissonSampledDpEvent(each_one["sampling_rate"], event)
        accountant.compose(event, each_one["count"])
    return accountant.get_epsilon(found["guarantee"]["delta"])


RDP, PLD = dp_accounting.rdp.RdpAccountant, dp_accounting.pld.PLDAccountant
FIRST = {"run": "ab", "updates": 30, "mechanisms": ((0.02, 2.0, 30), (1.0, 9.0, 2))}


@each("by, accountant, within", [("rdp", RDP, 0.01), ("pld", PLD, 2e-3)])
@each("updates", [400, 203])
@each("earlier", [(), (FIRST,)])
def test_epsilon_follows_from_the_numbers(by, accountant, within, updates, earlier):
    plan = dataclasses.replace(make_plan(**SETTINGS, accountant=by), earlier=earlier)
    ledger = PrivacyLedger(plan)
    ledger.record(Updates(updates))
    ledger.record(Query("accuracy", 9.0, 5, disjoint=False))
    found = plain(statement_json(ledger))
    stated, numbers = found["guarantee"]["epsilon"], found["parameters"]
    assert recomputed(found, accountant()) == pytest.approx(stated, rel=within)
    assert numbers["updates"] == numbers["updates_charged"] == updates
    # What was made costs no more than what is stated.
    made = {name: numbers[name] for name in ("sampling_rate", "noise_multiplier")}
    made["sampling_rate"] = numbers["expected_batch_size"] / numbers["num_examples"]
    assert recomputed(found, PLD(), count=updates, **made) <= stated * 1.002


def test_parameters_are_the_settings_and_the_counts():
    ledger = ledger_of(30, most_per_person=2)
    ledger.record(caveat("held_to_plan", sentence="a callback may stop it"))
    assert plain(statement_json(ledger))["parameters"] == {
        "num_examples": 60_000,
        "expected_batch_size": 600,
        "sampling_rate": 0.01,
        "sampling": "poisson",
        "neighbouring_relation": "add_or_remove_one",
        "updates": 30,
        "updates_planned": 400,
        "updates_charged": 400,
        "noise_multiplier": 2.684,
        "l2_norm_clip": 1.25,
        "accountant": "rdp",
        "mechanisms": [{"sampling_rate": 0.01, "noise_multiplier": 2.684, "count": 400}],
    }


@each("settings, known", [(None, 400), ({"secret": "ab"}, None)])
def test_numbers_that_a_search_does_not_have(settings, known):
    ledger = ledger_of(0, settings)
    ledger.record(Search(SearchPlan(20, 1.0, (TRIAL,))))
    found = plain(statement_json(ledger))["parameters"]
    assert found["mechanisms"] is found["updates_charged"] is None
    assert found["updates_planned"] == known and found["num_examples"] == 60_000


def test_the_unit_and_its_bound():
    by_row, by_person = (plain(statement_json(ledger_of(most_per_person=k))) for k in (None, 4))
    assert (by_row["unit"], by_row["bound"]) == ("row", "one example, added or removed")
    assert by_person["unit"] == "person" and by_person["person"] is None
    assert by_person["bound"] == "one person with any number of rows, added or removed"
    entry = by_person["deployment"]
    assert departures(entry, SCHEMA) == []
    assert entry["privacy_loss"]["privacy_unit"] == "Person"
    assert "one person with any number of rows" in entry["privacy_loss"]["privacy_unit_details"]
    assert "number of persons N = 60000" in entry["dp_variant"]["unprotected_quantities"]
    assert "up to 4 of their rows, clipped once" in entry["implementation"]["mechanisms"]
    two = plain(statement_json(ledger_of(settings={"most_rows_per_person": 2})))
    details = two["deployment"]["privacy_loss"]["privacy_unit_details"]
    assert "one person with up to 2 of these examples" in details


def test_a_departure_from_the_registry_is_noticed():
    entry = statement_json(ledger_of())["deployment"]
    entry["basic"].pop("intended_use")
    entry["accounting"]["composition"] = ""
    entry["deployment_model"]["model_name"] = "central"
    entry["privacy_loss"]["bound"] = 1
    assert departures(entry, SCHEMA) == [
        "/basic/intended_use missing",
        "/privacy_loss/bound unknown",
        "/deployment_model/model_name 'central'",
        "/accounting/composition ''",
    ]


@pytest.mark.parametrize("shape", [None, 1.0])
def test_a_search_is_counted_and_said(shape):
    ledger = ledger_of(0)
    ledger.record(Search(SearchPlan(20, shape, (TRIAL,))))
    found = plain(statement_json(ledger))
    assert found["search"]["expected_trials"] == 20
    tuning = found["deployment"]["implementation"]["preprocessing_and_hyperparameter_tuning"]
    assert tuning.startswith("The epsilon includes the search: Search: this run is")


@each("said", [None, "the best of 20 runs on the same data"])
def test_a_search_before_the_run_is_not_counted_and_said(said):
    ledger = ledger_of()
    ledger.record(Declaration("Jane", search=said, settings_used_private_data=bool(said)))
    found = plain(statement_json(ledger))
    assert found["search"] is None and found["search_before"] == said
    assert found["settings_used_private_data"] is bool(said)
    tuning = found["deployment"]["implementation"]["preprocessing_and_hyperparameter_tuning"]
    assert tuning.startswith("Not accounted for")
    assert (said or "None was declared") in tuning


@pytest.mark.parametrize("reason", [None, "a reason"])
def test_what_is_not_covered_is_the_list_of_the_text(reason):
    ledger = ledger_of(settings={"noise_grid": "stddev / 32", "sum_rounding": 0.01})
    ledger.record(caveat("not_covered", sentence="The vocabulary."))
    if reason:
        ledger.record(caveat("no_guarantee", sentence=reason))
    found = plain(statement_json(ledger))["not_covered"]
    assert found == section(privacy_statement(ledger), "Not covered")
    assert found[-1] == "The vocabulary." and len(found) == (2 if reason else 7)


def test_without_a_guarantee_there_are_no_figures():
    ledger = ledger_of(settings={"most_rows_per_person": 2})
    ledger.record(caveat("no_guarantee", sentence="a reason"))
    found = plain(statement_json(ledger))
    assert found["guarantee_holds"] is False and found["no_guarantee_because"] == ["a reason"]
    assert found["guarantee"] is found["person"] is found["deployment"] is None
    assert found["validation_epsilon"] == "inf"


def test_persons_who_are_not_protected():
    found = plain(statement_json(ledger_of(settings={"most_rows_per_person": 900})))
    assert found["person"]["epsilon"] == "inf"
    assert found["person"]["true_positive_rates"]["0.01"] > 0.99


def test_figures_before_any_release():
    found = plain(statement_json(ledger_of(0)))
    assert found["guarantee"]["epsilon"] == 0 and math.isfinite(found["guarantee"]["gaussian_mu"])


def test_the_command_gives_it_again(tmp_path, capsys):
    path = tmp_path / "ledger.jsonl"
    settings = {"noise_generator": "philox", "most_rows_per_person": 2}
    ledger = create_ledger(path, make_plan(**SETTINGS), settings)
    ledger.record(Updates(30))
    ledger.record(Query("accuracy", 9.0, 500))
    ledger.record(Declaration("Jane Doe"))
    assert main([f"--ledger={path}", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["statement"] == plain(statement_json(ledger))
    assert record["statement"]["ledger"]["lines"] == 4
    main([f"--ledger={path}"])
    assert capsys.readouterr().out.endswith(privacy_statement(read_ledger(path)) + "\n")


def test_only_a_ledger_can_be_stated():
    with pytest.raises(ValueError, match="Expected ledger to be a PrivacyLedger"):
        statement_json(make_plan(**SETTINGS))
