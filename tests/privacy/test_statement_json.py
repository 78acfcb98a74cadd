"""The statement as JSON: the figures of the text, and an entry that the registry takes."""

import dataclasses
import json

import dp_accounting
import pytest

from tests.each import each
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
from tfdpnorm.privacy.entries import Query, Updates
from tfdpnorm.privacy.facts import Figures

SETTINGS = {
    "num_examples": 6000,
    "expected_batch_size": 60,
    "steps": 40,
    "l2_norm_clip": 1.25,
    "noise_multiplier": 2.0,
    "delta": 1e-5,
}
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
RECORD = {"url_slug!": TEXT, "status!": ("Draft",), "tier!": (1, 2, 3), "deployment!": SCHEMA}


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


def ledger_of(updates=40, settings=None, **changes):
    ledger = PrivacyLedger(make_plan(**{**SETTINGS, **changes}), settings)
    if updates:
        ledger.record(Updates(updates))
    return ledger


def plain(value):
    """As it comes back from a file; infinities and NaN are rejected."""
    return json.loads(json.dumps(value, allow_nan=False))


def test_weights_of_unknown_provenance_have_no_confirmed_guarantee():
    ledger = ledger_of()
    ledger.record(caveat("weights_replaced", position=1, interventions=1))
    found = statement_json(ledger)
    assert found["guarantee_holds"] is None and found["registry_record"] is None
    assert found["guarantee"]["epsilon"] == ledger.epsilon()
    ledger.record(caveat("no_guarantee", sentence="a reason"))
    assert statement_json(ledger)["guarantee_holds"] is False


@each("unit", ["row", "person"])
def test_the_registry_takes_the_entry(unit):
    ledger = ledger_of(most_per_person=2, unit=unit)
    ledger.record(Declaration("Jane Doe", "jane@example.org", "by hand"))
    found = plain(statement_json(ledger))
    assert departures(found["registry_record"], RECORD) == []
    for name, rows in [("guarantee", None)] + ([("person", 2)] if unit == "row" else []):
        figures = Figures(ledger, rows)
        assert found[name]["epsilon"] == figures.epsilon
        assert found[name]["gaussian_mu"] == figures.mu
        assert found[name]["added_to_delta"] == figures.added


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
def test_epsilon_follows_from_the_numbers(by, accountant, within):
    updates = 23
    plan = dataclasses.replace(make_plan(**SETTINGS, accountant=by), earlier=(FIRST,))
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


def test_the_command_gives_it_again(tmp_path, capsys):
    path = tmp_path / "ledger.jsonl"
    ledger = create_ledger(path, make_plan(**SETTINGS))
    ledger.record(Updates(30))
    ledger.record(Declaration("Jane Doe"))
    assert main([f"--ledger={path}", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record == plain(statement_json(ledger))
    assert record["ledger"]["lines"] == 3
    main([f"--ledger={path}"])
    assert capsys.readouterr().out == privacy_statement(read_ledger(path)) + "\n"
