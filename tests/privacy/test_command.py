"""The console command: right numbers, one-line errors, no TensorFlow."""

import json
import subprocess
import sys

import pytest

from tfdpnorm.privacy import dp_sgd_event, epsilon_of
from tfdpnorm.privacy.command import main

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
    arguments = [*SIZES, "--epochs=40", "--epsilon=1", "--accountant=both", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2


def test_module_as_a_script():
    done = subprocess.run(
        [sys.executable, "-m", "tfdpnorm.privacy.command", "--delta=1e-5", "--steps=10"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and "--sampling_rate" in done.stderr


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
    assert "Poisson" in text[-1] and "adding or removing one example" in text[-1]


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
def test_no_noise_prints_infinity_in_valid_json(capsys, flag):
    (line,) = run(capsys, "--steps=5", flag, "--json")
    record = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert record["epsilon"] == "inf" and record["noise_multiplier"] == 0
    assert "inf" in run(capsys, "--steps=5", flag)[0]


def test_a_large_delta_warns_on_standard_error(capsys):
    main([*SIZES[:2], "--delta=1e-3", "--steps=5", "--noise_multiplier=1"])
    assert "choose a smaller delta" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, part",
    [
        (SIZES, "--steps"),
        ([*SIZES, "--steps=5"], "--noise_multiplier"),
        ([*SIZES, "--steps=5", "--epsilon=1", "--noise_multiplier=1"], "not allowed with"),
        ([*SIZES, "--steps=5", "--epochs=1", "--epsilon=1"], "not allowed with"),
        ([*SIZES, "--steps=0", "--epsilon=1"], "--steps"),
        ([*SIZES, "--epochs=nan", "--epsilon=1"], "--epochs"),
        ([*SIZES, "--epochs=inf", "--epsilon=1"], "--epochs"),
        ([*SIZES, "--steps=5", "--epsilon=nan"], "epsilon"),
        ([*SIZES, "--steps=5", "--epsilon=0"], "epsilon"),
        ([*SIZES, "--steps=5", "--epsilon=x"], "--epsilon"),
        ([*SIZES, "--steps=5", "--noise_multiplier=-1"], "noise_multiplier"),
        ([*SIZES, "--steps=5", "--noise_multiplier=inf"], "noise_multiplier"),
        ([*SIZES, "--steps=5", "--epsilon=1", "--accountant=zcdp"], "zcdp"),
        ([*SIZES[:2], "--delta=1", "--steps=5", "--epsilon=1"], "--delta"),
        ([*SIZES[:2], "--steps=5", "--epsilon=1"], "--delta"),
        ([*SIZES, "--sampling_rate=0.1", "--steps=5", "--epsilon=1"], "not allowed with"),
        (["--sampling_rate=0", "--delta=1e-5", "--steps=5", "--epsilon=1"], "--sampling_rate"),
        (["--sampling_rate=nan", "--delta=1e-5", "--epochs=5", "--epsilon=1"], "--sampling_rate"),
        (["--expected_batch_size=6", "--delta=1e-5", "--steps=5", "--epsilon=1"], "--num_examples"),
        (["--num_examples=5", *SIZES[1:], "--steps=5", "--epsilon=1"], "600 and 5"),
        (["--num_examples=0", *SIZES[1:], "--steps=5", "--epsilon=1"], "--num_examples"),
        ([*SIZES, "--steps=5", "--eps=1"], "--eps"),
        ([*SIZES, "--steps=4000", "--epsilon=0.0005"], "closest it has"),
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
