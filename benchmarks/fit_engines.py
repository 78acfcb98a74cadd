"""Whole calls of `fit`: including the work around the steps, such as sampling and the ledger."""

import numpy as np

from benchmarks.engines import Prepared
from benchmarks.keras_engines import (
    compiled_model,
    compiled_private_model,
    parameters_of,
    versions_used,
)
from tfdpnorm.keras_compat.devices_and_precision import half_precision, made_under

_UPDATES = 50  # of an epoch
_EPOCHS = 8  # of a call: 400 updates, as many as `make_private` suggests
_BUDGET = 20_000  # updates of the plan, on which the number of slots depends a little


def prepare(engine, model_name, x, y, half=False):
    """Prepares `fit` of "keras_fit" or "book_keeping_fit" on arrays in memory.

    Both go through 8 epochs of 50 updates at a call. Keras takes batches of `len(x)`; a private
    model samples them with that expected size, so that they are padded to fixed slots.
    """
    size = len(x)
    x, y = (np.tile(part, [_UPDATES, *[1] * (part.ndim - 1)]) for part in (x, y))
    with made_under(half_precision() if half else "float32"):
        if engine == "keras_fit":
            model, more = compiled_model(model_name), {"batch_size": size}
        else:
            model, more = (
                compiled_private_model(model_name, size, num_examples=len(x), steps=_BUDGET),
                {},
            )

    def run():
        model.fit(x, y, epochs=_EPOCHS, verbose=0, **more)

    return Prepared(run, parameters_of(model), versions_used(), updates=_EPOCHS * _UPDATES)
