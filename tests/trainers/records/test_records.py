"""Records: whole or not at all, never other than what was run, and readable as they were."""

import json
import pathlib
import types

import pytest
import tensorflow as tf

import tfdpnorm
import trainers
from tests.each import each
from trainers.records import made_with
from trainers.records.fields import FIELDS
from trainers.records.store import read_records, write_record

INF = float("inf")


def reject_constant(name):
    raise AssertionError(f"{name} is not JSON")


def test_infinity_is_written_as_a_word_and_read_as_a_number(tmp_path, unprotected_record):
    record = unprotected_record()
    text = write_record(tmp_path, record).read_text()
    plain = json.loads(text, parse_constant=reject_constant)
    assert plain["epsilon"] == plain["l2_norm_clip"] == plain["flags"]["epsilon"] == "inf"
    assert read_records(tmp_path) == [record]


@each("field", FIELDS)
def test_every_field_is_required(tmp_path, make_record, field):
    record = make_record()
    del record[field]
    with pytest.raises(ValueError, match=rf"\['{field}'\] missing"):
        write_record(tmp_path, record)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "fields, words",
    [
        (dict(test_accuracy=198.45), "test_accuracy 198.45, not a number from 0 to 100"),
        (dict(test_accuracy=-0.5), "test_accuracy -0.5"),
        (dict(test_accuracy="high"), "test_accuracy 'high'"),
        (dict(test_accuracy=True), "test_accuracy True"),
        (dict(test_accuracy=float("nan")), "test_accuracy nan"),
        (dict(test_accuracy_ema=INF), "test_accuracy_ema inf"),
        (dict(test_top5=100.1), "test_top5 100.1"),
        (dict(test_top5_ema=[1.0]), r"test_top5_ema \[1.0\]"),
        (dict(curve=[dict(updates=1, test_accuracy=101)]), "test_accuracy of its curve 101"),
        (dict(curve=[dict(epoch=1, validation_accuracy=INF)]), "validation_accuracy of its curve"),
        (dict(curve=[98.0]), "a curve that is no list of points"),
        (
            dict(epsilon=1, statement={"guarantee": {"epsilon": 2.998}}),
            "epsilon 1, but 2.998 in its privacy",
        ),
        (dict(epsilon=1.0, statement={"guarantee": None}), "epsilon 1.0, but inf in"),
        (dict(statement={"guarantee": {"epsilon": "inf"}}), "epsilon 0.9994, but inf in"),
    ],
)
def test_a_record_that_contradicts_itself_is_named(tmp_path, make_record, fields, words):
    path = write_record(tmp_path, make_record(**fields))
    with pytest.raises(ValueError, match=rf"{path.name}, got .*{words}.*Move the file away"):
        read_records(tmp_path)


def test_a_run_counts_once(tmp_path, make_record, capsys):
    """Of its records the first one does, also if a later one has the name that sorts first."""
    of_run = dict(statement={"run": "0123"})
    written = [make_record(seconds=s, **of_run) for s in (61.5, 0.0)]
    first, second = (write_record(tmp_path, record) for record in written)
    assert second.name < first.name
    assert read_records(tmp_path) == written[:1]
    assert capsys.readouterr().err == f"Left out {second}: it is of the same run as {first}.\n"
    other = make_record(statement={"run": "4567"})
    write_record(tmp_path, other)
    assert read_records(tmp_path) == [written[0], other]


@pytest.mark.parametrize(
    "gpus, cores, expected",
    [((), {0}, "CPU, 1 core"), ((), {0, 1}, "CPU, 2 cores"), (("gpu:0",), {3, 4}, "L4, 2 cores")],
)
def test_a_result_says_what_it_was_computed_on(monkeypatch, gpus, cores, expected):
    monkeypatch.setattr(made_with.os, "sched_getaffinity", lambda _: cores)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: list(gpus))
    details = {"device_name": "L4"}
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: details)
    assert made_with.made_with({})["device"] == expected


def test_a_record_has_the_line_that_makes_it_again(make_record):
    folder = pathlib.Path(made_with.__file__).parents[1]
    run = types.SimpleNamespace(cell="none/eps=1", seed=3)
    flags = ["--experiment=a", "--cells", "*,b", "--data_dir=/x", "--seeds=9", "--scale=paper"]
    of_sweep = made_with.command([str(folder / "sweep.py"), *flags], run)
    assert of_sweep == (
        "python -m trainers.sweep --experiment=a --scale=paper --cells=none/eps=1 --seed=3"
    )
    flags = ["--dataset=a b", "--stddev=1", "--output_dir", "/x", "--nomixed_precision"]
    of_program = made_with.command([str(folder / "davody_dp.py"), *flags], run)
    said = "python -m trainers.davody_dp '--dataset=a b' --stddev=1 --nomixed_precision"
    assert of_program == said
    assert made_with.command(["/elsewhere/pytest", "-q"], run) is None
    assert made_with.made_with({})["command"] is None


def test_a_change_anywhere_in_the_code_shows_in_the_commit(monkeypatch):
    asked = []

    def run(command, **options):
        asked.append(command)
        return types.SimpleNamespace(stdout="0123\n" if "rev-parse" in command else " M a.py\n")

    monkeypatch.setattr(made_with.subprocess, "run", run)
    assert made_with.source_commit() == "0123+changes"
    code = [str(pathlib.Path(package.__file__).parent) for package in (trainers, tfdpnorm)]
    assert {command[2] for command in asked} == {code[0]} and asked[1][-2:] == code


def test_the_commit_is_none_where_there_is_no_git(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert made_with.source_commit() is None


@pytest.mark.parametrize("statement", [None, {"run": "0123"}])
def test_a_copy_of_a_record_is_no_run(tmp_path, make_record, capsys, statement):
    record = make_record(statement=statement)
    path = write_record(tmp_path, record)
    (tmp_path / "copy.json").write_text(path.read_text())
    assert read_records(tmp_path) == [record]
    assert "Left out" in capsys.readouterr().err
    path.write_text(json.dumps(dict(record, seed=1, statement=None)))
    assert len(read_records(tmp_path)) == 2


def test_a_name_from_hostile_cells_stays_in_the_folder(tmp_path, make_record):
    folder = tmp_path / "results"
    path = write_record(folder, make_record(cell="../../x y/\u00e9\n*?eps=1"))
    assert path.parent == folder and path.name.endswith("seed0.json")
    assert [p.name for p in tmp_path.iterdir()] == ["results"]
    assert read_records(folder)[0]["cell"] == "../../x y/\u00e9\n*?eps=1"
