"""The classes of errors and warnings that concern privacy."""

from __future__ import annotations

import inspect
import pathlib

_LIBRARY = str(pathlib.Path(__file__).parent)


class PrivacyError(ValueError):
    """The guarantee would not hold, or cannot be verified or accounted for.

    For instance: examples of a model may change each other's gradients, no planned update is left,
    or a ledger is another run's. Errors about a single argument, such as a negative epsilon, are
    plain ValueErrors. Messages name no values of private examples.

    Example::

        mixing = keras.Sequential([keras.Input([4]), keras.layers.BatchNormalization()])
        try:
            private = tfdpnorm.make_private(mixing, plan)
        except tfdpnorm.PrivacyError as error:
            print(error)
    """

    # AutoGraph raises an error of user code again in its own words if its class has this
    # constructor, and otherwise one that is no ValueError.
    __init__ = Exception.__init__


class PrivacyWarning(UserWarning):
    """Training continues, but without a guarantee, without full use of its budget, or badly.

    Example::

        with warnings.catch_warnings():
            warnings.simplefilter("error", tfdpnorm.PrivacyWarning)  # raise it
            private = tfdpnorm.make_private(model, plan, public_batch=public_rows)
    """


def level_of_caller() -> int:
    """Returns the `stacklevel` with which a warning shows the line that called this library."""
    frame, level = inspect.currentframe().f_back, 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_LIBRARY):
        frame, level = frame.f_back, level + 1
    return level
