"""What a record must not contradict, whoever changed it since it was written."""

import math
import numbers

_PERCENTAGES = ("test_accuracy", "test_accuracy_ema", "test_top5", "test_top5_ema")
_PERCENTAGES_OF_CURVES = ("test_accuracy", "validation_accuracy")


def check_record(record):
    """Rejects accuracies that cannot be, and an epsilon that is not the privacy statement's.

    What the record lacks is not checked.
    """
    for name in _PERCENTAGES:
        _check_percentage(name, record.get(name))
    curve = record.get("curve") or []
    if not isinstance(curve, list) or not all(isinstance(point, dict) for point in curve):
        raise ValueError("a curve that is no list of points")
    for point in curve:
        for name in _PERCENTAGES_OF_CURVES:
            _check_percentage(f"{name} of its curve", point.get(name))
    statement = record.get("statement")
    if not isinstance(statement, dict) or "guarantee" not in statement:
        return
    figures = statement["guarantee"]  # none without a guarantee
    stated = math.inf if figures is None else None
    if isinstance(figures, dict):
        stated = figures.get("epsilon")
    if stated is not None and "epsilon" in record and record["epsilon"] != stated:
        raise ValueError(f"epsilon {record['epsilon']!r}, but {stated!r} in its privacy statement")


def _check_percentage(name, value):
    if value is None:
        return
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not (is_number and 0 <= value <= 100):  # NaN is not
        raise ValueError(f"{name} {value!r}, not a number from 0 to 100")
