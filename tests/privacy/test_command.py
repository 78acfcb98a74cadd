"""The console command: right numbers, one-line errors, no TensorFlow."""

import json
import math
import re
import subprocess
import sys

import pytest

from tfdpnorm.privacy import (
    create_ledger,
    dp_sgd_event,
    epsilon_of,
    make_plan,
    privacy_statement,
)
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.command import main
from tfdpnorm.privacy.entries import Query, Resume, Search, Updates
from tfdpnorm.privacy.facts import CANNOT_SHOW
from tfdpnorm.privacy.rounding import ceil_text
from tfdpnorm.privacy.search import SearchPlan

SIZES = ["--num_examples=60000", "--expected_batch_size=600", "--delta=1e-5"]


def run(capsys, *arguments):
    assert main([*SIZES, *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_the_command_loads_no_tensorflow():
    """In a process of its own, since other tests of this one may have loaded it."""
    code = (
        "import sys\n"
        "from tfdpnorm.privacy.command import main\n"
        "main(sys.argv[1:])\n"
        "heavy = [n for n in ('tensorflow', 'keras', 'tensorflow_privacy') if n in sys.modules]\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)\n"
    )
    arguments = [*SIZES, "--steps=9", "--noise_multiplier=2", "--accountant=both", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_epsilon_from_noise(capsys, accountant):
    arguments = ["--steps=4000", "--noise_multiplier=2.684", f"--accountant={accountant}"]
    (line,) = run(capsys, *arguments, "--json")
    record = json.loads(line)
    exact = epsilon_of(dp_sgd_event(0.01, 2.684, 4000), 1e-5, accountant)
    assert record["epsilon"] == exact
    assert (record["accountant"], record["steps"], record["sampling_rate"]) == (
        accountant,
        4000,
        0.01,
    )
    text = run(capsys, *arguments)
    printed = float(text[0].split("epsilon = ")[1].split(" ")[0])
    assert exact <= printed <= 1.001 * exact
    assert "Poisson" in text[-1] and "add or remove one example" in text[-1]


def test_noise_from_epsilon(capsys):
    lines = run(capsys, "--epochs=40", "--epsilon=1", "--accountant=both", "--json")
    records = [json.loads(line) for line in lines]
    assert [r["accountant"] for r in records] == ["rdp", "pld"]
    assert [round(r["noise_multiplier"], 2) for r in records] == [2.69, 2.49]
    for record in records:
        assert record["steps"] == 4000
        event = dp_sgd_event(0.01, record["noise_multiplier"], 4000)
        assert epsilon_of(event, 1e-5, record["accountant"]) == record["epsilon"] <= 1
    text = run(capsys, "--epochs=40", "--epsilon=1")
    assert f"noise_multiplier = {records[0]['noise_multiplier']!r} for epsilon <= 1.0" in text[0]


@pytest.mark.parametrize("noise, least", [(2.684, 1.9), (0, math.inf)])
def test_epsilon_for_persons(capsys, noise, least):
    arguments = ["--steps=4000", f"--noise_multiplier={noise}", "--most_per_person=2", "--unit=row"]
    (line,) = run(capsys, *arguments, "--json")
    record = json.loads(line)
    person = float(record["person_epsilon"])
    assert least <= person and (person <= 2.1 or noise == 0)
    assert f"for persons epsilon = {ceil_text(person)}" in run(capsys, *arguments)[0]
    assert "person" not in run(capsys, *arguments[:2])[0]
    first, last = run(capsys, *arguments[:3])  # persons are sampled: the figure is theirs
    assert "for persons" not in first
    assert noise == 0 or "add or remove one person" in last


@pytest.mark.parametrize(
    "epochs, rate, steps",
    # 21 / 0.35 is 60.00000000000001 in floating point.
    [("40", "0.01", 4000), ("1", "0.3", 4), ("0.5", "0.1", 5), ("1", "1", 1), ("21", "0.35", 60)],
)
def test_epochs_are_rounded_up_to_updates(capsys, epochs, rate, steps):
    length = [f"--sampling_rate={rate}", f"--epochs={epochs}"]
    main([*length, "--delta=1e-5", "--noise_multiplier=3", "--json"])
    assert json.loads(capsys.readouterr().out)["steps"] == steps


@pytest.mark.parametrize("flag", ["--noise_multiplier=0", "--epsilon=inf"])
def test_zero_noise_prints_infinity_in_valid_json(capsys, flag):
    (line,) = run(capsys, "--steps=5", flag, "--json")
    record = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert record["epsilon"] == "inf" and record["noise_multiplier"] == 0
    said = run(capsys, "--steps=5", flag)
    assert "inf" in said[0]
    assert said[-1] == "NO GUARANTEE: no epsilon is finite. Give more noise."


@pytest.mark.parametrize(
    ("sizes", "delta", "bound"),
    [
        (SIZES[:2], "1e-3", "="),
        (["--sampling_rate=0.01"], "0.5", ", which is at most sampling_rate=0.01:"),
    ],
)
def test_a_large_delta_warns_on_standard_error(capsys, sizes, delta, bound):
    main([*sizes, f"--delta={delta}", "--steps=5", "--noise_multiplier=1"])
    error = capsys.readouterr().err
    assert f"is not below 1 / num_examples{bound}" in error and "Choose a smaller delta" in error
    main([*sizes, "--delta=1e-6", "--steps=5", "--noise_multiplier=1"])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "arguments, part",
    [
        (SIZES, "--steps"),
        ([*SIZES, "--steps=5"], "--noise_multiplier"),
        ([*SIZES, "--steps=5", "--epsilon=1", "--noise_multiplier=1"], "not allowed with"),
        ([*SIZES, "--steps=5", "--epochs=1", "--epsilon=1"], "not allowed with"),
        ([*SIZES, "--steps=0", "--epsilon=1"], "--steps"),
        ([*SIZES, "--epochs=nan", "--epsilon=1"], "--epochs"),
        ([*SIZES, "--steps=5", "--epsilon=nan"], "epsilon"),
        ([*SIZES, "--steps=5", "--epsilon=x"], "--epsilon"),
        ([*SIZES, "--steps=5", "--noise_multiplier=-1"], "noise_multiplier"),
        ([*SIZES, "--steps=5", "--epsilon=1", "--accountant=moments"], "moments"),
        ([*SIZES[:2], "--delta=1", "--steps=5", "--epsilon=1"], "--delta"),
        ([*SIZES[:2], "--steps=5", "--epsilon=1"], "--delta"),
        ([*SIZES, "--sampling_rate=0.1", "--steps=5", "--epsilon=1"], "not allowed with"),
        (["--sampling_rate=0", "--delta=1e-5", "--steps=5", "--epsilon=1"], "--sampling_rate"),
        (["--expected_batch_size=6", "--delta=1e-5", "--steps=5", "--epsilon=1"], "--num_examples"),
        (["--num_examples=5", *SIZES[1:], "--steps=5", "--epsilon=1"], "600 and 5"),
        (["--num_examples=0", *SIZES[1:], "--steps=5", "--epsilon=1"], "--num_examples"),
        ([*SIZES, "--steps=5", "--eps=1"], "--eps"),
        ([*SIZES, "--steps=5", "--epsilon=1", "--most_per_person=0"], "number >= 1"),
        ([*SIZES, "--steps=5", "--noise_multiplier=1e-170"], "noise multiplier between 1e-3 and"),
    ],
)
def test_errors_are_one_line_and_exit_with_2(capsys, arguments, part):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    captured = capsys.readouterr()
    assert stopped.value.code == 2 and captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert captured.err.startswith("tfdpnorm-epsilon: error: ")
    assert part in captured.err


PLAN = make_plan(
    num_examples=60_000,
    expected_batch_size=600,
    steps=400,
    l2_norm_clip=1.0,
    noise_multiplier=2.684,
    delta=1e-5,
    most_per_batch=60_000,
)


TOO_SMALL = ["--num_examples=1000", "--expected_batch_size=10", "--steps=1000"]


@pytest.mark.parametrize(
    ("settings", "because"),
    [
        (["--noise_multiplier=1", "--delta=1.1e-18"], "Expected delta of at least"),
        (["--noise_multiplier=0.001", "--delta=1e-5"], "is lost to rounding"),
        (["--epsilon=1", "--delta=1.1e-18"], "Expected delta of at least"),
    ],
    ids=["delta", "noise", "calibration"],
)
def test_an_accountant_that_cannot_does_not_hide_the_other(capsys, settings, because):
    assert main([*TOO_SMALL, *settings, "--accountant=rdp"]) == 0
    alone, _ = capsys.readouterr().out.splitlines()
    assert main([*TOO_SMALL, *settings, "--accountant=both"]) == 0
    first, second, _ = capsys.readouterr().out.splitlines()
    assert first == alone
    assert second.startswith("pld: no value. ") and because in second
    assert main([*TOO_SMALL, *settings, "--accountant=both", "--json"]) == 0
    rdp, pld = map(json.loads, capsys.readouterr().out.splitlines())
    assert rdp["accountant"] == "rdp" and rdp["epsilon"] > 0
    assert (
        pld["accountant"] == "pld" and pld["epsilon"] is None and because in pld["cannot_because"]
    )


def test_missing_values_of_all_accountants_are_an_error(capsys):
    with pytest.raises(SystemExit) as ended:
        main([*TOO_SMALL, "--noise_multiplier=1", "--delta=2", "--accountant=both"])
    assert ended.value.code == 2 and capsys.readouterr().out == ""


@pytest.fixture
def ledger(tmp_path):
    """Thirty updates are spent, five of them lost."""
    opened = create_ledger(tmp_path / "ledger.jsonl", PLAN, {"noise_generator": "openssl"})
    for _ in range(30):
        opened.record(Updates())
    opened.record(Resume(25))
    return opened


def of_ledger(capsys, ledger, *arguments):
    assert main([f"--ledger={ledger.file.path}", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_epsilon_from_a_ledger(capsys, ledger):
    text = of_ledger(capsys, ledger)
    printed = float(text[0].split("epsilon = ")[1].split(" ")[0])
    assert PLAN.epsilon_after(30) <= printed <= 1.001 * PLAN.epsilon_after(30)
    assert (
        text[0].startswith("rdp: ") and "for 30 of 400 planned updates, which are spent" in text[0]
    )
    assert "result from 25 of them" in text[0]
    assert text[1] == f"Ledger: 32 lines; none of them torn. {CANNOT_SHOW}"
    assert text[2:] == privacy_statement(ledger).splitlines()
    assert main(["--ledger", ledger.file.path]) == 0
    assert capsys.readouterr().out.splitlines() == text


@pytest.mark.parametrize("settings, told", [({"secret": "ab"}, True), ({}, False)])
def test_the_ledger_of_a_search(capsys, tmp_path, settings, told):
    made = create_ledger(tmp_path / "ledger.jsonl", PLAN, settings)
    trial = (PLAN.sampling_rate, PLAN.noise_multiplier, PLAN.steps)
    made.record(Search(SearchPlan(4, None, (trial,))))
    made.close()
    first = of_ledger(capsys, made)[0]
    assert ("for a whole search: this is its own ledger" in first) == told
    assert ("of 400 planned updates" in first) != told


def test_a_ledger_as_json(capsys, ledger):
    ledger.record(Query("accuracy", noise_multiplier=9.0, examples=50))
    lines = of_ledger(capsys, ledger, "--json", "--accountant=both")
    for name, line in zip(("rdp", "pld"), lines, strict=True):
        record = json.loads(line)
        assert record["accountant"] == name
        assert record["epsilon"] == record["claimed_epsilon"] == ledger.epsilon(name)
        assert record["whole_plan_epsilon"] == ledger.epsilon(name, whole_plan=True)
        assert record["validation_epsilon"] == ledger.validation_epsilon(name) > 0
        expected = {"updates": 30, "position": 25, "steps": 400, "resumes": 1, "queries": 1}
        expected |= {"torn": False, "guarantee_holds": True, "delta": 1e-5, "lost_updates": 5}
        expected |= {"settings": {"noise_generator": "openssl"}, "lines": 33}
        assert {key: record[key] for key in expected} == expected


def test_a_torn_ledger(capsys, ledger):
    with open(ledger.file.path, "ab") as file:
        file.write(b'{"line":33,"ki')
    assert "torn: the updates it announces did not happen" in of_ledger(capsys, ledger)[1]
    assert json.loads(of_ledger(capsys, ledger, "--json")[0])["torn"] is True


def test_a_ledger_without_guarantee(capsys, ledger):
    ledger.record(caveat("no_guarantee", sentence="the batches were not Poisson-sampled"))
    text = of_ledger(capsys, ledger, "--accountant=pld")
    claimed = ceil_text(ledger.claimed_epsilon("pld"))
    assert text[0].startswith(f"pld: NO GUARANTEE; claimed epsilon = {claimed} (not a guarantee)")
    assert "- the batches were not Poisson-sampled" in text
    assert "rounded up" not in "".join(text)
    record = json.loads(of_ledger(capsys, ledger, "--json")[0])
    assert record["epsilon"] == record["validation_epsilon"] == "inf"
    assert record["guarantee_holds"] is False


@pytest.mark.parametrize(
    "other", ["--steps=5", "--epsilon=1", "--delta=1e-5", "--num_examples=5", "--epochs=1"]
)
def test_a_ledger_brings_its_own_settings(capsys, ledger, other):
    with pytest.raises(SystemExit) as stopped:
        main([f"--ledger={ledger.file.path}", other])
    assert stopped.value.code == 2
    assert (
        f"--ledger cannot be combined with {other.split('=')[0]}, since" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [("nope", "File not found: --ledger='nope'.*ledger.jsonl"), (".", "got the folder '.'")],
)
def test_a_ledger_that_is_none_in_plain_words(name, words, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main([f"--ledger={name}"])
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(words, line) and "Errno" not in line and "create_ledger" not in line
