"""`physical_batch_size="auto"`: as many rows as there is memory for, from public things alone."""

import types

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm import memory
from tfdpnorm.training import automatic_batches
from tfdpnorm.training.automatic_batches import most_by_growing, most_by_halving

needs_peak = pytest.mark.skipif(
    not memory.is_measurable(), reason="only Linux reports a process's peak"
)

# --- how many rows fit ---


def tried(megabytes_of):
    """A function that notes the rows that are tried, and the list."""
    rows = []
    return (lambda n: rows.append(n) or megabytes_of(n)), rows


@each("of_row", [0.01, 0.3, 7.0, 80.0])
@each("fixed", [0.0, 30.0, 900.0])
@each("limit", [1_000.0, 16_000.0])
def test_all_rows_that_fit_and_none_more(of_row, fixed, limit):
    def megabytes(rows):
        return fixed + of_row * rows

    trial, rows = tried(megabytes)
    found = most_by_growing(trial, limit, 100_000)
    assert megabytes(found) <= limit, "it fits"
    assert max(map(megabytes, rows)) <= limit, "so does what is tried"
    assert len(rows) <= 7 and rows == sorted(rows)
    if fixed + of_row <= limit / 2:  # otherwise two rows may be too many to try
        assert found == 100_000 or megabytes(found + 1) > limit - 1e-6


def test_one_row_has_to_fit():
    with pytest.raises(ValueError, match="300 MB, and 200 MB"):
        most_by_growing(lambda n: 300.0, 200.0, 8)
    with pytest.raises(ValueError, match="300 MB, and 0 MB"):
        most_by_growing(lambda n: 300.0, -200.0, 8)
    with pytest.raises(ValueError, match="single row"):
        most_by_halving(lambda n: False, 100)


# --- of a model ---


@pytest.fixture
def left(monkeypatch):
    """Returns a function that sets how many megabytes there are."""
    monkeypatch.setattr(memory, "is_measurable", lambda: True)

    def megabytes(number):
        monkeypatch.setattr(memory, "available_megabytes", lambda: number)

    return megabytes


@pytest.fixture
def of_rows(monkeypatch):
    """Trials say that a row takes a megabyte; the list of the rows that are tried."""
    megabytes, rows = tried(float)
    monkeypatch.setattr(automatic_batches._Trial, "megabytes", lambda self, n: megabytes(n))
    monkeypatch.setattr(automatic_batches._Trial, "megabytes_besides", lambda self, slots: 2.0)
    return rows


PLAN = dict(num_examples=1_000, expected_batch_size=100)


def test_the_size_that_is_found_is_used_and_told(build, private, left, of_rows, capsys):
    model = build()
    left(65.0)  # of which four fifths are used, less 2 for the rest
    auto = private(model, physical_batch_size="auto", **PLAN)
    given = private(model, physical_batch_size=50, **PLAN)
    assert auto.slots == given.slots and auto.slots.batches > 1
    assert auto.physical_batch_size == auto.slots.rows <= 50
    (line,) = capsys.readouterr().out.splitlines()
    assert line == (
        'physical_batch_size="auto": 50 rows at once, which fit into 50 MB. An update has '
        f"{auto.slots.batches} x {auto.slots.rows} slots."
    )


def test_enough_memory_is_for_the_whole_lot(build, private, left, of_rows):
    left(10_000.0)
    auto = private(build(), physical_batch_size="auto", **PLAN)
    assert auto.slots == private(build(), **PLAN).slots
    left(2.0)
    with pytest.raises(ValueError, match="too little memory for the clipped sum of a single row"):
        private(build(), physical_batch_size="auto", **PLAN)


def test_a_resumed_run_has_the_rows_that_it_began_with(
    compiled, build, private, data, left, of_rows, tmp_path, capsys
):
    settings = dict(physical_batch_size="auto", run_dir=tmp_path, expected_batch_size=20)
    left(15.0)
    first = compiled(build(), **settings)
    assert first.slots.rows < 40
    first.fit(*data, epochs=1, steps_per_epoch=2, verbose=0)
    first.ledger.close()
    del of_rows[:]
    for free in (10_000.0, 1.0):
        left(free)
        again = private(build(), resume=True, **settings)
        assert again.slots == first.slots and not of_rows
        assert "rows at once, with which the run started. An" in capsys.readouterr().out
        again.ledger.close()
    # A run that died before its first update begins.
    left(10_000.0)
    other = {**settings, "run_dir": tmp_path / "other"}
    private(build(), **other).ledger.close()
    assert private(build(), resume=True, **other).slots.rows >= 40


def test_a_gpu_is_tried_with_what_an_update_needs_besides(build, private, monkeypatch, capsys):
    """Its kernels say that memory is exhausted; here a function does."""
    rows, besides = [], []

    def traced(self, count):
        def compute():
            rows.append(count)
            if count > 40:
                raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")

        return compute

    monkeypatch.setattr(automatic_batches, "has_gpu", lambda: True)
    monkeypatch.setattr(automatic_batches._Trial, "_traced", traced)
    zeros = tf.zeros
    monkeypatch.setattr(tf, "zeros", lambda *a, **b: besides.append(a[0]) or zeros(*a, **b))
    found = private(build(), physical_batch_size="auto", **PLAN)
    assert rows[0] == private(build(), **PLAN).slots.rows
    assert rows == [-(-rows[0] // 2**k) for k in range(len(rows))] and rows[-1] <= 40 < rows[-2]
    assert found.slots.rows <= 40
    slots = 1 * rows[0]
    assert [round(64 * 39 + 4 * slots * 4 * (5 + 3))] in besides, "39 weights, rows of 5 and 3"
    assert "rows at once, for which the GPU had memory. An update" in capsys.readouterr().out


class Counting(keras.layers.Layer):
    """Counts its calls in training, and drops inputs at random."""

    def __init__(self):
        super().__init__()
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False)
        self.dropout = keras.layers.Dropout(0.5)

    def call(self, x, training=None):
        if training:
            self.calls.assign_add(1.0)
        return self.dropout(x, training=training)


@needs_peak
def test_trials_leave_the_model_as_it_was(private, left):
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((5,)), Counting(), keras.layers.Dense(3)])
    before = [v.numpy() for v in model.variables]
    numpy = np.random.get_state()[1].copy()
    left(2_000.0)
    # What counts its calls is for examples one by one.
    private(model, physical_batch_size="auto", engine="per_example", validate=False, **PLAN)
    for variable, value in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)
    assert np.array_equal(np.random.get_state()[1], numpy)


# --- where it cannot be ---


def test_inputs_of_unknown_sizes_are_rejected(build, private, left, of_rows):
    left(100.0)
    unknown = keras.Sequential([keras.layers.Dense(3)])
    steps = keras.Input((None, 2))
    pooled = keras.layers.GlobalAveragePooling1D()(keras.layers.Dense(4)(steps))
    for model in (unknown, keras.Model(steps, keras.layers.Dense(3)(pooled))):
        with pytest.raises(ValueError, match="known sizes"):
            private(model, physical_batch_size="auto", **PLAN)


def test_other_words_systems_and_processes_are_rejected(build, private, monkeypatch):
    for value in ("all", "", b"auto", ["auto"]):
        with pytest.raises(ValueError, match="physical_batch_size"):
            private(build(), physical_batch_size=value)
    several = types.SimpleNamespace(workers=types.SimpleNamespace(count=2))
    with pytest.raises(ValueError, match="several processes"):
        automatic_batches.automatic_rows(None, None, None, replicas=several, run_dir=None)
    monkeypatch.setattr(memory, "is_measurable", lambda: False)
    with pytest.raises(ValueError, match="Linux or a GPU"):
        private(build(), physical_batch_size="auto", **PLAN)


@pytest.mark.needs_tensorflow_privacy
def test_engines_that_need_an_optimizer_are_rejected(build, private):
    with pytest.raises(ValueError, match="engines of tensorflow-privacy"):
        private(build(), physical_batch_size="auto", engine="tfp_model")
