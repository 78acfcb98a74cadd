"""What a search tries: a grid of values for each setting, and the spec of a trial.

The grids depend on the spec and the flags alone. Where no values are given, they lie around the
spec's own.
"""

import dataclasses

from tfdpnorm import arguments
from trainers.spec import NonPrivateSpec

_AROUND = (0.1, 0.3, 1.0, 3.0, 10.0)
_LOTS = (0.5, 1.0, 2.0)


def _around(value):
    return [float(f"{value * factor:.6g}") for factor in _AROUND]


def _batch_norm(spec):
    return "batch" if isinstance(spec, NonPrivateSpec) else "public_batch"


def _field(spec, name):
    """The field of a spec that the values are of."""
    if name == "expected_batch_size" and isinstance(spec, NonPrivateSpec):
        return "batch_size"
    return {"views": "augmentation_multiplicity", "groups": "model_options"}.get(name, name)


_GRIDS = {
    "learning_rate": lambda spec: _around(spec.learning_rate),
    "l2_norm_clip": lambda spec: _around(spec.l2_norm_clip),
    "expected_batch_size": lambda spec: [round(spec.examples_per_update * f) for f in _LOTS],
    "groups": lambda spec: [2, 4, 8, 16, 32],
    "norm": lambda spec: ["none", "layer", "group", _batch_norm(spec)],
    "views": lambda spec: [1, 5, 9],
}
_TYPES = {"learning_rate": float, "l2_norm_clip": float, "norm": str}
SEARCHED = tuple(_GRIDS)
"""The names of what may be searched."""


def grids(spec, num_examples=None):
    """Returns a dict from the name of each setting that a spec searches to its values, a tuple.

    Args:
        spec: Spec with the part `Search`.
        num_examples: N: of the lots that nobody named, larger ones are left out. None: any size.

    Raises:
        ValueError: for a name that cannot be searched, or is there twice, or a value of another
            type.
    """
    found = {}
    for item in spec.over.split(","):
        name, _, given = item.strip().partition("=")
        arguments.choice("a name in over", name, SEARCHED)
        if not hasattr(spec, _field(spec, name)):
            raise ValueError(
                f"Expected names in over that a cell of kind {spec.kind!r} has, got {name!r}: it "
                "is trained without privacy. Leave it out."
            )
        if name in found:
            raise ValueError(f"Expected each name in over once, got {name!r} twice.")
        kind = _TYPES.get(name, int)
        try:
            values = [kind(value) for value in given.split(":")] if given else _GRIDS[name](spec)
            if name == "expected_batch_size" and not given and num_examples is not None:
                values = [size for size in values if size <= num_examples]
        except ValueError:
            raise ValueError(
                f"Expected values of {name} such as {name}={_GRIDS[name](spec)[0]}:"
                f"{_GRIDS[name](spec)[-1]}, got {given!r}."
            ) from None
        found[name] = tuple(dict.fromkeys(values))
    return found


def trial_spec(spec, spec_class, chosen, **more):
    """Returns the spec of a trial.

    Args:
        spec: Spec of the search.
        spec_class: Class of the spec of a trial, a base of the search's.
        chosen: Dict from the names in `grids` to the values that the trial has.
        **more: Further fields that differ.
    """
    fields = {field.name: getattr(spec, field.name) for field in dataclasses.fields(spec_class)}
    changes = {_field(spec, name): value for name, value in chosen.items()}
    if "groups" in chosen:
        changes["model_options"] = (*spec.model_options, ("groups", chosen["groups"]))
    return spec_class(**{**fields, **changes, **more})
