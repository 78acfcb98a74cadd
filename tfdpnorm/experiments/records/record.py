"""The record of a run: one flat JSON object, written once and whole."""

import importlib.metadata
import json
import math
import os
import pathlib
import re
import subprocess
import tempfile

import numpy as np

from tfdpnorm._version import __version__

FIELDS = (
    "experiment",
    "cell",
    "paper_value",
    "test_accuracy",
    "test_accuracy_ema",
    "epsilon",
    "epsilon_target",
    "epsilon_rdp",
    "epsilon_pld",
    "epsilon_claimed",
    "accountant",
    "delta",
    "guarantee_holds",
    "no_guarantee_because",
    "num_examples",
    "expected_batch_size",
    "sampling_rate",
    "noise_multiplier",
    "l2_norm_clip",
    "updates",
    "weight_noise_stddev",
    "statistics",
    "engine",
    "noise_generator",
    "insecure_seed",
    "resumes",
    "seed",
    "scale",
    "search",
    "curve",
    "seconds",
    "examples_per_second",
    "flags",
    "versions",
    "commit",
)
# What runs were before a field was there to say it.
_BEFORE = {
    "epsilon_claimed": None,
    "noise_generator": "philox",
    "insecure_seed": None,
    "resumes": 0,
    "weight_noise_stddev": None,
    "search": "on the test set, over a few runs",
    "curve": [],
}
# Settings that do not change what is measured, and words about the others.
NOT_MEASURED = (
    "physical_batch_size",
    "engine",
    "evaluations",
    "search",
    "reduced",
    "paper_value",
)
_PACKAGES = ("tensorflow", "keras", "tensorflow-privacy", "dp-accounting", "numpy")


def write_record(directory, record, fields=FIELDS):
    """Writes a record and returns its path.

    Args:
        directory: Folder, made if absent.
        record: Dict with exactly the keys `fields`, among them experiment, cell and seed.
        fields: The fields of this kind of record, in their order.

    Raises:
        ValueError: for missing or unknown fields.
        OSError: if the folder cannot be made or written to.
    """
    missing, unknown = set(fields) - set(record), set(record) - set(fields)
    if missing or unknown:
        raise ValueError(
            f"Expected the fields of a record, got {sorted(unknown)} unknown and "
            f"{sorted(missing)} missing."
        )
    directory = make_folder(directory)
    stem = re.sub(r"[^A-Za-z0-9.=_-]+", "-", f"{record['experiment']}-{record['cell']}")
    stem += f"-seed{record['seed']}"
    text = json.dumps({name: _plain(record[name]) for name in fields}, indent=1) + "\n"
    # Written beside its place and moved there, so that no reader sees half a record.
    handle, temporary = tempfile.mkstemp(dir=directory, suffix=".partial")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        path, number = directory / f"{stem}.json", 1
        while True:
            try:
                os.link(temporary, path)  # fails if the name is taken: no run overwrites another's
                return path
            except FileExistsError:
                number += 1
                path = directory / f"{stem}-run{number}.json"
    finally:
        os.unlink(temporary)


def paper_text(record):
    """Returns the paper's figure for a record's cell, or what it says instead; "" for nothing."""
    value = record["paper_value"]
    if value is None:
        return ""
    return value if isinstance(value, str) else f"{value:.2f}"


def make_folder(directory):
    """Makes a folder for records, so that a run learns before it trains that it has none.

    Args:
        directory: Folder, made if absent.

    Returns:
        Its `pathlib.Path`.

    Raises:
        OSError: if it cannot be made or written to.
    """
    path = pathlib.Path(directory)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        taken = path.exists() and not path.is_dir()
        reason = "it is no folder" if taken else error.strerror or str(error)
        raise OSError(
            f"Expected output_dir to be a folder that can be written to, got {path}: {reason}. "
            "Name another one."
        ) from error
    return path


def read_records(directory, experiment=None, fields=FIELDS):
    """Returns the records of a folder, sorted by file name.

    Args:
        directory: Folder of JSON records.
        experiment: Only those of this experiment.
        fields: What they must have.

    Raises:
        ValueError: naming a file that is not a record.
    """
    records = []
    for path in sorted(pathlib.Path(directory).glob("*.json")):
        try:
            record = json.loads(path.read_text())
            if not isinstance(record, dict):
                raise ValueError(f"a {type(record).__name__}")
            if experiment is not None and record.get("experiment", experiment) != experiment:
                continue  # of another kind, perhaps
            record = {**{n: v for n, v in _BEFORE.items() if n in fields}, **record}
            missing = [name for name in fields if name not in record]
            if missing:
                raise ValueError(f"without {', '.join(missing)}")
        except (ValueError, RecursionError, OSError) as error:
            raise ValueError(
                f"Expected a record of a run in {path}, got something else ({error}). Move the "
                "file away."
            ) from None
        records.append(_number(record))
    return records


def provenance(flags):
    """The fields of a record that say what a result was made with."""
    return {
        "flags": flags,
        "versions": {"tfdpnorm": __version__, **package_versions()},
        "commit": source_commit(),
    }


def package_versions():
    """Returns the versions of the packages that a result depends on."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def source_commit():
    """Returns the commit of this checkout, "+changes" if it is not clean; None outside of git."""
    folder = pathlib.Path(__file__).parent

    def git(*arguments):
        return subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        commit = git("rev-parse", "--short=12", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no", "--", str(folder))
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+changes" if changed else "")


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
