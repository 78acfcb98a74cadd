"""Folders of records: each is a JSON file, written once and whole."""

import contextlib
import itertools
import json
import math
import pathlib
import re
import sys

import numpy as np

from tfdpnorm import files
from trainers.records.checks import check_record
from trainers.records.fields import FIELDS

# The records that come with the code, in a checkout.
KEPT = pathlib.Path(__file__).resolve().parents[2] / "results"


def write_record(directory, record, fields=FIELDS):
    """Writes a record, a dict with exactly the keys `fields`, and returns its path.

    Among the fields are experiment, cell and seed. The folder is made if absent.
    """
    missing, unknown = set(fields) - set(record), set(record) - set(fields)
    if missing or unknown:
        raise ValueError(
            f"Expected the fields of a record, got {sorted(unknown)} unknown and "
            f"{sorted(missing)} missing."
        )
    directory = files.make_folder(directory, "output_dir")
    text = json.dumps({name: _plain(record[name]) for name in fields}, indent=1) + "\n"
    for path in _paths(directory, record):
        try:
            return files.write_new(path, text)
        except FileExistsError:  # no run overwrites another's record
            continue
        except OSError as error:  # which names no file if the disk is full
            raise OSError(f"Could not write {path}: {files.reason(error)}.") from error


def read_records(directory, experiment=None, fields=FIELDS, *, newest_last=False):
    """Returns the records of a folder, sorted by file name.

    A run counts once: of several records of it the first is read, and a line on stderr names the
    others. `newest_last` sorts them by when they were written instead. A file that is no record
    with these fields, or that `check_record` rejects, is named in a ValueError.
    """
    # By the name without its ending, so that a run's first record is before its second.
    paths = sorted(pathlib.Path(directory).glob("*.json"), key=lambda path: path.stem)
    if newest_last:
        paths.sort(key=lambda path: path.stat().st_mtime_ns)
    runs = {}
    for path in paths:
        if path.name.startswith("."):
            continue  # half written by a process that was killed
        record = read_record(path, fields, experiment)
        if record is None:
            continue
        # What records of the same run share: its id, or all they say where they have none.
        run = _run_id(record) or json.dumps(record, sort_keys=True)
        first, _ = runs.setdefault(run, (path, record))
        if first is not path:
            print(f"Left out {path}: it is of the same run as {first}.", file=sys.stderr)
    return [record for _, record in runs.values()]


def record_of_run(directory, record):
    """Returns the path of a record that `write_record` has written of the same run, or None.

    None also for runs without a privacy statement, which have no id.
    """
    run = _run_id(record)
    for path in itertools.takewhile(pathlib.Path.exists, _paths(directory, record)):
        with contextlib.suppress(ValueError, RecursionError, OSError):  # no record: of no run
            if run is not None and _run_id(_load(path)) == run:
                return path
    return None


def _paths(directory, record):
    """The names that a record may have, endless: the first that is free is taken."""
    stem = f"{file_name(record['experiment'] + '-' + record['cell'])}-seed{record['seed']}"
    yield pathlib.Path(directory) / f"{stem}.json"
    for number in itertools.count(2):
        yield pathlib.Path(directory) / f"{stem}-run{number}.json"


def read_record(path, fields=FIELDS, experiment=None):
    """Returns the record in a file, checked; None if it is not of a given experiment."""
    try:
        record = _load(path)
        if experiment is not None and record.get("experiment", experiment) != experiment:
            return None  # perhaps of another kind
        record.setdefault("command", None)  # which older records lack
        missing = [name for name in fields if name not in record]
        if missing:
            raise ValueError(f"without {', '.join(missing)}")
        record = _number(record)
        check_record(record)
        return record
    except (ValueError, RecursionError, OSError) as error:
        raise ValueError(
            f"Expected a record of a run in {path}, got something else ({error}). Move the file "
            "away."
        ) from None


def _load(path):
    record = json.loads(path.read_text())
    if not isinstance(record, dict):
        raise ValueError(f"a {type(record).__name__}")
    return record


def _run_id(record):
    """The id in a record's privacy statement; None without one."""
    statement = record.get("statement")
    run = statement.get("run") if isinstance(statement, dict) else None
    return run if isinstance(run, str) else None


def file_name(name):
    """Returns a name with nothing in it that a file system could mind."""
    return re.sub(r"[^A-Za-z0-9.=_-]+", "-", name)


def _plain(value):
    """JSON has no infinity: it is written as a word."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _number(value):
    """Undoes `_plain`."""
    if isinstance(value, dict):
        return {key: _number(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_number(item) for item in value]
    return float(value) if value in ("inf", "-inf", "nan") else value
