"""A trained model in its serving formats, each compared with the model itself."""

from __future__ import annotations

import hashlib
import json
import math
import os
import pathlib
import shutil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm import files
from tfdpnorm.convert.fold import fold_public_statistics
from tfdpnorm.convert.tflite import run_tflite, to_tflite
from tfdpnorm.keras_compat.inputs import input_names, packed_for, rows_by_input
from tfdpnorm.keras_compat.models import (
    is_made_of_layers,
    sublayers,
    symbolic_inputs,
)
from tfdpnorm.keras_compat.saving import write_saved_model
from tfdpnorm.layers import ScaleNorm
from tfdpnorm.privacy.metadata import write_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from tfdpnorm.training.private_model import PrivateModel


# Largest change of an output, over the largest output: of formats that compute in float32, ...
FLOAT_TOLERANCE = 1e-3
# ... and by how much an int8 model may differ, in root mean square, before it is rejected.
INT8_TOLERANCE = 0.5
_ROWS = 128


class ExportedFile(NamedTuple):
    """One format of an exported model.

    Attributes:
        format: "keras", "saved_model", "tflite" or "tflite_int8".
        path: File or folder.
        bytes: Its size.
        sha256: Digest of the file; of a SavedModel, of its graph.
        largest: Largest change of an output, over the largest output.
        relative: Root mean square of the change, over that of the outputs.
        same_class: Share of the rows whose largest output is the same one.
    """

    format: str
    path: pathlib.Path
    bytes: int
    sha256: str
    largest: float
    relative: float
    same_class: float


def export(
    model: keras.Model,
    folder: str | os.PathLike,
    public_rows: Any = None,
    *,
    int8: bool = True,
    trained_by: PrivateModel | None = None,
    echo: Callable[[str], Any] = lambda line: None,
) -> list[ExportedFile]:
    """Writes a trained model as `.keras`, SavedModel and TFLite, in float32 and in int8.

    Public-batch normalisation is folded into constants where it can be, so that no file needs this
    library. Each file is loaded again, and its predictions are compared.

    Privacy:
        Files hold what the model has released, and the ranges of activations for int8 come from
        the public rows alone.

    Args:
        model: A `PrivateModel`, or a Sequential or functional Keras model, with one output.
        folder: Folder of the files, made if absent; removed again after an error.
        public_rows: [M, ...] rows that are not private, to compare predictions on, and for the
            ranges of int8; of several inputs, a dict by their names, or a tuple. None for the first
            128 public rows of a `PrivateModel`, synthetic ones included.
        int8: Whether to write the int8 file too.
        trained_by: The `PrivateModel` that trained a part of `model`, whose privacy metadata the
            Keras files hold (`tfdpnorm.privacy.metadata`); None for `model` itself, if it is one.
        echo: Function that shows a line, of which each file gets one; by default nothing is shown.

    Returns:
        List of `ExportedFile`.

    Raises:
        ValueError: without rows for each input, or for several outputs, or if a file predicts
            otherwise: beyond `FLOAT_TOLERANCE` in float32, or beyond `INT8_TOLERANCE` in int8.
        OSError: if the folder cannot be written to.
    """
    served = model.servable() if hasattr(model, "servable") else model
    in_sums = any(isinstance(x, ScaleNorm) for x in sublayers(served))
    if is_made_of_layers(served) and not in_sums:
        served = fold_public_statistics(served)
    rows = _rows_for(model, served, public_rows)
    expected = _predicted(served, rows)
    if trained_by is None:
        metadata = model.privacy_metadata() if hasattr(model, "privacy_metadata") else None
    else:
        metadata = trained_by.privacy_metadata(model)
    is_new = not os.path.exists(folder)
    folder = files.make_folder(folder, "export_dir")
    try:
        return _written(served, folder, rows, expected, metadata, int8, echo)
    except BaseException:
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _written(served, folder, rows, expected, metadata, int8, echo):
    """Writes and compares the files; returns their `ExportedFile`s."""
    found = []

    def add(kind, path, outputs, tolerance, by):
        file = path / "saved_model.pb" if path.is_dir() else path
        size = sum(f.stat().st_size for f in ([path] if path.is_file() else path.rglob("*")))
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        entry = ExportedFile(kind, path, size, digest, **_compared(expected, outputs))
        if not getattr(entry, by) <= tolerance:
            raise ValueError(
                f"Expected {path} to predict as the model does, up to {tolerance:g} ({by}), got "
                f"{getattr(entry, by):.3g}."
            )
        found.append(entry)

    path = folder / "model.keras"
    echo(f"  writing and comparing {path}")
    served.save(path)
    if metadata is not None:
        write_metadata(path, metadata)
    loaded = keras.models.load_model(path, compile=False)
    add("keras", path, _predicted(loaded, rows), FLOAT_TOLERANCE, "largest")
    path = folder / "saved_model"
    echo(f"  writing and comparing {path}")
    write_saved_model(served, path)
    if metadata is not None:
        write_metadata(path, metadata)
    restored = tf.saved_model.load(os.fspath(path))
    tensors = {name: tf.constant(part) for name, part in rows.items()}
    named, by_place = (tensors, ()) if len(tensors) > 1 else ({}, tensors.values())
    (outputs,) = restored.signatures["serving_default"](*by_place, **named).values()
    add("saved_model", path, outputs.numpy(), FLOAT_TOLERANCE, "largest")
    path = folder / "model.tflite"
    echo(f"  writing and comparing {path}")
    files.write_whole(path, to_tflite(served))
    add("tflite", path, run_tflite(path, rows), FLOAT_TOLERANCE, "largest")
    if int8:
        path = folder / "model_int8.tflite"
        echo(f"  writing and comparing {path}")
        files.write_whole(path, to_tflite(served, list(rows.values())))
        add("tflite_int8", path, run_tflite(path, rows), INT8_TOLERANCE, "relative")
    return found


def _rows_for(model, served, public_rows):
    """The rows to compare on, those given or those that trained the model: a dict by input."""
    of_run = getattr(model, "streams", None)
    if public_rows is None and of_run is not None and of_run.layers:
        public_rows = tf.nest.map_structure(lambda part: part[:_ROWS], of_run.public_batch)
    names = input_names(served) or [None]
    wanted = "rows [M, ...]" if len(names) == 1 else f"a dict of rows [M, ...] for {names}"
    if public_rows is None or isinstance(public_rows, str):
        raise ValueError(
            f"Expected public_rows to be {wanted} that are not private, got {public_rows!r}. "
            "Predictions are compared on them. Make some with tfdpnorm.data.synthetic_rows, or "
            "leave them out for a PrivateModel that was trained with public rows."
        )
    if len(names) == 1 and not isinstance(public_rows, dict):
        parts = [public_rows]
    else:
        given = tuple(public_rows) if isinstance(public_rows, list) else public_rows
        parts = rows_by_input(served, tf.nest.map_structure(np.asarray, given))
    if len(parts) != len(names) or len({len(part) for part in parts}) > 1:
        raise ValueError(
            f"Expected public_rows to be {wanted}, as many rows of each, got {len(parts)} arrays "
            f"of {[len(part) for part in parts]} rows. Pass the same rows of each input."
        )
    inputs = symbolic_inputs(served)
    inputs = served.inputs if inputs is None else tf.nest.flatten(inputs)
    dtypes = [tf.as_dtype(x.dtype).as_numpy_dtype for x in inputs]
    arrays = map(np.asarray, parts, dtypes)
    return dict(zip(names, arrays, strict=True))


def _predicted(model, rows):
    """The predictions for a dict of rows, an array; errors for several outputs."""
    outputs = model(packed_for(model, list(rows.values())), training=False)
    if tf.nest.is_nested(outputs):
        raise ValueError(
            f"Expected a model with one output, got {len(tf.nest.flatten(outputs))}. Export a "
            "keras.Model of one of them: export(keras.Model(m.inputs, m.outputs[0]), ..., "
            "trained_by=private), with m = private.servable()."
        )
    return np.asarray(outputs)


def _compared(expected, outputs):
    size = max(float(np.abs(expected).max()), 1e-30)
    spread = max(float(np.sqrt(np.mean(np.square(expected)))), 1e-30)
    change = outputs - expected
    return {
        "largest": float(np.abs(change).max()) / size,
        "relative": float(np.sqrt(np.mean(np.square(change)))) / spread,
        "same_class": float(np.mean(outputs.argmax(-1) == expected.argmax(-1))),
    }


# --- model cards ---


MARKDOWN, JSON = "MODEL_CARD.md", "model_card.json"
_SHOWN = (
    "test_accuracy",
    "num_examples",
    "epsilon",
    "delta",
    "accountant",
    "noise_multiplier",
    "l2_norm_clip",
    "expected_batch_size",
    "updates",
    "statistics",
    "seed",
    "commit",
)


def write_card(
    folder: str | os.PathLike,
    *,
    name: str,
    statement: str,
    exported: Sequence[ExportedFile],
    privacy: Mapping[str, Any] | None = None,
    record: Mapping[str, Any] | None = None,
    about: Mapping[str, str] | None = None,
) -> tuple[Path, Path]:
    """Writes a model card as Markdown and as JSON.

    Args:
        folder: Folder of the model's files.
        name: Name of the model.
        statement: The privacy statement of its training, `private.privacy_statement()`, as it is.
        exported: List of `tfdpnorm.convert.ExportedFile`.
        privacy: The same as JSON, `private.privacy_statement_json()`; None for none.
        record: Record of the run, a dict; None for none.
        about: Dict from headings to their text: data, intended use, licence, preprocessing.

    Returns:
        Pair of the paths, of the Markdown file and of the JSON file.

    Raises:
        OSError: if they cannot be written.
    """
    folder = files.make_folder(folder, "export_dir")
    card = {
        "name": name,
        "privacy_statement": str(statement),
        "privacy": privacy,
        "guarantee_holds": None if record is None else record["guarantee_holds"],
        "about": dict(about or {}),
        "files": [
            {**entry._asdict(), "path": entry.path.name, "format": entry.format}
            for entry in exported
        ],
        "record": record,
    }
    text = json.dumps(_plain(card), indent=1) + "\n"
    return (
        files.write_whole(folder / MARKDOWN, _markdown(card)),
        files.write_whole(folder / JSON, text),
    )


def _markdown(card):
    lines = [f"# {card['name']}", "", "## Privacy", "", "```", card["privacy_statement"], "```"]
    if card["guarantee_holds"] is False:
        lines += ["", "**No guarantee holds for this model.**"]
    for heading, text in card["about"].items():
        lines += ["", f"## {heading}", "", str(text)]
    if card["record"] is not None:
        lines += ["", "## Training and results", "", "| | |", "|---|---|"]
        lines += [f"| {name} | {card['record'].get(name)} |" for name in _SHOWN]
    lines += ["", "## Files", "", "Compared with the trained model, on public rows:", ""]
    lines += [
        "| file | format | bytes | largest change | root mean square | same class | sha256 |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {f['path']} | {f['format']} | {f['bytes']:,} | {f['largest']:.1e} | "
        f"{f['relative']:.1e} | {f['same_class']:.1%} | {f['sha256'][:16]} |"
        for f in card["files"]
    ]
    return "\n".join(lines) + "\n"


def _plain(value):
    """JSON has no infinity: it is written as a word."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
