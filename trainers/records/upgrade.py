"""Upgrades what older versions wrote, when it is read: the one place that knows of them.

Older records have neither kind nor network and column: their cells are named "network/column".
"""

# What runs were before a field was there to say it.
_BEFORE = {
    "epsilon_claimed": None,
    "epsilon_validation": None,
    "epsilon_of_a_trial": None,
    "epsilon_of_trials_composed": None,
    "trials": None,
    "noise_generator": "philox",
    "insecure_seed": None,
    "resumes": 0,
    "weight_noise_stddev": None,
    "pretrained": None,
    "search": "on the test set, over a few runs",
    "curve": [],
    "not_covered": None,  # was not noted
    "weights_from_elsewhere": None,  # as above
    "statement": None,
    "unit": "row",
    "most_per_person": None,
    "epsilon_of_person": None,
    "num_rows": None,  # as many as examples
    "test_top5": None,
    "test_top5_ema": None,
    "device": None,  # as above
}

# Kinds of run that there were: the kind now, and settings that the old one implied.
_KINDS = {
    "weight_noise": ("non_private", {}),
    "variational": ("private", {}),
    "as_printed": ("private", {"reading": "as_printed"}),
    "finetune": ("private", {"trainable": "head"}),
    "variational_search": ("search", {}),
    "finetune_search": ("search", {"trainable": "head"}),
    "non_private_search": ("search", {}),
    "weight_noise_search": ("search", {}),
}


def upgraded(record, fields):
    """Returns a record, unchanged itself, as the present version would have written it.

    Only the fields of its kind of record are added.
    """
    older = {**_BEFORE, "kind": _kind(record)}
    if "network" in fields and "network" not in record and "cell" in record:
        older |= _split(record["cell"], str.rpartition if "check" in record else str.partition)
    record = {**{name: value for name, value in older.items() if name in fields}, **record}
    record = _with_one_unit(record)
    kind, settings = _KINDS.get(str(record.get("kind")), (record.get("kind"), {}))
    if "kind" in record:
        record["kind"] = kind
    if isinstance(record.get("flags"), dict):
        record["flags"] = {**settings, **upgraded_settings(record["flags"])}
    return record


def upgraded_settings(settings):
    """Returns the settings of a run, a dict, as the present version would have noted them.

    Raises:
        ValueError: if they hold a cell that is no name.
    """
    settings = _with_one_unit(settings)
    if "network" in settings or "cell" not in settings:
        return settings
    others = {name: value for name, value in settings.items() if name != "cell"}
    return others | _split(settings["cell"])


def _with_one_unit(found):
    """A record or settings, with the rows that a person had at most where rows were sampled."""
    if "most_rows_per_person" not in found:
        return found
    others = {name: value for name, value in found.items() if name != "most_rows_per_person"}
    most = found["most_rows_per_person"]
    return others if most is None else others | {"most_per_person": most, "unit": "row"}


def _kind(record):
    if "check" in record:
        return "audit"
    if "rows" in record:
        return "sensitivity"
    return "private" if record.get("weight_noise_stddev") is None else "non_private"


def _split(cell, at_slash=str.partition):
    if not isinstance(cell, str):
        raise ValueError(f"a cell named {cell!r}")
    # In audits' names the network has a slash of its own: "lenet5/group/mechanism".
    network, _, column = at_slash(cell, "/")
    return {"network": network, "column": column}
