"""The space of a search: a grid of values for each setting, and the spec of a trial.

The grids depend on the spec and the flags alone. Where no values are listed, they lie around the
run's own.
"""

from tfdpnorm import arguments
from trainers.specs.options import options

_AROUND = (0.1, 0.3, 1.0, 3.0, 10.0)
_LOTS = (0.5, 1.0, 2.0)


def _around(value):
    return [float(f"{value * factor:.6g}") for factor in _AROUND]


def _field(run, name):
    """The field of a run's spec that the values are of."""
    if name == "expected_batch_size" and run.kind == "non_private":
        return "batch_size"
    return {"views": "augmentation_multiplicity", "groups": "model_options"}.get(name, name)


_GRIDS = {
    "learning_rate": lambda run: _around(run.learning_rate),
    "l2_norm_clip": lambda run: _around(run.l2_norm_clip),
    "expected_batch_size": lambda run: [round(run.examples_per_update * f) for f in _LOTS],
    "groups": lambda run: [2, 4, 8, 16, 32],
    "norm": lambda run: [
        *("none", "layer", "group"),
        "batch" if run.kind == "non_private" else "public_batch",
    ],
    "views": lambda run: [1, 5, 9],
}
_TYPES = {"learning_rate": float, "l2_norm_clip": float, "norm": str}


def grids(spec, num_examples=None):
    """Returns a dict from the name of each setting that a spec searches to its values, a tuple.

    Default batch sizes that are larger than N, unless that is None, are left out.
    """
    run, found = spec.run, {}
    for item in spec.over.split(","):
        name, _, listed = item.strip().partition("=")
        arguments.choice("a name in over", name, tuple(_GRIDS))
        if _field(run, name) not in options(run):
            raise ValueError(
                f"Expected names in over that a cell of kind {run.kind!r} has, got {name!r}: it "
                "is trained without privacy. Leave it out."
            )
        if name in found:
            raise ValueError(f"Expected each name in over once, got {name!r} twice.")
        kind = _TYPES.get(name, int)
        try:
            values = [kind(value) for value in listed.split(":")] if listed else _GRIDS[name](run)
            if name == "expected_batch_size" and not listed and num_examples is not None:
                values = [size for size in values if size <= num_examples]
        except ValueError:
            raise ValueError(
                f"Expected values of {name} such as {name}={_GRIDS[name](run)[0]}:"
                f"{_GRIDS[name](run)[-1]}, got {listed!r}."
            ) from None
        found[name] = tuple(dict.fromkeys(values))
    return found


def trial_spec(run, chosen, **more):
    """Returns the spec of a trial, with the values chosen for names in `grids`, and more fields."""
    changes = {_field(run, name): value for name, value in chosen.items()}
    if "groups" in chosen:
        changes["model_options"] = (*run.model_options, ("groups", chosen["groups"]))
    return run.replaced(**{**changes, **more})
