"""Differences of a run from its paper's scale, in the words that all papers' specs use.

Cells have our settings, which two cores can train. Made inside of `at_scale("paper")` they have
what the paper states, in the place of ours.
"""

import contextlib
import math
from typing import NamedTuple

from tfdpnorm.choices import AUTO
from trainers.specs.options import options

SCALES = ("ours", "paper")
_scale = "ours"

# What fields are called, where their own names would not say it.
_WORDS = {
    "expected_batch_size": "expected lot",
    "steps": "updates",
    "augmentation_multiplicity": "views",
    "views": "kind of views",
    "public_batch_size": "public rows",
    "width": "channels in the first stage",
}


class Stated(NamedTuple):
    """A paper's words on a setting, and the value that is as in the paper; None if none is.

    Where the paper says nothing, the value `is_ours`: one that can reach the paper's figures.
    """

    value: object
    words: str = ""
    is_ours: bool = False


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

    A spec that says so already stays as it is, and says that, too. `theirs` has the paper's own
    values, or `Stated`, by setting; "model_options" is a dict of options. None, and settings left
    out, are what the paper does not state. Settings without effect in this run are no difference.
    At the paper's scale the spec gets what the paper states before, but for the settings that are
    `given`, which the caller has set.
    """
    if spec.reduced:
        told = f"{spec.reduced}; --scale=paper changes nothing here"
        return spec.replaced(reduced=told) if is_at_papers_scale() else spec
    if is_at_papers_scale():
        spec = _as_in_the_paper(spec, theirs, set(given))
    settings, fields = spec.settings, options(spec)
    parts = []
    for name, value in theirs.items():
        has_effect = fields[name].has_effect(settings)
        if name == "l2_norm_clip":
            has_effect = has_effect and not spec.is_unclipped
        if value is not None and has_effect:
            parts.append(_difference(settings, name, value))
    return spec.replaced(reduced="; ".join(filter(None, parts)))


def _as_in_the_paper(spec, theirs, given):
    """The spec with what the paper states in a value, and a physical batch that fits."""
    values = {
        name: value.value if isinstance(value, Stated) else value for name, value in theirs.items()
    }
    own = dict(spec.model_options)
    stated = {k: v for k, v in values.get("model_options", {}).items() if k in own}
    values["model_options"] = tuple({**own, **stated}.items())
    values["physical_batch_size"] = AUTO
    nothing = {"max_examples": None}
    for length, other in (("epochs", "steps"), ("steps", "epochs")):
        if values.get(length) is not None:
            given = given | ({length} if other in given else set())
            nothing |= {other: None} if length not in given else {}
    changes = {n: v for n, v in values.items() if v is not None and n in options(spec)} | nothing
    changes["search"] = "the paper's; what it does not state is as in our own cell"
    return spec.replaced(**{n: v for n, v in changes.items() if n not in given})


def _difference(settings, name, theirs):
    """In what a setting differs from the paper's value, in words; "" for nothing."""
    ours = settings[name]
    if name == "model_options":
        return "; ".join(
            f"{_name(option)} {_shown(dict(ours)[option])} for {_shown(value)}"
            for option, value in theirs.items()
            if dict(ours).get(option, value) != value
        )
    value, words, is_ours = theirs if isinstance(theirs, Stated) else Stated(theirs)
    if is_ours and (is_at_papers_scale() or not words):
        told = f"{_name(name)} {_shown(ours)}: ours, not stated by the paper"
        return told if is_at_papers_scale() else ""
    is_same = ours == value
    if isinstance(ours, float) and isinstance(value, (int, float)):
        is_same = math.isclose(ours, value)
    if value is not None and is_same:
        return ""
    if name in ("epochs", "steps") and ours is None:
        other, unit = ("steps", "epochs") if name == "epochs" else ("epochs", "updates")
        return f"{_name(other)} {settings[other]} for {words or f'{_shown(value)} {unit}'}"
    return f"{_name(name)} {_shown(ours)} for {words or _shown(value)}"


def _name(field):
    return _WORDS.get(field, field.replace("_", " "))


def _shown(value):
    return f"{value:g}" if isinstance(value, float) else f"{value}"
