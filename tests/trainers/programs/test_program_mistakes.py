"""What a user gets wrong ends in one clear line on stderr, before anything is trained."""

import subprocess
import sys

import pytest
import tensorflow as tf

from tests.programs import ROOT
from trainers import common

DIGITS = ("--dataset=digits", "--norm=none")


@pytest.mark.parametrize(
    "arguments, parts",
    [
        ([], ["exactly one of --epsilon and --noise_multiplier"]),
        (["--epsilon=1", "--noise_multiplier=0"], ["exactly one of --epsilon and --noise_multipl"]),
        (["--epsilon=1", "--epochs=1", "--steps=2"], ["at most one of --epochs and --steps"]),
        (["--epsilon=one"], ["--epsilon=one", "could not convert"]),
        (["--epsilon=1", "--norm=banana"], ["--norm=banana", "none|layer|group|"]),
        (["--epsilon=1", "--dataset=imagenet"], ["--dataset=imagenet", "mnist|cifar10|ag_news"]),
        (["--epsilon=1", "--engine=fast"], ["--engine=fast", "book_keeping|per_example"]),
        (["--epsilon=1", "--optimizer=sdg"], ["--optimizer=sdg", "sgd|adam"]),
        (["--epsilon=1", "--accountant=gdp"], ["--accountant=gdp", "rdp|pld"]),
        (["--epsilon=1", "--statistics=lots"], ["--statistics=lots", "lot"]),
        (["--epsilon=1", "--learning_rat=1"], ["learning_rat"]),
        (["--epsilon=1", "--flagfile=nowhere.flags"], ["nowhere.flags"]),
    ],
)
def test_flags_that_do_not_parse(main, tmp_path, arguments, parts):
    result = main("davody_dp", *arguments, f"--output_dir={tmp_path / 'out'}")
    assert result.code not in (0, None)
    shown = result.err if isinstance(result.code, int) else f"{result.code}\n{result.err}"
    assert all(part in shown for part in parts), shown
    assert "Traceback" not in shown and len(shown.strip().splitlines()) <= 2
    assert result.out == "" and not (tmp_path / "out").exists()


@pytest.mark.quick_cases(
    "arguments0-epsilon > 0, got 0.0",
    "arguments1-epsilon > 0, got -1.0",
    "arguments2-epsilon > 0, got nan",
)
@pytest.mark.parametrize(
    "arguments, part",
    [
        (["--epsilon=0"], "epsilon > 0, got 0.0"),
        (["--epsilon=-1"], "epsilon > 0, got -1.0"),
        (["--epsilon=nan"], "epsilon > 0, got nan"),
        (["--epsilon=1e-12"], "larger epsilon"),
        (["--noise_multiplier=-1"], "noise_multiplier >= 0"),
        (["--noise_multiplier=inf"], "noise_multiplier >= 0 and finite"),
        (["--epsilon=1", "--steps=0"], "steps to be a whole number >= 1, got 0"),
        (["--epsilon=1", "--epochs=inf"], "epochs > 0 and finite, got inf"),
        (["--epsilon=1", "--delta=0"], "delta strictly between 0 and 1"),
        (["--epsilon=1", "--delta=1"], "delta strictly between 0 and 1"),
        (["--epsilon=1", "--learning_rate=inf"], "learning_rate > 0 and finite, got inf"),
        (["--epsilon=1", "--l2_norm_clip=inf"], "finite l2_norm_clip"),
        (["--epsilon=1", "--ema_decay=1"], "ema_decay in [0, 1)"),
        (["--epsilon=1", "--seed=-1"], "seed to be a whole number >= 0"),
        (["--epsilon=1", "--insecure_seed=-1"], "insecure_seed to be a whole number >= 0"),
        (["--epsilon=1", "--norm=batch"], 'Use norm="public_batch"'),
        (["--epsilon=1", "--norm=public_batch", "--public_batch_size=1"], "at least 2|>= 2, got 1"),
        (["--epsilon=1", "--public_batch_size=1437"], "got 1437"),
        (["--epsilon=1", "--expected_batch_size=1438"], "expected_batch_size <= num_examples"),
        (["--epsilon=1", "--max_examples=20"], "expected_batch_size=512 and num_examples=20"),
        (["--epsilon=1", "--norm=public_batch", "--public_dataset=emnist"], "got 'emnist'"),
        (["--epsilon=1", "typo"], r"--flag=value only, got \['typo'\]"),
        (["--epsilon=1", "--dry_run", "true"], r"--flag=value only, got \['true'\]"),
    ],
)
def test_values_that_make_no_sense(main, tmp_path, arguments, part):
    result = main("davody_dp", *DIGITS, *arguments, f"--output_dir={tmp_path / 'out'}")
    assert result.code == 2
    (line,) = result.err.splitlines()
    assert line.startswith("Error: Expected ")
    assert any(option in line for option in _options(part)), line
    assert result.out == "" and not list(tmp_path.rglob("*.json"))


def _options(part):
    return [option.replace("\\", "") for option in part.split("|")]


def test_a_missing_dataset_says_where_it_was_looked_for(main, tmp_path):
    result = main("davody_dp", "--epsilon=1", f"--data_dir={tmp_path}")
    assert result.code == 2 and result.out == ""
    first = result.err.splitlines()[0]
    assert first.startswith("Error: ") and "'mnist'" in first and str(tmp_path) in first


# A program in a process of its own that says at the end whether it has loaded TensorFlow.
_APART = """
import sys
from trainers import common, {0} as program
program.define_flags()
try:
    common.run_app(program.main)
except SystemExit as end:
    print(end.code, "tensorflow" in sys.modules)
"""


@pytest.mark.parametrize("wrong", ["epsilon", "data"])
@pytest.mark.parametrize(
    "program, flags",
    [
        ("davody_dp", ["--epsilon=1"]),
        ("davody_weight_noise", ["--stddev=1"]),
        ("klause_scalenorm", ["--epsilon=8", "--model=wrn_16_4"]),
        ("ermis_variational_dropout", ["--dataset=mnist", "--epsilon=1"]),
        ("finetune", ["--epsilon=1", "--model=a.keras", "--export_dir=out"]),
        (
            "search",
            ["--experiment=davody_table5", "--cell=layer/eps=1", "--over=norm=none", "--epsilon=2"],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_mistakes_are_found_before_tensorflow_is_loaded(tmp_path, program, flags, wrong):
    name = "stddev" if program == "davody_weight_noise" else "epsilon"
    flags = [*flags, f"--{name}=-1"] if wrong == "epsilon" else [*flags, f"--data_dir={tmp_path}"]
    done = subprocess.run(
        [sys.executable, "-c", _APART.format(program), *flags],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stdout.split() == ["2", "False"], done.stderr
    expected = f"{name} >" if wrong == "epsilon" else f"in {tmp_path}, but there is none"
    assert expected in done.stderr


def test_resume_without_a_folder_is_rejected_before_loading_data(main, tmp_path):
    for program in ("davody_dp", "davody_weight_noise"):
        epsilon = ["--epsilon=1"] if program == "davody_dp" else []
        result = main(program, *epsilon, "--resume", f"--data_dir={tmp_path}")
        assert result.code == 2 and result.out == ""
        assert result.err.splitlines() == [
            "Error: --resume needs --run_dir. Name the folder of the run."
        ]


def test_trials_do_not_land_among_the_kept_records(main):
    """Whose averages are the papers' tables."""
    shown = main("davody_dp", "--helpfull")
    text = " ".join((shown.out + shown.err).split())
    assert "default: 'outputs/results'" in text and "default: 'results'" not in text


def test_an_output_folder_that_is_a_file(main, tmp_path):
    place = tmp_path / "results"
    place.write_text("notes")
    result = main("davody_dp", *DIGITS, "--epsilon=1", f"--output_dir={place}")
    assert result.code == 2 and result.out == ""
    (line,) = result.err.splitlines()
    assert "output_dir" in line and str(place) in line


def test_public_rows_that_are_private(main, tmp_path):
    result = main(
        "davody_dp",
        "--dataset=digits",
        "--epsilon=1",
        "--steps=1",
        "--public_dataset=digits",
        "--public_batch_size=4",
        f"--output_dir={tmp_path}",
    )
    assert result.code == 2
    (line,) = result.err.splitlines()
    assert "Expected another public_dataset than the private dataset, got 'digits'" in line
    assert list(tmp_path.iterdir()) == []


def test_an_engine_that_cannot_take_the_statistics_is_one_line(main):
    result = main(
        "davody_dp",
        "--dataset=digits",
        "--epsilon=1",
        "--steps=1",
        "--statistics=lot",
        "--engine=book_keeping",
        "--dry_run",
    )
    assert result.code == 2
    (line,) = result.err.strip().splitlines()
    assert line.startswith('Error: Expected engine="per_example"')


def test_an_error_inside_tensorflow_is_one_line_too():
    """AutoGraph writes the call stack into the message of what a traced function raises."""

    @tf.function
    def traced():
        raise ValueError("Expected one thing, got another.")

    with pytest.raises(ValueError, match="in user code") as caught:
        traced()
    assert common._cause(caught.value) == "Expected one thing, got another."
    assert common._cause(ValueError("Expected x.")) == "Expected x."


def test_an_unknown_experiment_names_those_at_hand(main, tmp_path):
    result = main("table", "--experiment=davody", f"--results_dir={tmp_path}")
    assert result.code == 2
    assert f"--experiment=davody in {tmp_path}" in result.err
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_file_among_the_records(main, tmp_path):
    (tmp_path / "package.json").write_text('{"experiment": "davody_table5"}')
    result = main("table", f"--results_dir={tmp_path}")
    assert result.code == 2
    (line,) = result.err.splitlines()
    assert "package.json" in line and "Move the file away" in line


@pytest.mark.parametrize(
    "arguments, part",
    [
        (["--steps=0"], "steps to be a whole number >= 1"),
        (["--epsilon=-3"], "epsilon > 0"),
        (["--epsilon=nan"], "epsilon > 0"),
    ],
)
def test_mistakes_in_the_demo(main, tmp_path, arguments, part):
    result = main("demo", *arguments, f"--output_dir={tmp_path / 'out'}")
    assert result.code == 2 and part in result.err and len(result.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()
