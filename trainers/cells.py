"""What the papers' cells share: whose settings go first, and what a column is called."""


def with_changes(ours, settings):
    """Returns our settings with those of `settings` that are not None in their place.

    Args:
        ours: Dict of fields of a spec.
        settings: Dict of fields of the spec, such as a user's.
    """
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
