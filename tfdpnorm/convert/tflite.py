"""TFLite models: how a Keras model becomes one, and what it predicts."""

from __future__ import annotations

import concurrent.futures
import importlib.util
import os
import pathlib
import warnings
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from tfdpnorm.keras_compat.devices_and_precision import silent_stderr
from tfdpnorm.keras_compat.inputs import input_names, packed_for
from tfdpnorm.keras_compat.models import symbolic_inputs
from tfdpnorm.keras_compat.saving import owner_of_variables


def to_tflite(model, ranges=None):
    """Returns the bytes of a TFLite model, which takes one row at a time.

    A model of several inputs, which keep their names, is a functional one. `ranges` is a list of
    rows [M, ...] that are not private, one for each input, whose activations give the ranges of
    int8; None for a model in float32. Inputs and outputs of floats are float32 in both.
    """
    inputs = symbolic_inputs(model)
    several = tf.nest.is_nested(inputs) and len(tf.nest.flatten(inputs)) > 1
    names = input_names(model) if several else ["image"]
    tensors = tf.nest.flatten(inputs) if several else model.inputs
    # Of one row: some kernels take no batch of unknown size.
    specs = [
        tf.TensorSpec([1, *x.shape[1:]], x.dtype, name=name)
        for name, x in zip(names, tensors, strict=True)
    ]
    call = lambda *rows: model(packed_for(model, rows), training=False)  # noqa: E731
    return of_function(call, specs, model, ranges)


def of_function(call, specs, owner, ranges=None):
    """Returns the bytes of a TFLite model that computes a function of tensors.

    `specs` is a list of `tf.TensorSpec`, with one row each; `owner` is the Keras model or layer
    that has the function's variables; `ranges` as in `to_tflite`.
    """
    function = tf.function(call, autograph=False)
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [function.get_concrete_function(*specs)], owner_of_variables(owner)
    )
    if ranges is not None:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        names = [spec.name for spec in specs]  # Its own order of the inputs is another one.
        converter.representative_dataset = lambda: (
            {name: row[np.newaxis] for name, row in zip(names, rows, strict=True)}
            for rows in zip(*ranges, strict=True)
        )
        converter.target_spec.supported_ops = [
            tf.lite.OpsSet.TFLITE_BUILTINS_INT8,
            tf.lite.OpsSet.TFLITE_BUILTINS,
        ]
    with silent_stderr():
        return converter.convert()


def run_tflite(path: str | os.PathLike, rows: np.ndarray | Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns the outputs of a TFLite model, one row at a time.

    Args:
        path: The file; its model has one output.
        rows: [N, ...]; of several inputs, a dict of such arrays by the names of the inputs.

    Returns:
        [N, ...], float32.
    """
    return TFLiteModel(pathlib.Path(path).read_bytes(), workers=1)(rows)


class TFLiteModel:
    """A TFLite model with inputs of one row and one output, which threads share rows of.

    A thread to itself per core is faster than threads that share a row, and so than a Keras model:
    some four times for EfficientNet-Lite0 on two cores. By default there is one worker per core.
    """

    def __init__(self, content, workers=None):
        workers = len(os.sched_getaffinity(0)) if workers is None else workers
        self._interpreters = [_interpreter(content) for _ in range(workers)]
        for interpreter in self._interpreters:
            with silent_stderr():
                interpreter.allocate_tensors()

    def __call__(self, rows):
        """Returns the outputs [N, ...] of rows [N, ...], or of a dict of them by input."""
        parts = rows if isinstance(rows, Mapping) else {None: rows}
        split = [np.array_split(part, len(self._interpreters)) for part in parts.values()]
        shares = [dict(zip(parts, share, strict=True)) for share in zip(*split, strict=True)]
        with concurrent.futures.ThreadPoolExecutor(len(shares)) as pool:
            found = pool.map(_run, self._interpreters, shares)
            return np.concatenate([outputs for outputs in found if outputs is not None])


def _interpreter(content):
    """An interpreter of LiteRT where that is installed; else that of TensorFlow."""
    if importlib.util.find_spec("ai_edge_litert") is not None:
        from ai_edge_litert.interpreter import Interpreter
    elif hasattr(tf.lite, "Interpreter"):
        Interpreter = tf.lite.Interpreter  # noqa: N806
    else:
        raise ImportError("This TensorFlow runs no TFLite models. Install ai-edge-litert.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # The end of TensorFlow's is ours to deal with.
        return Interpreter(model_content=content, num_threads=1)


def _run(interpreter, rows):
    given, (made,) = interpreter.get_input_details(), interpreter.get_output_details()
    if len(given) == 1:
        numbers = [given[0]["index"]]
    else:
        names = [each["name"].removeprefix("serving_default_").split(":")[0] for each in given]
        by_name = {name: each["index"] for name, each in zip(names, given, strict=True)}
        numbers = [by_name[name] for name in rows]
    found = []
    for row in zip(*rows.values(), strict=True):
        for number, part in zip(numbers, row, strict=True):
            interpreter.set_tensor(number, part[np.newaxis])
        interpreter.invoke()
        found.append(interpreter.get_tensor(made["index"])[0])
    return np.stack(found) if found else None
