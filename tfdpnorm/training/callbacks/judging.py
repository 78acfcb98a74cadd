"""Which validation examples a model answers correctly."""

import numpy as np


def class_numbers(y):
    """Class numbers [N] of targets [N], [N, 1] or one-hot [N, classes]."""
    remedy = "Pass correct=, a function (y, predictions) -> bool [rows]."
    if not isinstance(y, np.ndarray) or y.ndim > 2:
        got = list(y.shape) if isinstance(y, np.ndarray) else f"a {type(y).__name__} of arrays"
        raise ValueError(f"Expected y of shape [rows] or [rows, classes], got {got}. {remedy}")
    if y.ndim == 2 and y.shape[1] > 1:
        if not np.all((y == 0) | (y == 1)) or not np.all((y != 0).sum(axis=1) == 1):
            raise ValueError(f"The rows of y are not one-hot. {remedy}")
        return y.argmax(axis=1)
    y = y.reshape(-1)
    if np.any(y < 0) or np.any(y != np.floor(y)):
        raise ValueError(f"Expected class numbers 0, 1, ... in y, got other numbers. {remedy}")
    return y.astype(np.int64)


def right_class(labels, predictions, from_logits):
    """Whether the class that a model chooses is the label, bool [rows]."""
    remedy = "Pass correct=, a function (y, predictions) -> bool [rows]."
    if not isinstance(predictions, np.ndarray) or predictions.ndim > 2:
        raise ValueError(f"The model does not have one output [rows] or [rows, classes]. {remedy}")
    scores = predictions.reshape(len(predictions), -1)
    if labels.max() >= max(2, scores.shape[1]):
        raise ValueError(
            f"Expected class numbers below {max(2, scores.shape[1])}, as many as the model "
            f"distinguishes, got {labels.max()}. {remedy}"
        )
    if scores.shape[1] > 1:
        return scores.argmax(axis=1) == labels
    if from_logits is None:
        raise ValueError(
            "Expected from_logits=True or False for a model with a single output, got None: the "
            "outputs do not show whether class 1 begins at 0 or at 0.5."
        )
    return (scores[:, 0] > (0.0 if from_logits else 0.5)) == (labels == 1)
