"""The test accuracy of a network."""

import numpy as np

TEST_ROWS = 1000
_TOP = 5


def test_accuracy(model, data):
    """Test accuracy in percent of the present weights, `TEST_ROWS` rows at a time.

    Where weights are drawn at every call, that many rows share a draw.

    Args:
        model: Keras model.
        data: `ExperimentData`.
    """
    return _top1(_logits(model, data), data.test_y)


def test_accuracies(model, data):
    """Pair of `test_accuracy` and the share of labels among the five largest logits, in percent.

    The latter is None for five classes or fewer. Logits that tie with the label's count as larger.
    """
    logits = _logits(model, data)
    if data.num_classes <= _TOP:
        return _top1(logits, data.test_y), None
    own = np.take_along_axis(logits, np.asarray(data.test_y)[:, np.newaxis], axis=-1)
    # Counted so that NaN is no hit.
    not_below = logits.shape[-1] - np.sum(logits < own, axis=-1)
    return _top1(logits, data.test_y), float(100 * np.mean(not_below <= _TOP))


def rounded(values):
    """List of percentages as records have them: four digits, or None."""
    return [None if value is None else round(value, 4) for value in values]


def _logits(model, data):
    return model.predict(data.test_x, batch_size=TEST_ROWS, verbose=0)


def _top1(logits, labels):
    return float(100 * np.mean(np.argmax(logits, axis=-1) == labels))
