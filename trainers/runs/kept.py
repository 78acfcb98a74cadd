"""Files of a run: the folder from which it is resumed, and the trained model.

A run folder has the settings that its run was begun with in `settings.json`, so that nobody
resumes it with other ones and then writes a record that says so of the whole run. Settings alone,
and hidden files, which a killed process may leave half written, are no run yet.
"""

import contextlib
import json
import pathlib

from tfdpnorm import files
from tfdpnorm.training.resume.run_folder import check_no_ledger
from trainers.runs.settings import differences

SETTINGS = "settings.json"


@contextlib.contextmanager
def claim_run_dir(run_dir, spec, resume=False):
    """Context in which a run is prepared that is kept in a folder, which is empty or its own.

    On entering, the settings of a new run are written, whole or not at all. A folder that holds a
    run is rejected unless `resume`, and one with other settings, or files without settings, always.
    If the preparation fails and has left nothing besides, the settings are removed, and so is the
    folder if it is new. None for a run that is not kept.
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
        text = json.dumps(spec.settings, indent=1) + "\n"
        files.write_whole(folder / SETTINGS, text, durable=True)
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
    """Names of the files in a folder, except settings and hidden files."""
    names = sorted(path.name for path in folder.iterdir())
    return [name for name in names if name != SETTINGS and not name.startswith(".")]


def _check_is_the_run(folder, spec, resume):
    if not resume:
        check_no_ledger(folder)
    held = _read(folder)
    if not resume:
        raise ValueError(
            f"The run_dir {folder} holds a run already. Pass resume=True (--resume) to resume it, "
            "or name another folder."
        )
    other = differences(spec, held)
    if held.get("seed") != spec.seed:
        other.append("seed")
    if other:
        raise ValueError(
            f"The run in run_dir {folder} has other settings: {', '.join(other)}. Move it away, or "
            "name another folder."
        )


def _read(folder):
    path = folder / SETTINGS
    if not path.exists():
        raise ValueError(
            f"The run_dir {folder} holds {', '.join(_content(folder)[:3])}, but no {SETTINGS}, "
            "like runs of older versions: its settings are unknown. Name another folder; the "
            "epsilons of several runs on the same data add up."
        )
    try:
        held = json.loads(path.read_text())
        if not isinstance(held, dict):
            raise ValueError(f"a {type(held).__name__}")
        return held
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"Expected the settings of a run in {path}, got something else ({error}). Restore it, "
            "or name another run_dir."
        ) from None


# --- the trained model, in a Keras file ---

_SUFFIX = ".keras"


def check_model_file(path):
    """Rejects a path that a model cannot be saved to, before anything is trained."""
    path = pathlib.Path(path)
    if path.suffix != _SUFFIX:
        raise ValueError(
            f"Expected save_model to end in {_SUFFIX}, got {str(path)!r}. Name such a file."
        )
    files.make_folder(path.parent, "the folder of save_model")


def average_file(path):
    """The file for the model with averaged weights, next to that of the model."""
    path = pathlib.Path(path)
    return path.with_name(f"{path.stem}-average{path.suffix}")


def save_model(path, model, statement):
    """Writes a model as Keras does, and its privacy statement to a text file of the same name.

    The file ends in .keras. Returns both paths.
    """
    path = pathlib.Path(path)
    with files.scratch_file(path) as partial:
        model.save(partial)
        # Last, both together: a model that could not be saved must not change what is said.
        text = files.write_whole(path.with_suffix(".txt"), statement + "\n")
        partial.replace(path)
    return path, text
