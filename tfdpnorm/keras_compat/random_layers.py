"""Layers that draw random numbers, made to repeat themselves.

Private parts of Keras 2: the `_random_generator` of a layer (`keras.src.backend.RandomGenerator`)
and its `_rng_type`, `_seed` and `_built`. Keras lets a seed be given
to the constructor only, and by default draws by kernels whose counters nobody can read or set.
"""

import contextlib

import tensorflow as tf


@contextlib.contextmanager
def repeating(layers, seed_name):
    """Context in which random layers draw the same numbers at every call.

    Args:
        layers: Keras layers, random or not.
        seed_name: Name of the variables that the layers take their seeds from, by which a graph
            that reads them is recognised.
    """
    sources = keras_sources(layers)
    before = [dict(vars(source)) for source in sources]
    try:
        for number, source in enumerate(sources):
            # Not by setattr(), which would make variables part of the layer's checkpoints.
            vars(source).update(
                # Stateless: the iterations of a loop could draw from a stream in any order.
                _rng_type=source.RNG_STATELESS,
                _seed=tf.Variable(number, trainable=False, name=seed_name),
                _built=True,
            )
        yield
    finally:
        for source, attributes in zip(sources, before, strict=True):
            vars(source).clear()
            vars(source).update(attributes)


def keras_sources(layers):
    """Returns the list of what Keras' random layers, and cells, draw from, each once.

    Args:
        layers: Keras layers, random or not.
    """
    found = [x._random_generator for x in layers if hasattr(x, "_random_generator")]
    return list({id(source): source for source in found}.values())
