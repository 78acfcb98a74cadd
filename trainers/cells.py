"""Shared parts of the papers' cells: precedence of settings, names of columns, precisions."""


def with_changes(ours, settings):
    """Returns our fields of a spec with those of `settings` that are not None in their place."""
    changes = {name: value for name, value in settings.items() if value is not None}
    made = {**ours, **changes}
    if "steps" in changes and "epochs" not in changes:
        made.pop("epochs", None)
    return made


def column_of_privacy(epsilon, noise_multiplier=None):
    """The column of a run with this target epsilon, or without one with this noise."""
    if epsilon is not None:
        return f"eps={epsilon:g}"
    return "z=none" if noise_multiplier is None else f"z={noise_multiplier:g}"


def in_precision(spec, precision=None):
    """Returns the spec of a cell in another precision than its own, which `reduced` then says.

    `precision` None is the cell's.
    """
    own = spec.run.precision
    if precision in (None, own):
        return spec
    other = f"precision {precision} in place of the cell's {own}"
    reduced = "; ".join(filter(None, [spec.run.reduced, other]))
    return spec.replaced(precision=precision, reduced=reduced)
