"""The settings of a run: which of them differ from another's, and whose run a folder holds.

A run folder has the settings that its run was begun with in `settings.json`, so that nobody goes
on with other ones and then writes a record that says so of the whole run. Settings alone, and
hidden files, which a killed process may leave half written, are no run yet.
"""

import contextlib
import dataclasses
import json
import math
import numbers
import os
import pathlib

from tensorflow import keras

from tfdpnorm import files
from tfdpnorm.experiments.records.record import NOT_MEASURED
from tfdpnorm.experiments.spec import ExperimentSpec, WeightNoiseSpec
from tfdpnorm.training.resume.run_folder import check_no_ledger

SETTINGS = "settings.json"


def settings(spec):
    """Returns what a record of a spec's run has as "flags": a dict, the precision in it."""
    return {
        **dataclasses.asdict(spec),
        "precision": keras.mixed_precision.global_policy().name,
    }


def differences(spec, flags):
    """Returns the names of the settings in which a run with `flags` is another than `spec`.

    Lists count as tuples, and a field that `flags` lacks counts as its default: older records do
    not have the newer fields. A field that the spec lacks is a difference. Left out are the seed
    and what has no effect on the network at hand.
    The spec is one that is trained at Keras' present precision.

    Args:
        spec: An `ExperimentSpec` or `WeightNoiseSpec`.
        flags: Dict, such as the "flags" of a record.
    """
    return _differences(settings(spec), flags, type(spec))


def have_same_settings(records):
    """Whether records, of one cell, differ in none of their settings, as `differences` has it.

    Args:
        records: List of records, at least one.
    """
    first, *others = records
    kind = ExperimentSpec if first["weight_noise_stddev"] is None else WeightNoiseSpec
    return not any(_differences(first["flags"], other["flags"], kind) for other in others)


def _differences(first, second, kind):
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    first, second = ({"precision": "float32", **defaults, **flags} for flags in (first, second))
    left_out = {"seed", *NOT_MEASURED, *(_without_effect(first) & _without_effect(second))}
    missing = dataclasses.MISSING  # equal to nothing but itself
    return [
        name
        for name in dict.fromkeys([*first, *second])
        if name not in left_out and not _equal(first.get(name, missing), second.get(name, missing))
    ]


def _without_effect(flags):
    """Names of settings of public rows, if the network has none."""
    if flags["norm"] == "public_batch" or "public_dataset" not in flags:
        return set()
    names = {"statistics", "statistics_gradient", "pull_back_weight"}
    if flags["public_dataset"] != "split":  # which takes rows out of everybody's training set
        names |= {"public_dataset", "public_batch_size"}
    return names


@contextlib.contextmanager
def claim_run_dir(run_dir, spec, resume=False):
    """Context in which a run is prepared that is kept in a folder, which holds none or this one.

    On entering, a new run's settings are written, whole or not at all. If the preparation fails
    and has left nothing besides, they are taken back, and so is the folder if it is new.

    Args:
        run_dir: Folder, made if absent; None for a run that is not kept.
        spec: An `ExperimentSpec` or `WeightNoiseSpec`.
        resume: Whether to go on with the run that the folder holds, if any.

    Raises:
        ValueError: on entering, if the folder holds a run and `resume` is False, or a run with
            other settings, or something of which nobody noted the settings.
        OSError: on entering, if the folder cannot be made or written to.
    """
    if run_dir is None:
        yield
        return
    folder = pathlib.Path(run_dir)
    is_new = not folder.exists()
    files.make_folder(folder, "run_dir")
    if _content(folder):
        _check_is_the_run(folder, spec, resume)
    else:
        _write(folder, settings(spec))
    try:
        yield
    except BaseException:
        if not _content(folder):
            (folder / SETTINGS).unlink(missing_ok=True)
            if is_new:
                with contextlib.suppress(OSError):
                    folder.rmdir()
        raise


def _content(folder):
    """Names of what is in a folder, if it is a run's or nobody knows whose."""
    names = sorted(path.name for path in folder.iterdir())
    return [name for name in names if name != SETTINGS and not name.startswith(".")]


def _check_is_the_run(folder, spec, resume):
    if not resume:
        check_no_ledger(folder)
    held = _read(folder)
    if not resume:
        raise ValueError(
            f"Expected run_dir to hold no run yet, got {folder}, which has one. Pass resume=True "
            "(--resume) to go on with it, or name another folder."
        )
    other = differences(spec, held)
    if held.get("seed") != spec.seed:
        other.append("seed")
    if other:
        raise ValueError(
            f"Expected run_dir to hold a run with the present settings, got {folder} with other "
            f"{', '.join(other)}. Move it away, or name another folder."
        )


def _read(folder):
    path = folder / SETTINGS
    if not path.exists():
        raise ValueError(
            f"Expected {SETTINGS} in a run_dir that is not empty, got {folder} with "
            f"{', '.join(_content(folder)[:3])} and without it, as older versions left their runs: "
            "nobody knows the settings. Name another folder; what a private run there has spent "
            "adds to what another one on the same data spends."
        )
    try:
        held = json.loads(path.read_text())
        if not isinstance(held, dict):
            raise ValueError(f"a {type(held).__name__}")
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"Expected the settings of a run in {path}, got something else ({error}). Bring it "
            "back, or name another run_dir."
        ) from None
    return held


def _write(folder, held):
    partial = folder / f".{SETTINGS}.{os.getpid()}"
    with open(partial, "w") as file:
        file.write(json.dumps(held, indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, folder / SETTINGS)


def _equal(first, second):
    if isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)):
        return len(first) == len(second) and all(map(_equal, first, second))
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, numbers.Real) and isinstance(second, numbers.Real):
        return math.isclose(first, second)  # 1.5 * 0.4 and 0.6 are the same setting
    return first == second
