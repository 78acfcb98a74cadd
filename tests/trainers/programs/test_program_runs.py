"""The programs at work: a dry run, a record, the table made from it, and the demonstration."""

import re

import pytest

from tfdpnorm.privacy.entries import ANSWERS
from trainers import common, demo
from trainers.davody import cells as davody
from trainers.records.store import read_records
from trainers.runs import private

AN_EPSILON = re.compile(r"epsilon\D{0,30}\d", re.IGNORECASE)
SMALL = (
    "--dataset=digits",
    "--max_examples=300",
    "--expected_batch_size=32",
    "--steps=2",
    "--engine=book_keeping",
    "--public_batch_size=16",
)

# A value of every flag that is a field of the spec; none of them is an experiment's own.
VALUES = {
    "noise_multiplier": 2.5,
    "delta": 1e-6,
    "accountant": "pld",
    "expected_batch_size": 99,
    "physical_batch_size": 9,
    "epochs": 3.5,
    "steps": 11,
    "l2_norm_clip": 0.25,
    "optimizer": "adam",
    "learning_rate": 0.125,
    "learning_rate_schedule": "linear",
    "learning_rate_power": 0.5,
    "learning_rate_round": "update",
    "momentum": 0.5,
    "ema_decay": 0.75,
    "statistics": "blend",
    "statistics_gradient": "stop",
    "pull_back": "shrunk",
    "pull_back_weight": 2.5,
    "public_dataset": "cifar10",
    "public_batch_size": 77,
    "engine": "tfp_model",
    "seed": 5,
    "insecure_seed": 6,
    "max_examples": 123,
    "noise_generator": "philox",
    "pretraining_dataset": "cifar100",
    "pretraining_epochs": 3,
    "vocabulary_size": 55,
    "sequence_length": 7,
    "statistics_budget_share": 0.25,
    "evaluations": 4,
    "augmentation_multiplicity": 9,
    "views": "random",
    "held_out": 77,
    "plateau": "test",
    "plateau_patience": 2,
    "plateau_examples": 88,
    "plateau_epsilon": 0.5,
    "precision": "mixed_bfloat16",
}
# Flags with a meaning for one normalisation only.
NORM_OF = {"statistics_budget_share": "noised_batch"}
# Values that only make sense together.
VOCABULARY = {"vocabulary": "public", "vocabulary_file": "words.txt"}
PLATEAU = {"plateau": "public", "plateau_dataset": "kmnist"}


def test_help_lists_every_flag(shell):
    result = shell("davody_dp", "--help")
    listed = set(re.findall(r"^  --(?:\[no\])?(\w+):", result.out, re.MULTILINE))
    own = {"dataset", "norm", "epsilon", "data_dir", "output_dir", "dry_run", "mixed_precision"}
    own |= {"run_dir", "resume", "checkpoint_every", "cache_dir", "model", "save_model", "scale"}
    own |= {"responsible", "contact", "search", "norm_placement", *ANSWERS}
    assert listed == own | set(VALUES) | set(VOCABULARY) | set(PLATEAU)
    assert "--dataset=mnist --norm=public_batch --epsilon=1" in result.out, "no example"
    assert "NOT private" in re.sub(r"\s+", " ", result.out), "mode lot without a warning"


@pytest.mark.parametrize("name", VALUES)
def test_a_flag_reaches_the_spec(main, monkeypatch, name):
    """Every shared flag changes the field of its name, and a flag not given changes nothing."""
    seen = []
    monkeypatch.setattr(common, "train", seen.append)
    amount = () if name == "noise_multiplier" else ("--epsilon=3",)
    norm = NORM_OF.get(name, "layer")
    assert main("davody_dp", f"--norm={norm}", *amount, f"--{name}={VALUES[name]}").code == 0
    epsilon = None if name == "noise_multiplier" else 3.0
    assert seen == [davody.spec("mnist", norm, epsilon, **{name: VALUES[name]})]
    assert getattr(seen[0], name) == VALUES[name]


def test_where_normalisation_is_reaches_the_network(main, monkeypatch):
    seen = []
    monkeypatch.setattr(common, "train", seen.append)
    flags = ("davody_dp", "--epsilon=3", "--norm_placement=all")
    assert main(*flags, "--norm=layer").code == 0
    assert seen == [davody.spec("mnist", "layer", 3.0, norm_placement="all")]
    rejected = main(*flags, "--norm=none")
    assert rejected.code == 2 and "norm_placement='all', got norm='none'" in rejected.err


@pytest.mark.parametrize(
    "dataset, together", [("ag_news", VOCABULARY), ("mnist", PLATEAU)], ids=["words", "plateau"]
)
def test_flags_that_go_together_reach_the_spec(main, monkeypatch, dataset, together):
    seen = []
    monkeypatch.setattr(common, "train", seen.append)
    start = ("davody_dp", f"--dataset={dataset}", "--norm=layer", "--epsilon=3")
    given = [f"--{name}={value}" for name, value in together.items()]
    assert main(*start, *given).code == 0
    assert seen == [davody.spec(dataset, "layer", 3.0, **together)]
    assert main(*start, given[0]).code == 2


@pytest.mark.slow
def test_a_dry_run_from_a_flagfile_says_all_and_writes_nothing(shell, tmp_path):
    flagfile = tmp_path / "settings.flags"
    flagfile.write_text("\n".join([*SMALL, "--norm=public_batch", "--epsilon=2", "--delta=0.01"]))
    out = tmp_path / "out"
    result = shell("davody_dp", f"--flagfile={flagfile}", "--dry_run", f"--output_dir={out}")
    assert result.code == 0, result.err
    for part in (
        "davody_digits public_batch/eps=2",
        "N = 300 (first 300 of 1421",
        "16 images split off",
        "T = 2 updates",
        "expected batch 32",
        "delta = 0.01",
        "engine book_keeping",
        "estimated time:",
        "Nothing was trained.",
    ):
        assert part in result.out
    assert float(re.search(r"z = ([\d.]+),", result.out)[1]) > 0
    assert 1.9 < float(re.search(r"epsilon after all updates: ([\d.]+)", result.out)[1]) <= 2.0
    assert result.err.count("delta=0.01 is not below 1 / num_examples") == 1
    assert "num_examples=300" in result.err and "Traceback" not in result.err
    assert not out.exists()


@pytest.mark.slow
def test_a_missing_dataset_in_a_shell(shell, tmp_path):
    """The exit code and the line, as a script around the program sees them."""
    result = shell("davody_dp", "--epsilon=1", TFDS_DATA_DIR=str(tmp_path))
    assert result.code == 2 and result.out == ""
    assert result.err.startswith("Error: Expected data set 'mnist'") and str(tmp_path) in result.err
    assert "Traceback" not in result.err


@pytest.mark.slow
def test_training_writes_one_record_from_which_the_table_is_made(main, tmp_path):
    arguments = (*SMALL, "--norm=public_batch", "--epsilon=2", f"--output_dir={tmp_path}")
    result = main("davody_dp", *arguments)
    assert result.code == 0 and result.err == "" and result.warnings == []
    (record,) = read_records(tmp_path)
    assert record["guarantee_holds"] and 1.9 < record["epsilon"] <= 2.0 == record["epsilon_target"]
    assert (record["cell"], record["updates"], record["engine"], record["num_examples"]) == (
        "public_batch/eps=2",
        2,
        "book_keeping",
        300,
    )
    for part in (
        "add or remove one example, Poisson sampling",
        "update 2/2",
        "so far",
        f"test accuracy {record['test_accuracy']:.2f} %",
        "at delta 1e-05 (rdp)",
    ):
        assert part in result.out
    assert result.out.splitlines()[-1].startswith(f"Record: {tmp_path}")

    for name in ("davody_digits.md", "davody_digits.png"):
        assert not (tmp_path / name).exists()
    shown = main("table", "--experiment=davody_digits", f"--results_dir={tmp_path}")
    assert shown.code == 0
    row = (
        f"| public_batch | {record['test_accuracy']:.2f} [{record['test_accuracy_ema']:.2f}] "
        "(1 run); not as in the paper |"
    )
    assert row in shown.out and row in (tmp_path / "davody_digits.md").read_text()
    assert (tmp_path / "davody_digits.png").read_bytes().startswith(b"\x89PNG")
    # The table's own files are no obstacle to making it again.
    assert main("table", "--experiment=davody_digits", f"--results_dir={tmp_path}").code == 0
    other = main("table", "--experiment=davody_digit", f"--results_dir={tmp_path}")
    assert other.code == 2 and "there are records of davody_digits" in other.err


@pytest.mark.slow
def test_training_without_a_guarantee_prints_no_epsilon(main, tmp_path):
    result = main(
        "davody_dp",
        *SMALL,
        "--norm=none",
        "--noise_multiplier=0",
        "--mixed_precision",
        f"--output_dir={tmp_path}",
    )
    assert result.code == 0
    (record,) = read_records(tmp_path)
    assert not record["guarantee_holds"] and record["epsilon"] == float("inf")
    assert record["flags"]["precision"] == "mixed_bfloat16"
    assert "NO GUARANTEE: the noise multiplier is 0" in result.out
    assert not AN_EPSILON.search(result.out)


@pytest.mark.slow
def test_the_demo_shows_its_runs_and_states_what_holds(main, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "DIGITS", ("none", "public_batch-synthetic"))
    ours = davody.spec
    small = dict(
        max_examples=300, expected_batch_size=32, engine="book_keeping", public_batch_size=16
    )
    monkeypatch.setattr(davody, "spec", lambda *a, **values: ours(*a, **{**values, **small}))
    result = main("demo", "--steps=2", "--epsilon=2", "--seed=1", f"--output_dir={tmp_path}")
    assert result.code == 0 and result.err == ""
    records = read_records(tmp_path)
    cells = ["digits-none/eps=2", "digits-public_batch-synthetic/eps=2"]
    assert [r["cell"] for r in records] == cells
    assert all(r["guarantee_holds"] and r["epsilon"] <= 2.0 and r["seed"] == 1 for r in records)
    assert len({r["num_examples"] for r in records}) == 1
    for part in (
        "DIGITS: 300 private images",
        "are synthetic",
        "guarantee holds",
        "(epsilon, delta)-differential privacy",
        "\nNot covered\n",
        "How to check it: tfdpnorm-epsilon --ledger=ledger.jsonl",
    ):
        assert part in result.out
    for record in records:
        assert re.search(
            rf"^{record['cell']} .*{record['test_accuracy']:.2f}.* yes$", result.out, re.MULTILINE
        )
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "none-run1" / "privacy_statement.json").exists()


@pytest.mark.slow
def test_the_demo_in_a_shell(shell, tmp_path):
    result = shell("demo", "--steps=3", f"--output_dir={tmp_path}")
    assert result.code == 0, result.err
    cells = [record["cell"] for record in read_records(tmp_path)]
    names = ("layer", "none", "public_batch-synthetic")
    assert cells == [f"digits-{name}/eps=3" for name in names]
    assert "Traceback" not in result.err
    assert "DIGITS: 1,437 private images" in result.out


def test_training_never_begins_before_the_folder_is_there(main, tmp_path, monkeypatch):
    monkeypatch.setattr(private, "build_private", lambda *_: pytest.fail("began"))
    (tmp_path / "file").write_text("")
    result = main("davody_dp", *SMALL, "--epsilon=1", f"--output_dir={tmp_path / 'file' / 'sub'}")
    assert result.code == 2 and "output_dir" in result.err
