"""Layers that draw random numbers, made to repeat themselves.

Private parts of Keras 2: the `_random_generator` of a layer (`keras.src.backend.RandomGenerator`)
and its `_rng_type`, `_seed` and `_built`. Keras lets a seed be given to the constructor only.
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
    generators = [x._random_generator for x in layers if hasattr(x, "_random_generator")]
    generators = list({id(g): g for g in generators}.values())
    before = [dict(vars(g)) for g in generators]
    try:
        for number, generator in enumerate(generators):
            # Stateless: the iterations of a loop could draw from a stream in any order. Not by
            # setattr(), which would make the variable part of the layer's checkpoints.
            vars(generator).update(
                _rng_type=generator.RNG_STATELESS,
                _seed=tf.Variable(number, trainable=False, name=seed_name),
                _built=True,
            )
        yield
    finally:
        for generator, attributes in zip(generators, before, strict=True):
            vars(generator).clear()
            vars(generator).update(attributes)
