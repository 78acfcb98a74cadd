"""Layers that draw random numbers, made to repeat themselves.

Private parts of Keras 2: the `_random_generator` of a layer (`keras.src.backend.RandomGenerator`)
and its `_rng_type`, `_seed`, `_generator`, `_built` and `_maybe_init`. Keras lets a seed be given
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
    # Stateless: the iterations of a loop could draw from a stream in any order.
    changes = [
        dict(
            _rng_type=source.RNG_STATELESS,
            _seed=tf.Variable(number, trainable=False, name=seed_name),
            _built=True,
        )
        for number, source in enumerate(keras_sources(layers))
    ]
    with _changed(keras_sources(layers), changes):
        yield


def keras_sources(layers):
    """Returns the list of what Keras' random layers, and cells, draw from, each once.

    Args:
        layers: Keras layers, random or not.
    """
    found = [x._random_generator for x in layers if hasattr(x, "_random_generator")]
    return list({id(source): source for source in found}.values())


def draws_by_generator(source):
    """Whether one of `keras_sources` draws from a `tf.random.Generator` anyway."""
    return source._rng_type == source.RNG_STATEFUL


def make_generators(sources):
    """Makes the generators that `keras_sources` would make when they first draw."""
    with tf.init_scope():
        for source in sources:
            source._maybe_init()


def held_generators(layers):
    """Returns the list of each `tf.random.Generator` that is an attribute of a layer."""
    held = [value for x in layers for value in vars(x).values()]
    found = [value for value in held if isinstance(value, tf.random.Generator)]
    return list({id(generator): generator for generator in found}.values())


@contextlib.contextmanager
def drawing_from(sources, generators):
    """Context in which layers draw from other generators; what is traced in it keeps them.

    Args:
        sources: List of some of `keras_sources`.
        generators: List of as many `tf.random.Generator`.
    """
    changes = [
        dict(_rng_type=source.RNG_STATEFUL, _generator=generator, _built=True)
        for source, generator in zip(sources, generators, strict=True)
    ]
    with _changed(sources, changes):
        yield


@contextlib.contextmanager
def _changed(sources, changes):
    """Context in which attributes have other values; a dict by name for each of `sources`."""
    before = [dict(vars(source)) for source in sources]
    try:
        for source, attributes in zip(sources, changes, strict=True):
            # Not by setattr(), which would make variables part of the layer's checkpoints.
            vars(source).update(attributes)
        yield
    finally:
        for source, attributes in zip(sources, before, strict=True):
            vars(source).clear()
            vars(source).update(attributes)
