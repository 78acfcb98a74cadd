"""A public batch that is made up for a model's inputs."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.data import SyntheticRows
from tfdpnorm.independence.examples import input_specs, integer_bound

_REMEDY = "Make the rows by tfdpnorm.data.synthetic_rows, and pass them as public_batch."


def synthetic_batch(model, asked):
    """Makes the synthetic rows that fit the inputs of a model. No data are looked at.

    Inputs of rank 4 are taken for images; whole numbers, and what a Sequential model gives to an
    embedding first, for token ids; all others for numbers of mean 0 and variance 1.

    Args:
        model: A Keras model.
        asked: `SyntheticRows`, or its name.

    Returns:
        Pair (structure of arrays [M, ...] like the inputs, what kinds of rows they are in words).

    Raises:
        ValueError: if the shapes of the inputs are not known, or no rows can be made for them.
    """
    asked = SyntheticRows.named(asked) if isinstance(asked, str) else asked
    specs = input_specs(model)
    if specs is None:
        raise ValueError(
            "Expected a model whose inputs are known, for a synthetic public_batch, got one that "
            f"was not built. Call it on a batch before. Or: {_REMEDY}"
        )
    inputs = [(spec, _num_tokens(model, spec)) for spec in tf.nest.flatten(specs)]
    rows = [asked.rows(tuple(spec.shape[1:]), count) for spec, count in inputs]
    kinds = dict.fromkeys(str(asked.settled(spec.shape[1:], count)) for spec, count in inputs)
    return tf.nest.pack_sequence_as(specs, rows), ", ".join(kinds)


def _num_tokens(model, spec):
    """The number of ids of an input of token ids; None for one of numbers."""
    if spec.shape.rank is None or None in spec.shape[1:]:
        raise ValueError(
            f"Expected an input of known shape for a synthetic public_batch, got {spec.shape}. "
            f"{_REMEDY}"
        )
    if not (spec.dtype.is_integer or spec.dtype.is_floating):
        raise ValueError(
            f"Expected an input of numbers for a synthetic public_batch, got {spec.dtype.name}. "
            f"{_REMEDY}"
        )
    if not (spec.dtype.is_integer or _begins_with_embedding(model)):
        return None
    count = integer_bound(model, default=None)
    if count is None:
        raise ValueError(
            "Expected a model with an embedding for whole numbers, so that they are token ids, got "
            f"none. {_REMEDY}"
        )
    return count


def _begins_with_embedding(model):
    """Whether floats are token ids: Keras declares the inputs of a Sequential model as such."""
    layers = model.layers if isinstance(model, keras.Sequential) else []
    return bool(layers) and isinstance(layers[0], keras.layers.Embedding)
