"""Planted faults: each is seen by an audit, and the table says what was found."""

import pytest

from tests.faults import audits, planted, report
from trainers.specs import AuditSpec

FAULT = {fault.name: fault for fault in planted.FAULTS}


def test_the_least_count_is_found():
    assert audits._least(lambda v: v >= 17, 40) == 17
    assert audits._least(lambda v: False, 40) == 41


@pytest.mark.slow
def test_a_fault_of_each_kind_is_planted_and_seen():
    """Small, with faults that any number of canaries shows."""
    spec = AuditSpec(model="mlp", norm="layer", epsilon=4.0, expected_batch_size=330)
    names = "clipped at 1.5 C", "each noise used twice", "divided by the lot's own size"
    record = audits.run_planted(
        spec,
        canaries=600,
        num_examples=60,
        steps=2,
        one_step_samples=20,
        faults=[FAULT[name] for name in names],
        echo=lambda line: None,
    )
    caught = {
        row["fault"]: {name for name, audit in row["audits"].items() if audit["caught"]}
        for row in record["rows"]
    }
    assert "sensitivity" in caught[names[0]] and "replay" not in caught[names[0]]
    assert "noise" in caught[names[1]]
    assert "replay" in caught[names[2]]
    text = report.planted_text(record)
    assert text.count("**caught**") == sum(map(len, caught.values()))
    assert "3 of 3 planted faults were caught" in text


def record_of(*rows):
    return {
        "rows": [
            {
                "fault": name,
                "path": "layer",
                "claimed_epsilon": 4.0,
                "true_epsilon": epsilon,
                "noise_multiplier": 1.1,
                "expected": {"noise": 0.25},
                "training_seconds": 3.0,
                "audits": {
                    audit: {"caught": found, "evidence": "", "seconds": 1.0}
                    for audit, found in caught.items()
                },
            }
            for name, epsilon, caught in rows
        ],
        "flags": {
            "epsilon": 4.0,
            "delta": 1e-5,
            "model": "mlp",
            "canaries": 10,
            "num_examples": 10,
            "guesses": 2,
            "steps": 1,
            "expected_batch_size": 10,
            "one_step_samples": 5,
            "level": 0.01,
        },
    }


def test_a_fault_that_nobody_saw_and_a_false_alarm_are_named():
    record = record_of(
        ("no fault", 4.0, {"replay": True, "noise": False}),
        ("noise z / 1.2", 5.25, {"replay": False, "noise": False}),
        ("each noise used twice", float("inf"), {"replay": False, "noise": True}),
    )
    assert report.surprises(record) == ["false alarm of replay", "noise z / 1.2"]
    text = report.planted_text(record)
    assert "1 of 2 planted faults were caught" in text and "none holds" in text
    assert "| noise z / 1.2 (layer) | 5.25 | - | - (25%) |" in text
