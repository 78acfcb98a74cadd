"""The rows that a validation runs, made up or given, and how outputs are compared."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.audit.row_independence.sound_models import FEATURES, SOUND, sequential
from tfdpnorm import audit
from tfdpnorm.audit.row_independence.compare import moved
from tfdpnorm.audit.row_independence.rows import made_up_rows, rows_like, splits

layers = keras.layers
pytestmark = pytest.mark.usefixtures("nothing_unchecked")


class TestRows:
    def test_unknown_shapes_are_said_and_rows_help(self):
        class Model(keras.Model):
            def __init__(self):
                super().__init__()
                self.head = layers.Dense(2)

            def call(self, inputs):
                return self.head(inputs - tf.reduce_mean(inputs, 0))

        with pytest.warns(UserWarning, match=r"shapes of its inputs are not known.*x=\.\.\."):
            assert audit.findings(Model()) == []
        for x in (np.random.default_rng(0).random((8, 3)), tf.TensorSpec([None, 3])):
            assert "values" in {f.check for f in audit.findings(Model(), x=x)}

    def test_rows_that_do_not_fit_are_said(self):
        def constrained(x):
            tf.debugging.assert_less(tf.abs(x), 1.0)
            return x

        model = sequential(layers.Lambda(constrained))
        with pytest.warns(UserWarning, match="could not be run.*validate.*rows of yours"):
            assert audit.findings(model) == []
        x = np.random.default_rng(0).random((8, FEATURES)) / 2
        with pytest.warns(UserWarning, match="unusual rows could not be run"):
            assert audit.findings(model, x=x) == []

    def test_what_is_not_repeatable_is_said(self):
        count = [0.0]

        def drifting(x):
            def python(a):
                count[0] += 1
                return a + np.float32(count[0])

            return tf.ensure_shape(tf.numpy_function(python, [x], tf.float32), x.shape)

        with pytest.warns(UserWarning, match="other values for the same rows"):
            audit.findings(sequential(layers.Lambda(drifting)))

    def test_what_stops_being_repeatable_is_said(self):
        """As loops whose iterations draw from one stream in an order that changes at times."""
        calls = [0]

        def late(a):
            calls[0] += 1
            return a + np.float32(max(0, calls[0] - 12))

        def noisy(x):
            late_x = tf.numpy_function(late, [x], tf.float32)
            return tf.ensure_shape(late_x, x.shape) + tf.random.normal([])

        with pytest.warns(UserWarning, match="other values for the same rows"):
            assert audit.findings(sequential(layers.Lambda(noisy))) == []

    def test_integers_are_ids_that_embeddings_know(self):
        rows = audit.model_rows(SOUND["masked_lstm"]())
        for part in rows:
            assert part.shape == (4, 32) and part.min() >= 0 and part.max() < 7
        assert np.all(rows.base != rows.other)

    def test_made_up_rows_have_the_specs_shapes_and_types(self):
        specs = {
            "a": tf.TensorSpec([None, 2], tf.float16),
            "b": tf.TensorSpec([None], tf.bool),
            "c": tf.TensorSpec([None, None], tf.string),
            "d": tf.TensorSpec([None, 3], tf.uint8),
        }
        rows = made_up_rows(specs, rows=6)
        assert rows.count == 6
        for part in rows:
            for name, spec in specs.items():
                assert spec.is_compatible_with(tf.convert_to_tensor(part[name]))

    @pytest.mark.parametrize("given", [2, 3, 5, 8, 40])
    def test_given_rows_change_places(self, given):
        x = np.arange(1.0, given + 1)[:, np.newaxis]
        rows = rows_like(x)
        assert rows.count == min(4, given)
        np.testing.assert_array_equal(rows.base, x[: rows.count])
        assert np.all(rows.other != rows.base) and np.isin(rows.other, x).all()

    def test_one_row_is_too_few(self):
        with pytest.raises(ValueError, match=r"2 or more, got \[1\]"):
            audit.findings(sequential(), x=np.zeros((1, FEATURES)))


class TestComparisons:
    @pytest.mark.parametrize("count", [2, 3, 4, 6, 7])
    def test_splits_part_each_pair_in_both_roles(self, count):
        parted = np.zeros((count, count), bool)
        for mask in splits(count):
            assert 0 < mask.sum() < count
            parted |= mask[:, np.newaxis] & ~mask
        assert np.array_equal(parted, ~np.eye(count, dtype=bool))

    @pytest.mark.parametrize(
        ("before", "after", "size"),
        [
            ([1.0, 2.0], [1.0, 2.0], 0.0),
            ([1.0, 2.0], [1.5, 2.0], 0.25),
            ([0.0], [1e-30], np.inf),
            ([np.nan, 1.0], [np.nan, 1.0], 0.0),
            ([1.0, 1.0], [np.nan, 1.0], np.inf),
            ([3], [4], 1 / 3),
            ([True], [False], np.inf),
            (["a"], ["b"], np.inf),
            ([], [], 0.0),
            ([1.0], [1.0, 1.0], np.inf),
        ],
    )
    def test_moved(self, before, after, size):
        assert moved(np.array(before), np.array(after)) == pytest.approx(size)


class _Weight(layers.Layer):
    """Multiplies by a weight [F], whose gradient, the sum over rows, goes through a function."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def build(self, shape):
        self.w = self.add_weight(name="w", shape=shape[1:], initializer="ones")

    def call(self, inputs):
        @tf.custom_gradient
        def changed(w):
            return tf.identity(w), self.change

        return inputs * changed(self.w)


class TestSums:
    """Gradients of two groups have to add up, as well as their rounding lets them."""

    @pytest.mark.parametrize("lost", [3e3, 3e4])
    def test_lost_digits_are_rounding(self, lost):
        """As of a sum over 400,000 positions of public images, of which four digits are left."""
        assert audit.findings(sequential(_Weight(lambda g: (g + lost * g) - lost * g))) == []

    @pytest.mark.parametrize("part", [0.3, 3e-3])
    def test_what_other_rows_change_is_found_however_small(self, part):
        def bent(g):
            return g * (1 + part * tf.tanh(tf.reduce_sum(g)))

        def of_another_length(g):
            return g / tf.norm(g) ** part

        for change in (bent, of_another_length):
            found = audit.findings(sequential(_Weight(change)))
            assert {"gradient"} == {f.check for f in found}
            assert "when other rows count in the loss" in str(found)
