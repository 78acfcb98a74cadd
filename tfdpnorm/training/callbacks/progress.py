"""Progress lines: how far a private training is, and the budget it has spent."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from tensorflow import keras

from tfdpnorm import arguments
from tfdpnorm.keras_compat.models import sublayers
from tfdpnorm.privacy.rounding import ceil_text
from tfdpnorm.training.callbacks.private_validation import NAME_PREFIX

if TYPE_CHECKING:
    from typing import TextIO


class Progress(keras.callbacks.Callback):
    """Prints updates, epsilon, validation, speed and the time left, in one line.

        private.fit(x, y, verbose=0, callbacks=[tfdpnorm.training.Progress()])

        verifying and tracing the update of 11 layers
        first update after 4 s
        update 120 of 400, epsilon at most 1.64 of 3, val_accuracy 0.912, 810 examples/s, 85 s left

    It shows no loss and no metric of training examples, which no guarantee covers. Of validation
    examples it shows noisy accuracies, and all if `fit` was told that they are public. Examples per
    second are those expected, so that they tell nothing of how many were drawn; they leave out what
    came before the first update. The epsilon is rounded up; "of" is what the whole plan will have
    spent.

    Args:
        every_seconds: Time between two lines, > 0. There is one at the end in any case.
        file: Where to print; standard output if None.
    """

    def __init__(self, every_seconds: float = 10.0, file: TextIO | None = None) -> None:
        super().__init__()
        self.every_seconds = arguments.positive("every_seconds", every_seconds)
        self._file = file
        self._validation = {}

    def on_train_begin(self, logs: dict | None = None) -> None:
        ledger = self.model.ledger
        self._began = self._told = time.monotonic()
        self._ready = self._made_then = None
        self._whole = ledger.epsilon(whole_plan=True) if ledger.guarantee_holds else None
        inputs = keras.layers.InputLayer
        layers = [x for x in sublayers(self.model.model) if not isinstance(x, inputs)]
        self._say(f"verifying and tracing the update of {len(layers)} layers")

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        if self._ready is None:
            self._ready, self._made_then = time.monotonic(), self.model.ledger.state.updates
            self._say(f"first update after {_time(self._ready - self._began)}")
        if time.monotonic() - self._told >= self.every_seconds:
            self._tell()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        public = "val_" if self.model.session.validation_is_public else NAME_PREFIX
        shown = [name for name in logs or {} if name.startswith((public, NAME_PREFIX))]
        self._validation = {name: logs[name] for name in shown}

    def on_train_end(self, logs: dict | None = None) -> None:
        self._tell(at_end=True)

    def _tell(self, at_end=False):
        self._told = time.monotonic()
        plan, ledger = self.model.plan, self.model.ledger
        parts = [f"update {ledger.state.updates:,} of {plan.steps:,}"]
        if ledger.guarantee_holds and self._whole is not None:
            spent, whole = ceil_text(ledger.epsilon()), ceil_text(self._whole)
            parts.append(f"epsilon at most {spent} of {whole}")
        else:
            parts.append("NO GUARANTEE")
        parts += [f"{name} {float(value):.3f}" for name, value in self._validation.items()]
        seconds, made = 0.0, 0
        if self._ready is not None:
            seconds, made = self._told - self._ready, ledger.state.updates - self._made_then
        if made and seconds:
            unit = "examples" if plan.unit == "row" else "persons"
            parts.append(f"{made * plan.expected_batch_size / seconds:,.0f} {unit}/s")
            if not at_end:
                left = (plan.steps - ledger.state.updates) * seconds / made
                parts.append(f"{_time(left)} left")
        if at_end:
            parts.append(f"{_time(self._told - self._began)} in all")
        self._say(", ".join(parts))

    def _say(self, line):
        print(line, file=self._file or sys.stdout, flush=True)


_MEASURED = 10  # updates
_LEAST_SECONDS = 10.0  # that are left, or nothing is said


class SaysTime(keras.callbacks.Callback):
    """Says once, after ten updates, how long `fit` will take; not with `verbose=0` or `Progress`.

    The first updates are left out: they wait for the trace of the step.
    """

    @classmethod
    def beside(cls, callbacks, verbose):
        """Returns a list of one, or none where nothing or enough is shown."""
        shows = verbose not in (0, "0") and not any(isinstance(c, Progress) for c in callbacks)
        return [cls()] if shows else []

    def on_train_begin(self, logs=None):
        self._began = None

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        made = self.model.ledger.updates
        if self._began is None:
            self._began = made, time.monotonic()
        first, then = self._began
        if then is None or made - first < _MEASURED:
            return
        self._began = first, None
        steps, epochs = self.params["steps"] or 0, self.params["epochs"]
        left = (epochs - self._epoch) * steps - batch - 1
        left = min(left, self.model.ledger.state.remaining_updates)
        seconds = left * (time.monotonic() - then) / (made - first)
        if seconds >= _LEAST_SECONDS:
            print(f"\nfit() needs about {_time(seconds)} for {left:,} more updates.", flush=True)


def _time(seconds):
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
