"""Keras as a fresh process has it, if TensorFlow is loaded."""

import sys
from inspect import signature


def reset_keras():
    """Clears Keras' graph and names, and sets the seed and the policy."""
    if "tensorflow" in sys.modules:
        from tensorflow import keras

        # Keras 3 would go through all objects of the process, which takes a quarter of a second.
        clear = keras.backend.clear_session
        clear(**({"free_memory": False} if "free_memory" in signature(clear).parameters else {}))
        keras.utils.set_random_seed(0)
        reset_policy()


def reset_names():
    """Has Keras number the names that it gives from the first on."""
    from tensorflow import keras

    if hasattr(keras.backend, "reset_uids"):
        keras.backend.reset_uids()
    else:
        from keras.src.utils import naming

        naming.reset_uids()


def reset_policy():
    """Sets the global dtype policy to float32."""
    if "tensorflow" in sys.modules:
        from tensorflow import keras

        keras.mixed_precision.set_global_policy("float32")
