"""A search that goes on with other rows is rejected."""

import numpy as np
import pytest
import tensorflow as tf

from tests.tuning.conftest import FakeHyperModel
from tfdpnorm.data import poisson_batches
from tfdpnorm.privacy import read_ledger
from tfdpnorm.tuning.folder import LEDGER, ROWS, rows_digest, rows_of_search


def killed_in(trial):
    def before(number, hp):
        if number == trial:
            raise KeyboardInterrupt

    return FakeHyperModel(before)


@pytest.fixture
def begun(tuner, run, draw):
    """A search of four trials that was killed in its third, and is made again by `tuner`."""
    draw(4)
    with pytest.raises(KeyboardInterrupt):
        run(tuner(killed_in(3)))


class TestRows:
    @pytest.mark.parametrize("changed", ["split", "labels", "order", "scored", "scored labels"])
    def test_others_are_rejected(self, begun, tuner, data, changed):
        x, y, (other_x, other_y) = data.x.copy(), data.y.copy(), data.other
        other_x, other_y = other_x.copy(), other_y.copy()
        if changed == "split":
            x[0], other_x[0] = data.other[0][0], data.x[0]
        elif changed == "labels":
            y[7] = (y[7] + 1) % 10
        elif changed == "order":
            x, y = x[::-1], y[::-1]
        elif changed == "scored":
            other_x[0] += 1
        else:
            other_y[0] = (other_y[0] + 1) % 10
        made = tuner()
        with pytest.raises(ValueError, match="digest of the training and validation rows"):
            made.search(x, y, validation_data=(other_x, other_y), verbose=0)
        assert made.hypermodel.trained == []
        # Nothing was spent, and the ledger is free for the right ones.
        made.search(data.x, data.y, validation_data=data.other, verbose=0)
        assert len(made.hypermodel.trained) == 2

    def test_the_same_ones_in_other_clothes_go_on(self, begun, tuner, data):
        lots = poisson_batches(data.x, data.y, expected_batch_size=100)
        other = (tf.constant(data.other[0]), data.other[1])
        made = tuner()
        made.search(lots, validation_data=other, verbose=0)
        assert len(made.hypermodel.trained) == 2

    def test_weights_and_persons_are_of_the_rows(self, data):
        lots = [
            poisson_batches(data.x, data.y, expected_batch_size=100, sample_weight=weights)
            for weights in (None, np.linspace(0.5, 1, len(data.y)))
        ]
        made = [
            rows_of_search(lots[0], None, data.other, {}),
            rows_of_search(lots[1], None, data.other, {}),
            rows_of_search(data.x, data.y, data.other, {"class_weight": {0: 1.0, 1: 2.0}}),
            rows_of_search(data.x, data.y, data.other, {"class_weight": {0: 2.0, 1: 1.0}}),
            rows_of_search(data.x, data.y, data.other, {"person": np.arange(100)}),
            rows_of_search(data.x, data.y, data.other, {"person": np.arange(100) % 9}),
        ]
        assert len({rows_digest(rows, b"key") for rows in made}) == 6

    def test_a_digest_is_of_all_and_under_a_key(self):
        x, texts = np.arange(6.0).reshape(2, 3), np.array([b"a", b"b"], object)
        rows = {"a": x, "b": (texts, None, [1, 2], "text")}
        digests = [
            rows_digest(rows, b"key"),
            rows_digest(rows, b"another"),
            rows_digest({**rows, "a": x + 1}, b"key"),
            rows_digest({**rows, "a": x.astype(np.float32)}, b"key"),
            rows_digest({**rows, "a": x.reshape(3, 2)}, b"key"),
            rows_digest({**rows, "b": (texts[::-1], None, [1, 2], "text")}, b"key"),
            rows_digest({**rows, "b": (texts, None, [2, 1], "text")}, b"key"),
        ]
        assert len(set(digests)) == len(digests)
        again = {"a": tf.constant(x), "b": (texts.copy(), None, [1, 2], "text")}
        assert rows_digest(again, b"key") == digests[0]
        # What is no array has no rows that could be looked at, and another address each time.
        sets = [tf.data.Dataset.from_tensor_slices(x) for _ in range(2)]
        assert rows_digest(sets[0], b"key") == rows_digest(sets[1], b"key")

    def test_the_digest_is_keyed_by_the_secret(self, tuner, run, draw, tmp_path):
        """Else whoever sees it could try out which rows they are."""
        draw(0)
        found = set()
        for name in ("a", "b"):
            run(tuner(project_name=name))
            found.add(read_ledger(tmp_path / name / LEDGER).settings[ROWS])
        assert len(found) == 2
