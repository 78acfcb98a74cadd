"""Weights that stay float32 under a half-precision policy."""

import inspect


def no_autocast(add_weight):
    """Keyword that keeps a weight out of autocasting, by the name that this Keras gives it."""
    if "autocast" in inspect.signature(add_weight).parameters:
        return {"autocast": False}
    return {"experimental_autocast": False}
