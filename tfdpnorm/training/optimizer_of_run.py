"""Whether the optimizer of a run has made the steps of that run only."""

import json


class OptimizerOfRun:
    """Knows how many steps the optimizer of a run had made when the run left it.

    What an optimizer keeps of gradients, such as momentum, moves the weights of the first private
    update. If it comes from gradients without noise, that update releases them.
    """

    def __init__(self):
        self._left = None, 0

    def note(self, optimizer):
        """Notes that what the optimizer keeps now is of this run."""
        self._left = optimizer, _steps(optimizer)

    def check(self, optimizer):
        """Refuses an optimizer that something else has used.

        Args:
            optimizer: A Keras optimizer, or None before `compile`.

        Raises:
            ValueError: with the number of its steps.
        """
        steps, (known, left) = _steps(optimizer), self._left
        if steps != (left if optimizer is known else 0):
            raise ValueError(
                "Expected an optimizer that nothing but this private training uses, got "
                f"{type(optimizer).__name__} after {steps} steps. What it keeps of their gradients "
                "has no noise, and would be released by the next update. Compile again, with a new "
                "optimizer."
            )


def settings_of(optimizer):
    """Returns the settings of an optimizer as it is now, learning rate included, as JSON text.

    None for one that cannot say them.
    """
    try:
        config = optimizer.get_config()
    except Exception:  # whatever a class of the user's raises
        return None
    config.pop("name", None)
    return json.dumps(config, sort_keys=True, default=_plain)


def _plain(value):
    """A number of NumPy's or TensorFlow's as Python has it; of anything else the class."""
    if hasattr(value, "numpy"):
        value = value.numpy()
    return value.item() if getattr(value, "size", 0) == 1 else type(value).__name__


def _steps(optimizer):
    return 0 if optimizer is None else int(optimizer.iterations)
