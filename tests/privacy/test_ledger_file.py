"""The ledger file: written first, and read back as it was."""

import dataclasses
import errno
import io
import json
import math
import os

import pytest

from tests.privacy.ledger_doubles import PLAN, RUN_SETTINGS, SETTINGS, announced, fill
from tfdpnorm import files
from tfdpnorm.privacy import (
    LedgerCorruptError,
    PrivacyBudget,
    PrivacyLedger,
    create_ledger,
    make_plan,
    read_ledger,
    reopen_ledger,
)
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.entries import ENTRIES, Finish, Query, Resume, Search, Trial, Updates
from tfdpnorm.privacy.search import SearchPlan


def test_entries_are_read_as_written(path):
    ledger = fill(create_ledger(path, PLAN, RUN_SETTINGS))
    memory = fill(PrivacyLedger(PLAN, RUN_SETTINGS))
    read = read_ledger(path)
    assert read.state == ledger.state == memory.state
    assert read.plan == PLAN and read.settings == RUN_SETTINGS and not read.file.torn
    assert read.file.tail == ledger.file.tail and read.epsilon() == memory.epsilon()
    ledger.record(caveat("no_guarantee", sentence="a reason"))
    ledger.record(Finish())
    trial = (PLAN.sampling_rate, PLAN.noise_multiplier, PLAN.steps)
    ledger.record(Search(SearchPlan(8, math.inf, (trial,), 3.0)))
    ledger.record(Trial(0))
    read = read_ledger(path)
    assert read.state.search == ledger.state.search and read.state.trials == (0,)
    assert read.state.sentences("no_guarantee") == ("a reason",) and read.state.is_finished
    assert read.state.sentences("foreign_weights") == ("Loaded.",)
    kinds = [json.loads(line)["kind"] for line in path.read_text().splitlines()]
    assert set(kinds) == {"header", *ENTRIES}


@pytest.mark.parametrize(
    "changes",
    [
        {"noise_multiplier": 0.0, "l2_norm_clip": math.inf},
        {"no_guarantee_because": ("one", "two")},
        {"most_per_batch": None, "accountant": "pld", "expected_batch_size": 7.3},
        {"noise_multiplier": None, "delta": None, "budget": PrivacyBudget(math.inf, 1e-5)},
        {"noise_multiplier": None, "delta": None, "budget": PrivacyBudget(2.0, 1e-5)},
    ],
)
def test_every_plan_comes_back(path, changes):
    plan = make_plan(**{**SETTINGS, **changes})
    create_ledger(path, plan).close()
    assert read_ledger(path).plan == plan
    reopen_ledger(path, plan)
    json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_a_reopened_ledger_has_to_be_resumed_first(whole):
    ledger = reopen_ledger(whole, PLAN, RUN_SETTINGS)
    size = whole.stat().st_size
    for call in (
        lambda: ledger.record(Updates()),
        lambda: ledger.record(Query("a", noise_multiplier=1.0, examples=1)),
    ):
        with pytest.raises(ValueError, match="first entry must be Resume"):
            call()
    assert whole.stat().st_size == size
    ledger.record(caveat("no_guarantee", sentence="a reason"))
    ledger.record(Resume(0))
    ledger.record(Updates())


def test_each_call_is_on_the_disk_before_it_returns(path, monkeypatch):
    flushed = []
    monkeypatch.setattr(files, "_TO_DISK", lambda d: flushed.append(os.fstat(d).st_size))
    ledger = create_ledger(path, PLAN)
    assert flushed == [path.stat().st_size]
    ledger.record(Updates())
    ledger.record(caveat("no_guarantee", sentence="a reason"))
    assert len(flushed) == 3 and flushed[-1] == path.stat().st_size
    assert path.read_bytes().endswith(b"}\n")


def test_an_existing_file_is_left_alone(whole):
    before = whole.read_bytes()
    with pytest.raises(FileExistsError, match="The ledger exists already"):
        create_ledger(whole, PLAN)
    assert whole.read_bytes() == before
    assert os.listdir(whole.parent) == [whole.name]


def test_without_hard_links_a_file_appears_whole_too(path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    announced(create_ledger(path, PLAN), 1)
    assert read_ledger(path).updates == 1 and os.listdir(path.parent) == [path.name]
    with pytest.raises(FileExistsError):
        files.publish(path, path)


def test_all_differences_are_in_one_error(whole):
    changed = {
        "num_examples": 1001,
        "most_per_batch": 1001,
        "expected_batch_size": 49,
        "steps": 101,
        "l2_norm_clip": 1.0,
        "noise_multiplier": 1.9,
        "delta": 1e-6,
        "accountant": "pld",
        "no_guarantee_because": ("a reason",),
    }
    settings = {**RUN_SETTINGS, "engine": "tfp", "depth": 16.0, "new": True}
    del settings["w"]
    before = whole.read_bytes()
    with pytest.raises(ValueError, match="belongs to another run") as refused:
        reopen_ledger(whole, dataclasses.replace(PLAN, **changed), settings)
    assert not isinstance(refused.value, LedgerCorruptError) and whole.read_bytes() == before
    for part in (
        *(
            f"{name} is {getattr(PLAN, name)!r} there and {new!r} here"
            for name, new in changed.items()
        ),
        "engine is 'bk' there and 'tfp' here",
        "depth is 16 there and 16.0 here",
        "w is 0.1 there and nothing here",
        "new is nothing there and True here",
    ):
        assert part in str(refused.value)
    with pytest.raises(ValueError, match="engine is 'bk' there and nothing here"):
        reopen_ledger(whole, PLAN)


def test_read_or_closed_ledgers_record_nothing(whole):
    before = whole.read_bytes()
    closed = reopen_ledger(whole, PLAN, RUN_SETTINGS)
    closed.close()
    closed.close()
    for ledger in (read_ledger(whole), closed):
        with pytest.raises(io.UnsupportedOperation, match="Open it with reopen_ledger"):
            ledger.record(Updates())
        with pytest.raises(io.UnsupportedOperation):
            ledger.record(caveat("no_guarantee", sentence="a reason"))
        assert ledger.guarantee_holds
    assert whole.read_bytes() == before


@pytest.mark.parametrize("opening", [read_ledger, lambda path: reopen_ledger(path, PLAN)])
def test_an_absent_file(path, opening):
    with pytest.raises(FileNotFoundError, match="Cannot open the ledger: No such file"):
        opening(path)
    with pytest.raises(OSError, match="Cannot open the ledger: Is a directory"):
        opening(path.parent)
