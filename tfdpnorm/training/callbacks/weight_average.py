"""Exponential moving average of the weights."""

from __future__ import annotations

import contextlib
import weakref
from typing import TYPE_CHECKING

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.variables import trainable_variables

if TYPE_CHECKING:
    from collections.abc import Iterator


class WeightAverage(keras.callbacks.Callback):
    """Keeps an exponential moving average of the trainable weights over the updates.

    average <- d average + (1 - d) weights after each update, where d = min(decay, (1 + t) /
    (10 + t)) so that early updates, from random weights, do not stay in it. With
    `steps_per_execution` above 1 callbacks see the weights after the last update of an execution
    only, and those stand for all of its updates.

    Privacy:
        Post-processing: a function of the released weights only.

    Args:
        decay: Between 0 and 1.

    Raises:
        ValueError: for a decay that is not in [0, 1).

    Example::

        average = tfdpnorm.WeightAverage(decay=0.99)
        private = tfdpnorm.make_private(model, plan, public_batch=public_rows)
        private.compile("sgd", "sparse_categorical_crossentropy")
        private.fit(x, y, verbose=0, callbacks=[average])
        with average.applied():
            scores = private.predict(x, verbose=0)

    Reference:
        Polyak and Juditsky (1992); De et al. (2022), Section 3.2, for DP-SGD.
    """

    def __init__(self, decay: float = 0.99) -> None:
        super().__init__()
        if not 0 <= decay < 1:
            raise ValueError(f"Expected 0 <= decay < 1, got {decay!r}.")
        self.decay = decay
        self._averages = None
        self._count = None
        self._made = 0  # steps of the optimizer that the average knows of

    def on_train_begin(self, logs: dict | None = None) -> None:
        self.training_state(self.model)
        self._made = int(self.model.optimizer.iterations)

    def training_state(self, model: keras.Model) -> list[tf.Variable]:
        """The averages and their count, for checkpoints of a run; made at the first call."""
        if self._averages is not None and self._of() is not model:
            raise ValueError(
                "This WeightAverage holds an average of another model's weights, which would enter "
                "this one's. Make a new WeightAverage for each model."
            )
        if self._averages is None:
            self._of = weakref.ref(model)
            self._variables = trainable_variables(model)
            self._averages = [tf.Variable(v, trainable=False) for v in self._variables]
            self._count = tf.Variable(0.0, trainable=False)
            self._update = tf.function(self._updated)
        return [*self._averages, self._count]

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        before, self._made = self._made, int(self.model.optimizer.iterations)
        for _ in range(before, self._made):
            self._update()

    def _updated(self):
        self._count.assign_add(1.0)
        decay = tf.minimum(self.decay, (1.0 + self._count) / (10.0 + self._count))
        for average, variable in zip(self._averages, self._variables, strict=True):
            average.assign_add(
                tf.cast(1.0 - decay, average.dtype) * (tf.convert_to_tensor(variable) - average)
            )

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Context in which the model's weights are the averages."""
        if self._averages is None:
            raise RuntimeError("There is no average yet. Train a model with this callback first.")
        private = self.model if hasattr(self.model, "check_weights") else None
        if private is not None:
            private.check_weights()  # The averages vouch for none but those that they replace.
        variables = self._variables
        kept = [tf.identity(v) for v in variables]
        for variable, average in zip(variables, self._averages, strict=True):
            variable.assign(average)
        if private is not None:  # A function of the run's weights, and nothing else.
            private.session.provenance.note()
        try:
            yield
        finally:
            for variable, value in zip(variables, kept, strict=True):
                variable.assign(value)
