"""Settings of runs: which differ, and that no run goes on in a folder of other settings."""

import json
import re

import pytest

from tests.each import each
from trainers.runs.kept import claim_run_dir
from trainers.runs.settings import differences
from trainers.specs import NonPrivateSpec, PrivateSpec
from trainers.specs.options import options

INF = float("inf")
PRIVATE = PrivateSpec(
    experiment="a_table",
    network="public_batch",
    column="eps=1",
    dataset="mnist",
    norm="public_batch",
    epsilon=1.0,
    epochs=2,
    plateau="private",
    model_options=(("pooling", "average"), ("activation", "tanh")),
)


# --- differences ---


OTHER = {float: 0.0625, int: 77, str: "another", bool: True, tuple: [["pooling", "max"]]}
_NO_ROWS = dict(norm="none", plateau="none", learning_rate_schedule="power")
_IMPORTED = dict(norm="none", model="a.keras")
SPECS = {
    "private": PRIVATE.replaced(pretraining_dataset="cifar100"),
    "svi": PRIVATE.replaced(**_NO_ROWS, method="svi", prior_stddev=1.0),
    "dpvd": PRIVATE.replaced(**_NO_ROWS, method="dpvd", momentum=0.0),
    "dropout": PRIVATE.replaced(**_NO_ROWS, method="dropout", model="mlp", model_options=()),
    "head": PRIVATE.replaced(**_IMPORTED, trainable="head"),
    "layers": PRIVATE.replaced(**_IMPORTED, trainable="last:2"),
    "solved": PRIVATE.replaced(
        **_IMPORTED,
        trainable="head",
        head="least_squares",
        plateau="none",
        noise_generator="philox",
    ),
    "noise": NonPrivateSpec(
        experiment="t", network="n", column="c", dataset="mnist", epochs=3, optimizer="sgd"
    ),
}
NOT_MEASURED = (
    "physical_batch_size", "engine", "evaluations", "search", "reduced", "paper_value",
    "noise_generator",
    "responsible", "contact", "settings_used_private_data", "initial_weights_used_private_data",
)  # fmt: skip
FIELDS = [(kind, name) for kind, spec in SPECS.items() for name in options(spec)]


@each("kind, name", FIELDS)
def test_every_field_that_is_measured_makes_a_difference(kind, name):
    spec = SPECS[kind]
    value = spec.settings[name]
    for other in [OTHER[type(value)]] if value is not None else [0.0625, "another"]:
        flags = json.loads(json.dumps({**spec.settings, name: other}))
        free = (*NOT_MEASURED, "seed")  # the seed is the run's, and compared by itself
        has_effect = options(spec)[name].has_effect(spec.settings, flags)
        expected = [] if name in free or not has_effect else [name]
        assert differences(spec, flags) == expected


@pytest.mark.parametrize(
    "ours, flags, expected",
    [
        ({}, {"precision": "mixed_float16"}, ["precision"]),
        ({}, {"a_field_of_the_future": 1}, ["a_field_of_the_future"]),
        ({"learning_rate": 0.6}, {"learning_rate": 1.5 * 0.4}, []),
        ({"learning_rate": 0.6}, {"learning_rate": 0.6001}, ["learning_rate"]),
        ({"epochs": 2.0}, {"epochs": 2}, []),
        ({"l2_norm_clip": INF}, {"l2_norm_clip": INF}, []),
        ({"l2_norm_clip": INF}, {"l2_norm_clip": 1e300}, ["l2_norm_clip"]),
        ({"l2_norm_clip": 1.0}, {"l2_norm_clip": True}, ["l2_norm_clip"]),
        ({"ema_decay": None}, {"ema_decay": 0.0}, ["ema_decay"]),
        ({"model_options": ()}, {"model_options": []}, []),
        ({"model_options": (("a", (1, 2)),)}, {"model_options": [["a", [1, 2]]]}, []),
        ({"model_options": (("a", (1, 2)),)}, {"model_options": [["a", [1]]]}, ["model_options"]),
    ],
    ids=range(12),
)
def test_settings_are_compared_by_what_they_mean(ours, flags, expected):
    spec = PRIVATE.replaced(**ours)
    assert differences(spec, {**spec.settings, **flags}) == expected


# --- whose run a folder holds ---


def begin(folder, spec=PRIVATE):
    """Has a run of `spec` begin, and leave something."""
    with claim_run_dir(folder, spec):
        (folder / "backup").write_text("trained")


def enter(folder, spec, resume):
    with claim_run_dir(folder, spec, resume):
        pass


def content(folder):
    return {str(p.relative_to(folder)): p.is_file() and p.read_bytes() for p in folder.rglob("*")}


@pytest.mark.parametrize("epsilon", [1.0, INF])
def test_the_same_run_goes_on(tmp_path, epsilon):
    spec = PRIVATE.replaced(epsilon=epsilon)
    begin(tmp_path, spec)
    before = content(tmp_path)
    enter(tmp_path, spec, True)
    enter(str(tmp_path), spec, True)
    enter(tmp_path, spec.replaced(physical_batch_size=8, search="long"), True)
    assert content(tmp_path) == before


@pytest.mark.parametrize(
    "fields, names",
    [
        ({"learning_rate": 0.5}, "learning_rate"),
        ({"seed": 1}, "seed"),
        ({"network": "none", "column": "eps=2", "seed": 3}, "network, column, seed"),
        ({"experiment": "another_table"}, "experiment"),
        ({"ema_decay": None}, "ema_decay"),
        ({"model_options": ()}, "model_options"),
    ],
    ids="rate seed cell experiment average options".split(),
)
def test_other_settings_are_rejected_by_name(tmp_path, fields, names):
    begin(tmp_path)
    before = content(tmp_path)
    expected = f"The run in run_dir {tmp_path} has other settings: {names}. Move it away"
    with pytest.raises(ValueError, match=re.escape(expected)):
        enter(tmp_path, PRIVATE.replaced(**fields), True)
    assert content(tmp_path) == before


@pytest.mark.parametrize("spec", [PRIVATE, SPECS["noise"]], ids=["same", "other"])
@pytest.mark.parametrize("name, spent", [("backup", False), ("ledger.jsonl", True)])
def test_a_run_is_not_begun_on_top_of_another(tmp_path, spec, name, spent):
    begin(tmp_path)
    (tmp_path / "backup").rename(tmp_path / name)
    before = content(tmp_path)
    with pytest.raises(
        ValueError, match=r"(no run yet|holds a run already).*\(--resume\)"
    ) as refused:
        enter(tmp_path, spec, False)
    assert ("the epsilons of several runs" in str(refused.value)) is spent
    assert content(tmp_path) == before


@pytest.mark.parametrize("name", ["ledger.jsonl", "spec.txt", "somebody's notes"])
def test_a_folder_of_unknown_settings_is_rejected(tmp_path, name):
    """A run of an older version, or no run at all; noise in the weights would delete it."""
    (tmp_path / name).write_text("precious")
    for resume in (True, False):
        holds_one = name == "ledger.jsonl" and not resume
        part = "holds a run already" if holds_one else "but no settings.json"
        with pytest.raises(ValueError, match=part):
            enter(tmp_path, PRIVATE, resume)
    assert content(tmp_path) == {name: b"precious"}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "[" * 100_000, "\x00", b"\xff\xfe"], ids=range(7)
)
def test_damaged_settings_are_rejected(tmp_path, text):
    begin(tmp_path)
    (tmp_path / "settings.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    before = content(tmp_path)
    with pytest.raises(ValueError, match="Expected the settings of a run in .*settings.json, got"):
        enter(tmp_path, PRIVATE, True)
    assert content(tmp_path) == before


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("error", [ValueError("no such budget"), KeyboardInterrupt()])
def test_a_preparation_that_fails_leaves_nothing(tmp_path, exists, error):
    folder = tmp_path / "run"
    if exists:
        folder.mkdir()
    with pytest.raises(type(error)):
        with claim_run_dir(folder, PRIVATE):
            raise error
    assert folder.exists() is exists and content(tmp_path) == ({"run": False} if exists else {})


@pytest.mark.parametrize("resume", [False, True])
def test_a_run_that_fails_keeps_its_settings(tmp_path, resume):
    if resume:
        begin(tmp_path)
    with pytest.raises(ValueError, match="odd"):
        with claim_run_dir(tmp_path, PRIVATE, resume):
            (tmp_path / "ledger.jsonl").write_text("spent")
            raise ValueError("odd")
    assert {"settings.json", "ledger.jsonl"} <= set(content(tmp_path))
    enter(tmp_path, PRIVATE, True)
