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
from tfdpnorm.privacy.command import main
from tfdpnorm.privacy.entries import Resume, Updates
from tfdpnorm.privacy.rounding import ceil_text

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


def test_epochs_are_rounded_up_to_updates(capsys):
    (line,) = run(capsys, "--epochs=0.333", "--noise_multiplier=3", "--json")
    assert json.loads(line)["steps"] == 34


@pytest.mark.parametrize("flag", ["--noise_multiplier=0", "--epsilon=inf"])
def test_zero_noise_prints_infinity_in_valid_json(capsys, flag):
    (line,) = run(capsys, "--steps=5", flag, "--json")
    record = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert record["epsilon"] == "inf" and record["noise_multiplier"] == 0
    said = run(capsys, "--steps=5", flag)
    assert "inf" in said[0]
    assert said[-1] == "NO GUARANTEE: no epsilon is finite. Give more noise."


def test_a_large_delta_warns_once_on_standard_error(capsys):
    main([*SIZES[:2], "--delta=1e-3", "--steps=5", "--noise_multiplier=1", "--accountant=both"])
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith("tfdpnorm-epsilon: warning: delta=0.001 is not below 1 / num_examples=")


@pytest.mark.parametrize(
    "arguments, part",
    [
        (SIZES, "budget and noise_multiplier, got neither"),
        ([*SIZES, "--noise_multiplier=1"], "steps and epochs, got neither"),
        ([*SIZES, "--steps=5", "--epsilon=1", "--noise_multiplier=1"], "got both"),
        ([*SIZES, "--steps=0", "--epsilon=1"], "steps"),
        ([*SIZES, "--epochs=nan", "--epsilon=1"], "epochs"),
        ([*SIZES, "--steps=5", "--epsilon=nan"], "epsilon"),
        ([*SIZES, "--steps=5", "--epsilon=x"], "--epsilon"),
        ([*SIZES, "--steps=5", "--epsilon=1", "--accountant=moments"], "moments"),
        ([*SIZES, "--steps=5", "--epsilon=1", "--disjoint"], "--disjoint cannot be given without"),
        ([*SIZES[:2], "--steps=5", "--noise_multiplier=1"], "Expected delta with"),
        (["--expected_batch_size=6", "--steps=5", "--epsilon=1"], "num_examples"),
        (["--num_examples=5", *SIZES[1:], "--steps=5", "--epsilon=1"], "num_examples=5"),
        ([*SIZES, "--steps=5", "--eps=1"], "--eps"),
        ([*SIZES, "--steps=5", "--noise_multiplier=1e-170"], "noise_multiplier"),
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
    ],
    ids=["delta", "noise"],
)
def test_an_accountant_that_cannot_does_not_hide_the_other(capsys, settings, because):
    assert main([*TOO_SMALL, *settings, "--accountant=both"]) == 0
    first, second, _ = capsys.readouterr().out.splitlines()
    assert first.startswith("rdp: epsilon = ")
    assert second.startswith("pld: no value. ") and because in second
    assert main([*TOO_SMALL, *settings, "--accountant=both", "--json"]) == 0
    rdp, pld = map(json.loads, capsys.readouterr().out.splitlines())
    assert rdp["epsilon"] > 0 and pld["epsilon"] is None and because in pld["cannot_because"]


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


def test_a_ledger_gives_its_statement(capsys, ledger):
    assert of_ledger(capsys, ledger) == privacy_statement(ledger).splitlines()
    assert main(["--ledger", ledger.file.path]) == 0
    assert capsys.readouterr().err == ""


def test_a_torn_ledger(capsys, ledger):
    with open(ledger.file.path, "ab") as file:
        file.write(b'{"line":33,"ki')
    main([f"--ledger={ledger.file.path}"])
    (line,) = capsys.readouterr().err.splitlines()
    assert "torn: the updates it announces did not happen" in line


@pytest.mark.parametrize("other", ["--steps=5", "--delta=1e-5", "--accountant=pld", "--disjoint"])
def test_a_ledger_brings_its_own_settings(capsys, ledger, other):
    with pytest.raises(SystemExit) as stopped:
        main([f"--ledger={ledger.file.path}", other])
    assert stopped.value.code == 2
    assert other.split("=")[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "words"),
    [("nope", "No such file .*ledger.jsonl.*'nope'"), (".", "Is a directory.*ledger.jsonl.*'.'")],
)
def test_a_ledger_that_is_none_in_plain_words(name, words, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main([f"--ledger={name}"])
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(words, line) and "Errno" not in line and "create_ledger" not in line
