"""The test accuracy of a network."""

import numpy as np

TEST_ROWS = 1000


def test_accuracy(model, data):
    """Test accuracy in percent of the present weights, `TEST_ROWS` rows at a time.

    Where weights are drawn at every call, that many rows share a draw.

    Args:
        model: Keras model.
        data: `ExperimentData`.
    """
    logits = model.predict(data.test_x, batch_size=TEST_ROWS, verbose=0)
    return float(100 * np.mean(np.argmax(logits, axis=-1) == data.test_y))
