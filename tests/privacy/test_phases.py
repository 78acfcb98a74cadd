"""Phases of a training: what a later one counts of those before, against dp_accounting itself."""

import dataclasses
import json
import math
import shutil

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from tfdpnorm.privacy import (
    PrivacyBudget,
    create_ledger,
    dp_sgd_event,
    make_plan,
    read_ledger,
    reopen_ledger,
)
from tfdpnorm.privacy.accountants import RDP_ORDERS
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.command import main
from tfdpnorm.privacy.entries import Finish, Query, Search, Updates
from tfdpnorm.privacy.mechanisms import Mechanism
from tfdpnorm.privacy.search import SearchPlan

FIRST, SECOND = Mechanism(0.05, 1.2, 100), Mechanism(0.1, 2.0, 50)
DELTA = 1e-5


def plan_of(part, **settings):
    rate, noise, steps = part[:3]
    given = dict(num_examples=1000, expected_batch_size=1000 * rate, steps=steps, l2_norm_clip=1.0)
    given["most_per_batch"] = 1000
    if "budget" not in settings:
        given |= dict(noise_multiplier=noise, delta=DELTA)
    return make_plan(**{**given, **settings})


@pytest.fixture
def ended(tmp_path):
    """Returns a function that makes the ledger of a run that made all of its updates."""

    def made(part, name="first", *more, **settings):
        ledger = create_ledger(tmp_path / f"{name}.jsonl", plan_of(part, **settings), GRID)
        for entry in more:
            ledger.record(entry)
        ledger.record(Updates(part[2]))
        ledger.close()
        return ledger

    return made


GRID = {"noise_generator": "philox", "noise_grid": "stddev / 32", "sum_rounding": 0.001}


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_epsilon_is_that_of_the_composition(ended, accountant):
    plan = plan_of(SECOND, after=ended(FIRST), accountant=accountant)
    for updates in (0, 50):
        reference = (RdpAccountant(RDP_ORDERS) if accountant == "rdp" else PLDAccountant()).compose(
            dp_sgd_event(*FIRST[:3])
        )
        if updates:
            reference.compose(dp_sgd_event(SECOND[0], SECOND[1], updates))
        expected = reference.get_epsilon(DELTA)
        assert plan.epsilon_after(updates) == pytest.approx(expected, rel=5e-3)
    assert plan.epsilon_after(50) > plan_of(SECOND, accountant=accountant).epsilon_after(50)


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_the_budget_is_of_all_phases(ended, accountant):
    budget = PrivacyBudget(4.0, DELTA)
    plan = plan_of(SECOND, after=ended(FIRST), budget=budget, accountant=accountant)
    assert 0.98 * 4 <= plan.epsilon_after(50) <= 4
    alone = plan_of(SECOND, budget=budget, accountant=accountant)
    assert plan.noise_multiplier > alone.noise_multiplier
    assert plan_of(SECOND, after=ended(FIRST, "b"), budget=PrivacyBudget(math.inf, DELTA))


def test_a_budget_that_is_spent_is_rejected(ended):
    with pytest.raises(
        ValueError, match="spent in the earlier phases, epsilon 2.78.* got epsilon=2"
    ):
        plan_of(SECOND, after=ended(FIRST), budget=PrivacyBudget(2.0, DELTA))


def test_phases_are_a_chain(ended, tmp_path):
    ended(FIRST)
    ended(SECOND, "second", after=tmp_path / "first.jsonl")
    plan = plan_of(FIRST, after=tmp_path / "second.jsonl")
    assert [phase.mechanisms for phase in plan.earlier] == [(FIRST,), (SECOND,)]
    twice = plan_of((FIRST[0], FIRST[1], 2 * FIRST[2]), after=ended(SECOND, "third"))
    assert plan.epsilon_after(FIRST[2]) == pytest.approx(twice.epsilon_after(2 * FIRST[2]))


def test_a_ledger_file_has_the_phases(ended, tmp_path):
    plan = plan_of(SECOND, after=ended(FIRST))
    ledger = create_ledger(tmp_path / "second.jsonl", plan)
    ledger.record(Updates(20))
    ledger.close()
    found = read_ledger(tmp_path / "second.jsonl")
    assert found.plan == plan and found.epsilon() == ledger.epsilon() == plan.epsilon_after(20)
    with pytest.raises(ValueError, match=r"earlier is \[.*'updates': 100.* there and \[\] here"):
        reopen_ledger(tmp_path / "second.jsonl", plan_of(SECOND))


@pytest.mark.parametrize(
    "fields",
    [
        {"run": "a", "updates": 1, "mechanisms": [[0.1, 1.0]]},
        {"run": "a", "updates": 1, "mechanisms": [[2.0, 1.0, 1]]},
        {"run": "a", "updates": 1, "mechanisms": [[0.1, -1.0, 1]]},
        {"run": "a", "updates": -1, "mechanisms": []},
        {"run": "a", "updates": 1, "mechanisms": [], "added_delta": -1.0},
        {"run": "a"},
        {"run": "a", "updates": 1, "mechanisms": [], "other": 1},
    ],
)
def test_invalid_fields_of_phases_are_rejected(fields):
    with pytest.raises((ValueError, TypeError)):
        dataclasses.replace(plan_of(SECOND), earlier=(fields,))


def test_a_run_that_may_go_on_is_rejected(tmp_path):
    ledger = create_ledger(tmp_path / "first.jsonl", plan_of(FIRST))
    ledger.record(Updates(60))
    with pytest.raises(ValueError, match="The run has not ended: 60 of its 100"):
        plan_of(SECOND, after=ledger)
    ledger.record(Finish())
    assert plan_of(SECOND, after=ledger).earlier_mechanisms == [Mechanism(0.05, 1.2, 60)]
    held = create_ledger(tmp_path / "held.jsonl", plan_of(FIRST))
    held.record(caveat("held_to_plan", sentence="its answers decide when it stops"))
    held.record(Updates(60))
    held.record(Finish())
    assert plan_of(SECOND, after=held).earlier_mechanisms == [FIRST]


def test_caveats_of_a_phase_carry_over_to_the_next(ended):
    first = ended(
        FIRST,
        "first",
        caveat("no_guarantee", sentence="rows were drawn by hand"),
        caveat("not_covered", sentence="A vocabulary."),
    )
    plan = plan_of(SECOND, after=first)
    assert plan.no_guarantee_because == ("of an earlier phase: rows were drawn by hand",)
    assert plan.epsilon_after(50) == math.inf
    (phase,) = plan.earlier
    assert phase.not_covered == ("A vocabulary.",) and phase.reasons


def test_queries_of_a_phase_count_as_many_as_were_planned(ended):
    asked = [
        Query("accuracy", 5.0, 40, disjoint=False, queries_planned=3),
        Query("other", 7.0, 40, disjoint=True, queries_planned=2),
    ]
    (phase,) = ended(FIRST, "first", *asked).phases()
    assert phase.mechanisms == (FIRST, Mechanism(1.0, 5.0, 3))
    assert phase.validation == (Mechanism(1.0, 7.0, 2),)
    ledger = ended(SECOND, "second", after=ended(FIRST, "again", *asked))
    reference = RdpAccountant(RDP_ORDERS).compose(dp_accounting.GaussianDpEvent(7.0), 2)
    assert ledger.validation_epsilon() == pytest.approx(reference.get_epsilon(DELTA), rel=1e-6)


def test_a_search_is_no_phase_and_has_none(ended, tmp_path):
    search = SearchPlan(8, math.inf, (FIRST[:3],))
    first = create_ledger(tmp_path / "trial.jsonl", plan_of(FIRST))
    first.record(Search(search))
    first.record(Updates(100))
    with pytest.raises(ValueError, match="a search or of one of its trials .*add its epsilon"):
        plan_of(SECOND, after=first)
    second = create_ledger(tmp_path / "later.jsonl", plan_of(FIRST, after=ended(FIRST)))
    with pytest.raises(ValueError, match="Runs with earlier phases are not supported in a search"):
        second.record(Search(search))


class TestCommand:
    def run(self, capsys, *paths, delta=None):
        given = [f"--ledger={path}" for path in paths]
        given += [] if delta is None else [f"--delta={delta}"]
        assert main([*given, "--json"]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    def test_several_ledgers_compose(self, ended, tmp_path, capsys):
        first, second = ended(FIRST), ended(SECOND, "second")
        rdp, pld = self.run(capsys, first.file.path, second.file.path)
        expected = plan_of(SECOND, after=first).epsilon_after(50)
        assert rdp["epsilon"] == pytest.approx(expected) and pld["epsilon"] < rdp["epsilon"]
        assert rdp["updates"] == 150 and rdp["runs"] == [first.run_id, second.run_id]
        more = self.run(capsys, first.file.path, second.file.path, delta=1e-6)[0]
        assert more["epsilon"] > rdp["epsilon"] and more["delta"] == 1e-6
        assert main([f"--ledger={first.file.path}", f"--ledger={second.file.path}"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith("rdp: epsilon = ") and "2 runs composed, 150 updates" in lines[0]
        assert lines[-1].startswith("Holds for one example, in the data of every run")

    def test_a_phase_and_the_one_after_it_count_once(self, ended, capsys):
        first = ended(FIRST)
        second = ended(SECOND, "second", after=first)
        rdp, _ = self.run(capsys, first.file.path, second.file.path)
        assert rdp["epsilon"] == pytest.approx(second.epsilon())

    def test_disjoint_groups_have_the_largest_epsilon(self, ended, tmp_path, capsys):
        first, second = ended(FIRST), ended(SECOND, "second")
        paths = [f"--ledger={each.file.path}" for each in (first, second)]
        assert main([*paths, "--disjoint"]) == 0
        assert "no example is in the training or validation data of two" in capsys.readouterr().out
        assert main([*paths, "--disjoint", "--json"]) == 0
        record = json.loads(capsys.readouterr().out.splitlines()[0])
        expected = max(first.epsilon("rdp"), second.epsilon("rdp"))
        assert record["epsilon"] == pytest.approx(expected) and record["disjoint"]
        assert record["epsilon"] < self.run(capsys, first.file.path, second.file.path)[0]["epsilon"]
        # With the phases before it, a group's epsilon is that of all of them.
        later = ended(SECOND, "later", after=first)
        others = [f"--ledger={each.file.path}" for each in (later, second)]
        assert main([*others, "--disjoint", "--json"]) == 0
        record = json.loads(capsys.readouterr().out.splitlines()[0])
        assert record["epsilon"] == pytest.approx(later.epsilon("rdp"))
        copy = shutil.copy(first.file.path, tmp_path / "copy.jsonl")
        for path in (later.file.path, copy):  # a phase of the other one, and the same run
            with pytest.raises(SystemExit):
                main([paths[0], f"--ledger={path}", "--disjoint"])
            assert "not disjoint" in capsys.readouterr().err
        for flags in (paths[:1], ["--num_examples=9", "--steps=1", "--delta=1e-5"]):
            with pytest.raises(SystemExit):
                noise = [] if flags == paths[:1] else ["--noise_multiplier=1"]
                main([*flags, *noise, "--disjoint"])
            assert "--disjoint" in capsys.readouterr().err

    def test_two_ledgers_of_one_run_count_twice(self, ended, tmp_path, capsys):
        path = ended(FIRST).file.path
        rdp, _ = self.run(capsys, path, shutil.copy(path, tmp_path / "copy.jsonl"))
        twice = plan_of((FIRST[0], FIRST[1], 200)).epsilon_after(200)
        assert rdp["epsilon"] == pytest.approx(twice)

    def test_one_file_counts_once(self, ended, capsys):
        path = ended(FIRST).file.path
        with pytest.raises(SystemExit):
            main([f"--ledger={path}"] * 2)
        assert "A ledger is given twice" in capsys.readouterr().err

    def test_persons_compose_but_not_with_examples(self, ended, capsys):
        rows = ended(FIRST)
        one, other = (ended(FIRST, name, most_per_person=2) for name in ("one", "other"))
        assert main([f"--ledger={x.file.path}" for x in (one, other)]) == 0
        assert "Holds for one person with any number of rows" in capsys.readouterr().out
        with pytest.raises(SystemExit):
            main([f"--ledger={x.file.path}" for x in (rows, one)])
        said = capsys.readouterr().err
        assert f"Run {one.run_id} protects a person and run {rows.run_id} an example" in said

    def test_without_a_guarantee_of_one_there_is_none(self, ended, capsys):
        first = ended(FIRST, "first", caveat("no_guarantee", sentence="rows were drawn by hand"))
        paths = [f"--ledger={x.file.path}" for x in (first, ended(SECOND, "second"))]
        assert main(paths) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith("rdp: NO GUARANTEE; claimed epsilon = ")
        assert f"- run {first.run_id}: rows were drawn by hand" in lines

    def test_deltas_that_differ_want_one(self, ended, capsys):
        paths = [ended(FIRST).file.path, ended(SECOND, "second", delta=1e-6).file.path]
        with pytest.raises(SystemExit):
            main([f"--ledger={path}" for path in paths])
        assert "The ledgers have different deltas, 1e-06, 1e-05" in (capsys.readouterr().err)
        assert self.run(capsys, *paths, delta=1e-5)[0]["epsilon"] > 0
