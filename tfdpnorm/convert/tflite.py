"""TFLite models: how a Keras model becomes one, and what it predicts."""

from __future__ import annotations

import concurrent.futures
import os
import pathlib

import numpy as np
import tensorflow as tf

from tfdpnorm.keras_compat.devices_and_precision import silent_stderr
from tfdpnorm.keras_compat.saving import owner_of_variables


def to_tflite(model, ranges=None):
    """Returns the bytes of a TFLite model, which takes one row at a time.

    Args:
        model: A Keras model with one input.
        ranges: [M, ...] rows that are not private, whose activations give the ranges of int8; None
            for a model in float32. The inputs and outputs are float32 in both.
    """
    # Of one row: some kernels take no batch of unknown size.
    (spec,) = [tf.TensorSpec([1, *x.shape[1:]], x.dtype, name="image") for x in model.inputs]
    return of_function(lambda image: model(image, training=False), spec, model, ranges)


def of_function(call, spec, owner, ranges=None):
    """Returns the bytes of a TFLite model that computes a function of one tensor.

    Args:
        call: The function.
        spec: `tf.TensorSpec` of the tensor, with one row.
        owner: The Keras model or layer that has the function's variables.
        ranges: [M, ...] rows that are not private, for int8; None for float32.
    """
    function = tf.function(call, autograph=False)
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [function.get_concrete_function(spec)], owner_of_variables(owner)
    )
    if ranges is not None:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: ([row[np.newaxis]] for row in ranges)
        converter.target_spec.supported_ops = [
            tf.lite.OpsSet.TFLITE_BUILTINS_INT8,
            tf.lite.OpsSet.TFLITE_BUILTINS,
        ]
    with silent_stderr():
        return converter.convert()


def run_tflite(path: str | os.PathLike, rows: np.ndarray) -> np.ndarray:
    """Returns the outputs of a TFLite model, one row at a time.

    Args:
        path: The file; its model has one input and one output.
        rows: [N, ...].

    Returns:
        [N, ...], float32.
    """
    return TFLiteModel(pathlib.Path(path).read_bytes(), workers=1)(rows)


class TFLiteModel:
    """A TFLite model with one input of one row and one output, which threads share rows of.

    A thread to itself per core is faster than threads that share a row, and so than a Keras model:
    some four times for EfficientNet-Lite0 on two cores.

    Args:
        content: Bytes of the model.
        workers: Threads; default: one to each core.
    """

    def __init__(self, content, workers=None):
        workers = len(os.sched_getaffinity(0)) if workers is None else workers
        self._interpreters = [
            tf.lite.Interpreter(model_content=content, num_threads=1) for _ in range(workers)
        ]
        for interpreter in self._interpreters:
            with silent_stderr():
                interpreter.allocate_tensors()

    def __call__(self, rows):
        """Returns the outputs [N, ...] of rows [N, ...]."""
        shares = np.array_split(rows, len(self._interpreters))
        with concurrent.futures.ThreadPoolExecutor(len(shares)) as pool:
            found = pool.map(_run, self._interpreters, shares)
            return np.concatenate([outputs for outputs in found if outputs is not None])


def _run(interpreter, rows):
    (given,), (made,) = interpreter.get_input_details(), interpreter.get_output_details()
    found = []
    for row in rows:
        interpreter.set_tensor(given["index"], row[np.newaxis])
        interpreter.invoke()
        found.append(interpreter.get_tensor(made["index"])[0])
    return np.stack(found) if found else None
