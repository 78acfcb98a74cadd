"""Records, small data and specs for the experiments, and where real data is."""

import os
import pathlib

import matplotlib.figure
import numpy as np
import pytest

from tests.trainers import toy_sets as toys
from tests.trainers.sweeps.sweep_doubles import Place
from trainers.data import tfds
from trainers.records.fields import FIELDS
from trainers.runs.data import ExperimentData
from trainers.specs import PrivateSpec

INF = float("inf")


@pytest.fixture
def make_record():
    """Returns a function that makes a whole record, with the fields given replaced."""

    def make(**fields):
        record = dict.fromkeys(FIELDS) | {
            "experiment": "davody_table5", "cell": "public_batch/eps=1", "paper_value": 97.61,
            "test_accuracy": 95.25, "test_accuracy_ema": 96.5, "test_top5": 99.9,
            "test_top5_ema": 99.95, "epsilon": 0.9994, "epsilon_target": 1.0,
            "epsilon_rdp": 0.9994, "epsilon_pld": 0.91, "accountant": "rdp", "delta": 1e-5,
            "guarantee_holds": True, "no_guarantee_because": [], "not_covered": [],
            "weights_from_elsewhere": [], "unit": "row", "num_examples": 60_000,
            "num_rows": 60_000, "expected_batch_size": 2048, "sampling_rate": 2048 / 60_000,
            "noise_multiplier": 3.0625, "l2_norm_clip": 1.0, "updates": 352,
            "statistics": "public", "engine": "book_keeping", "noise_generator": "philox",
            "resumes": 0, "seed": 0, "scale": "full", "search": "on the test set",
            "curve": [{"updates": 352, "epsilon": 0.9994, "test_accuracy": 95.25}],
            "seconds": 61.5, "examples_per_second": 11_000.0,
            "flags": {"norm": "public_batch", "seed": 0, "epsilon": 1.0},
            "versions": {"tfdpnorm": "0.0.1"},
        }  # fmt: skip
        assert not set(fields) - set(record)
        record |= fields
        network, _, column = record["cell"].partition("/")
        kind = "private" if record["weight_noise_stddev"] is None else "non_private"
        return record | {"kind": kind, "network": network, "column": column} | fields

    return make


@pytest.fixture
def unprotected_record(make_record):
    """Returns a function that makes a record of a run without privacy."""

    def make(**fields):
        without = dict(
            cell="public_batch/eps=inf",
            epsilon=INF,
            epsilon_target=INF,
            epsilon_rdp=INF,
            epsilon_pld=INF,
            noise_multiplier=0.0,
            l2_norm_clip=INF,
            guarantee_holds=False,
            no_guarantee_because=["the noise multiplier is 0"],
            flags={"norm": "public_batch", "seed": 0, "epsilon": INF},
        )
        return make_record(**{**without, **fields})

    return make


@pytest.fixture(scope="session")
def tiny_data():
    """64 private, 20 test and 8 public random images of 12x12, two classes."""
    rng = np.random.default_rng(5)

    def images(count):
        return rng.random((count, 12, 12, 1), np.float32)

    return ExperimentData(
        train_x=images(64),
        train_y=rng.integers(2, size=64),
        test_x=images(20),
        test_y=rng.integers(2, size=20),
        public_x=images(8),
        num_classes=2,
        scale="full",
        public_source="8 random images",
    )


@pytest.fixture
def tiny_spec():
    """Returns a function that makes the spec of a run of three updates on `tiny_data`."""

    def make(**fields):
        if "epsilon" not in fields:
            fields.setdefault("noise_multiplier", 1.0)
        return PrivateSpec.of(
            **{
                "experiment": "tiny",
                "network": "a",
                "column": "cell",
                "dataset": "tiny",
                "norm": "none",
                "expected_batch_size": 16,
                "steps": 3,
                "delta": 1e-3,
                "learning_rate": 0.1,
                "engine": "book_keeping",
                **fields,
            }
        )

    return make


@pytest.fixture(scope="session")
def tfds_dir():
    """Returns a function from sets' names to a folder in which all are prepared, or skips."""
    beside = pathlib.Path(__file__).resolve().parents[2].parent / "shared" / "data" / "tfds"

    def find(*names):
        given = os.environ.get("TFDS_DATA_DIR")
        for folder in [*([pathlib.Path(given)] if given else []), beside]:
            if all(any(folder.glob(f"{name}/*/dataset_info.json")) for name in names):
                return folder
        pytest.skip(f"{names} are neither in TFDS_DATA_DIR nor in ../shared/data/tfds")

    return find


@pytest.fixture
def toy_sets(monkeypatch):
    """Small random data instead of the prepared folders of all data sets."""
    monkeypatch.setattr(tfds, "prepared_folder", lambda name, *_, **__: name.split("/")[-1])
    monkeypatch.setattr(tfds, "count", toys.count)
    monkeypatch.setattr(tfds, "read", toys.read)
    monkeypatch.setattr(tfds, "origin", lambda folder: "")


@pytest.fixture
def place(tmp_path):
    """Folders of a sweep, and a trainer that trains nothing."""
    return Place(tmp_path)


@pytest.fixture
def drawn(monkeypatch):
    """The axes of the plots drawn during the test."""
    seen = []
    save = matplotlib.figure.Figure.savefig

    def watched(figure, *arguments, **options):
        seen.extend(figure.axes)
        return save(figure, *arguments, **options)

    monkeypatch.setattr(matplotlib.figure.Figure, "savefig", watched)
    return seen
