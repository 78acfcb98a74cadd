"""What a model takes, and synthetic examples of it, made from shapes and types alone."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.models import specs_of_call, sublayers, symbolic_inputs

_UNKNOWN_SIZE = 32
_WORDS = ("a", "of", "the", "word", "other", "some", "more", "text")


def synthetic_examples(specs, count, bound=2):
    """Makes `count` examples of specs [None, ...] without looking at data, a structure of arrays.

    Unknown sizes become 32. Integers are in [0, bound); those of a byte are in [0, 256) if `bound`
    is 2. Specs of unknown rank, and of other types than numbers, booleans and texts, are rejected.
    """
    rng = np.random.default_rng(0)
    return tf.nest.map_structure(lambda spec: _leaf(spec, count, bound, rng), specs)


def _leaf(spec, count, bound, rng):
    if not spec.shape.rank:
        raise ValueError(
            f"Expected inputs of known rank with an axis of examples, got shape {spec.shape}. Give "
            "the shape to keras.Input."
        )
    shape = (count, *(_UNKNOWN_SIZE if size is None else size for size in spec.shape[1:]))
    kind = spec.dtype
    if kind.is_bool:
        return rng.random(shape) < 0.5
    if kind == tf.string:
        return rng.choice(_WORDS, shape).astype(object)
    dtype = kind.as_numpy_dtype
    if kind.is_integer:
        bound = 256 if kind.size == 1 and bound == 2 else bound
        return rng.integers(min(bound, int(kind.max) + 1), size=shape).astype(dtype)
    if not (kind.is_floating or kind.is_complex):
        raise ValueError(
            f"Expected inputs of numbers or texts, got {kind}. Convert other types in the input "
            "pipeline, before the model."
        )
    return rng.normal(size=shape).astype(dtype)


def integer_bound(model, default=2):
    """Smallest number of ids that the embeddings inside `model` know; `default` without any."""
    sizes = [layer.input_dim for layer in _inside(model, keras.layers.Embedding)]
    sizes += [layer.num_tokens for layer in _inside(model, keras.layers.CategoryEncoding)]
    return min((s for s in sizes if s is not None), default=default)


def input_specs(model):
    """Structure of specs that `model` takes; None if it is not known yet.

    Functional and Sequential models know it once they are built, others once they were called.
    """
    inputs = symbolic_inputs(model)
    if inputs is not None:
        return tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape, tf.as_dtype(t.dtype)), inputs)
    spec = specs_of_call(model) if model.built else None
    return None if spec is None else spec[0][0]


def _inside(model, kind):
    return [layer for layer in (model, *sublayers(model)) if isinstance(layer, kind)]
