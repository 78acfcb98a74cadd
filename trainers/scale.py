"""Differences of a run from its paper's scale, in the words that all papers' specs use.

Cells have our settings, which two cores can train. Made inside of `at_scale("paper")` they have
what the paper states, in the place of ours.
"""

import contextlib
import dataclasses
import math
from typing import NamedTuple

from tfdpnorm.choices import AUTO
from trainers.specs.options import options

SCALES = ("ours", "paper")
_scale = "ours"

# What fields are called, where their own names would not say it.
_WORDS = {
    "expected_batch_size": "expected lot",
    "augmentation_multiplicity": "views",
    "views": "kind of views",
    "public_batch_size": "public rows",
    "width": "channels in the first stage",
}


class Stated(NamedTuple):
    """A paper's words on a setting, and the value that is as in the paper; None if none is."""

    value: object
    words: str


@contextlib.contextmanager
def at_scale(scale):
    """While this lasts, cells are made at a scale, one of `SCALES`."""
    global _scale
    before, _scale = _scale, scale
    try:
        yield
    finally:
        _scale = before


def is_at_papers_scale():
    """Whether cells are being made at the paper's scale."""
    return _scale == "paper"


def given_names(settings):
    """Returns the names of the fields that a caller has set, a list."""
    return [name for name, value in settings.items() if value is not None]


def with_scale(spec, theirs, given=()):
    """Returns a spec whose `reduced` says what of it is smaller than in the paper, or another.

    A spec that says so already is returned as it is. `theirs` has the paper's own values, or
    `Stated`, by field; "model_options" is a dict of options. None, and fields left out, are what
    the paper does not state. Fields that have no effect in this run are no difference. At the
    paper's scale the spec gets what the paper states before, but for the fields that are `given`,
    which the caller has set.
    """
    if spec.reduced:
        return spec
    if is_at_papers_scale():
        spec = _as_in_the_paper(spec, theirs, set(given))
    parts = [
        _difference(spec, name, value)
        for name, value in theirs.items()
        if value is not None and _has_effect(spec, name)
    ]
    return dataclasses.replace(spec, reduced="; ".join(filter(None, parts)))


def _as_in_the_paper(spec, theirs, given):
    """The spec with what the paper states in a value, and a physical batch that fits."""
    fields = options(type(spec))
    values = {
        name: value.value if isinstance(value, Stated) else value for name, value in theirs.items()
    }
    own = dict(spec.model_options)
    options_stated = {k: v for k, v in values.get("model_options", {}).items() if k in own}
    values["model_options"] = tuple({**own, **options_stated}.items())
    if values.get("epochs") is not None:
        given = given | ({"epochs"} if "steps" in given else set())
        if "epochs" not in given:
            values["steps"] = None
    if "max_examples" not in given:
        values["max_examples"] = None
    if "physical_batch_size" in fields:
        values["physical_batch_size"] = AUTO
    changes = {
        name: value
        for name, value in values.items()
        if name not in given
        and name in fields
        and (value is not None or name in ("steps", "max_examples"))
    }
    if "search" not in given:
        changes["search"] = "the paper's; what it does not state is as in our own cell"
    return spec.replaced(**changes)


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
