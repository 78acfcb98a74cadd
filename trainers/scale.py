"""What of a run is smaller than in its paper, or another: all papers' specs say it in this way."""

import dataclasses
import math
from typing import NamedTuple

from trainers.specs.options import options

# What fields are called, where their own names would not say it.
_WORDS = {
    "expected_batch_size": "expected lot",
    "augmentation_multiplicity": "views",
    "views": "kind of views",
    "public_batch_size": "public rows",
    "width": "channels in the first stage",
}


class Stated(NamedTuple):
    """What a paper says of a setting in more than a value.

    Attributes:
        value: Of the field, if there is one that is as in the paper; None if none is.
        words: What is said of it.
    """

    value: object
    words: str


def with_scale(spec, theirs):
    """Returns a spec whose `reduced` says what of it is smaller than in the paper, or another.

    Fields that have no effect in this run are no difference.

    Args:
        spec: Spec of a run. One that says so already is returned as it is.
        theirs: Dict from fields to the paper's own values, or to `Stated`; "model_options" is a
            dict of options. None, and fields left out, are what the paper does not state.
    """
    if spec.reduced:
        return spec
    parts = [
        _difference(spec, name, value)
        for name, value in theirs.items()
        if value is not None and _has_effect(spec, name)
    ]
    return dataclasses.replace(spec, reduced="; ".join(filter(None, parts)))


def _has_effect(spec, name):
    if name == "l2_norm_clip" and spec.is_unclipped:
        return False
    return options(spec)[name].has_effect(spec.settings)


def _difference(spec, name, theirs):
    """In what a field of a spec differs from the paper's value, in words; "" for nothing."""
    if name == "model_options":
        ours = dict(spec.model_options)
        parts = [
            f"{_name(option)} {_shown(ours[option])} for {_shown(value)}"
            for option, value in theirs.items()
            if option in ours and ours[option] != value
        ]
        return "; ".join(parts)
    value, words = theirs if isinstance(theirs, Stated) else (theirs, None)
    ours = getattr(spec, name)
    if value is not None and _is_same(ours, value):
        return ""
    if name == "epochs" and ours is None:
        return f"updates {spec.steps} for {words or f'{_shown(value)} epochs'}"
    return f"{_name(name)} {_shown(ours)} for {words or _shown(value)}"


def _name(field):
    return _WORDS.get(field, field.replace("_", " "))


def _is_same(first, second):
    if isinstance(first, float) and isinstance(second, (int, float)):
        return math.isclose(first, second)
    return first == second


def _shown(value):
    return f"{value:g}" if isinstance(value, float) else f"{value}"
