"""The engines that compute the sum of clipped per-example gradients, by name.

An engine is a function with the signature of `tfdpnorm.gradients.per_example`. All engines give
the same sum; they differ in time, memory and the layers that they can take.
"""

import functools

from tfdpnorm.gradients import book_keeping, per_example
from tfdpnorm.gradients.engines.tfp_model import tfp_model
from tfdpnorm.gradients.engines.tfp_vectorized import tfp_vectorized

ENGINES = ("book_keeping", "per_example", "tfp_vectorized", "tfp_model")


def check_engine(name):
    """Raises ValueError unless `name` is an engine."""
    if name not in ENGINES:
        raise ValueError(f"Expected engine to be one of {ENGINES}, got {name!r}.")


def default_engine(streams):
    """The engine for a model whose `tfdpnorm.training.step.streams.Streams` these are."""
    # Book-keeping presumes that rows do not mix, not even an example with public rows of its own.
    return "per_example" if streams.rows_mix or streams.mode == "example" else "book_keeping"


def get_engine(name, model, optimizer):
    """Returns the engine `name` for a Keras `model` that `optimizer` updates."""
    check_engine(name)
    if name == "book_keeping":
        return functools.partial(book_keeping, model)
    if name == "tfp_vectorized":
        return functools.partial(tfp_vectorized, type(optimizer).__name__)
    return {"per_example": per_example, "tfp_model": tfp_model}[name]
