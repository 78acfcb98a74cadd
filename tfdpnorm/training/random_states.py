"""Where random layers keep how far they have drawn."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.layers.walk import sublayers


def random_states(*layers):
    """Returns the variables that the random numbers of layers go on from.

    Those are Keras' layers that augment images, `WeightNoise`, and, after
    `keras.backend.experimental.enable_tf_random_generator()`, Dropout and the like; which else draw
    from operations that keep their state to themselves.

    Args:
        *layers: Keras layers; anything else has none.

    Returns:
        List of variables, each once, in the order of the layers.
    """
    states = []
    for layer in layers:
        if isinstance(layer, keras.layers.Layer):
            for one in (layer, *sublayers(layer)):
                generator = _generator(one)
                if generator is not None:
                    states.append(generator.state)
    return list({id(state): state for state in states}.values())


def _generator(layer):
    keeper = getattr(layer, "_random_generator", None)
    if keeper is not None:
        keeper._maybe_init()  # made at the first draw, otherwise
    found = getattr(layer if keeper is None else keeper, "_generator", None)
    return found if isinstance(found, tf.random.Generator) else None
