"""Noisy queries about private validation data, each of them charged to the ledger."""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import random
import warnings
import weakref
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm import arguments
from tfdpnorm.data import arrays
from tfdpnorm.errors import PrivacyError, PrivacyWarning
from tfdpnorm.privacy import (
    BudgetExhaustedError,
    PrivacyBudget,
    PrivacyLedger,
    calibrate_noise_multiplier,
)
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.entries import Answer, Query
from tfdpnorm.training.callbacks.judging import class_numbers, right_class
from tfdpnorm.training.validation_data import check_no_training_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from numpy.typing import ArrayLike

NAME_PREFIX = "private_val_"
_NOT_DISJOINT = "Or pass disjoint=False, which charges the training examples as well."
# By ledger, what the answers of this process were about, by name and update.
_asked_of = weakref.WeakKeyDictionary()
_ROWS_TRIED = 32


class PrivateValidation(keras.callbacks.Callback):
    """Measures accuracy on private validation examples, with noise, while a `PrivateModel` trains.

    After an epoch it counts the validation examples that the model answers correctly, adds
    Gaussian noise of standard deviation `noise_multiplier`, rounds to a whole number, and puts

        private_val_accuracy = noisy count / number of examples

    into the logs, where `History` keeps it, and `EarlyStopping`, `ReduceLROnPlateau` and
    `ModelCheckpoint(save_best_only=True)` may act on it: with `monitor="private_val_accuracy"`,
    and in any order, for `fit` calls this callback first. As in Keras' validation, an epoch that is
    not asked about has no value.

    The value is not clipped to [0, 1]: it is unbiased, so that values may be averaged or compared,
    and noise may carry it outside. After a resumption, answers about lost weights stay charged and
    are asked for again; one about the weights of the checkpoint is not.

    Privacy:
        One example changes the count by at most 1, whatever the batches, so that an answer is one
        Gaussian mechanism with this noise multiplier, and K answers are K of them composed; they
        enter the ledger before the noise is drawn. By `disjoint`, they are charged to the
        validation examples alone, `ledger.validation_epsilon()`, or to the training examples too.
        An example is one row: several rows of one person are not covered jointly. The number of
        rows is treated as public; an example is removed by counting it as answered wrong. The noise
        comes from the operating system's entropy, never from a seed. It is rounded before it is
        added to the count, a whole number as well, which gives the same answer as rounding the sum
        and leaves no low-order digits to tell about the count (Mironov 2012).

    Args:
        x: Inputs [N, ...], or a dict or tuple of such arrays.
        y: Targets [N, ...]. For the default `correct`: class numbers [N] or [N, 1], or one-hot
            rows [N, classes].
        noise_multiplier: Standard deviation of the noise on the count, in examples. 0 gives the
            accuracy as it is, for runs without guarantee only.
        budget: `PrivacyBudget`, instead of `noise_multiplier`: the noise is calibrated so that
            `queries` answers cost just about as much, by Renyi DP, hence at most as much by either
            accountant. Its delta must be the plan's. With `disjoint=False` it is what the answers
            would cost by themselves.
        queries: The most answers ever. Needed with a budget; None for no limit otherwise.
        every: Epochs from one answer to the next.
        correct: Function (y, predictions) -> bool [rows], of NumPy arrays. It must judge each row
            *by itself*: otherwise no guarantee holds. None: whether the class of the
            largest of several outputs, or a single output above the threshold, is the label.
        from_logits: For a single output per row: whether it is a logit (threshold 0) or a
            probability (threshold 0.5).
        disjoint: Whether no validation example is a training example, which `fit` checks.
        batch_size: Rows predicted at once; changes nothing else.
        name: Of the value in logs and ledger, beginning with "private_val_". Keras takes a larger
            value for the better one, without `mode="max"`, if it ends in "accuracy".

    Attributes:
        x, y: The arrays.
        examples: N.
        noise_multiplier: What is used, given or calibrated.

    Raises:
        TypeError: if an array holds anything but booleans, integers and floats.
        ValueError: with what was expected, for empty or non-finite data, lengths that differ,
            targets that the default `correct` cannot judge, or settings out of range.

    Example::

        private = tfdpnorm.make_private(model, plan, public_batch=public_rows)
        private.compile("sgd", "sparse_categorical_crossentropy")
        accuracy = tfdpnorm.PrivateValidation(
            other_x, other_y, budget=tfdpnorm.PrivacyBudget(1.0, plan.delta), queries=2
        )
        history = private.fit(x, y, epochs=2, verbose=0, callbacks=[accuracy])
        print(history.history["private_val_accuracy"])
    """

    def __init__(
        self,
        x: Any,
        y: ArrayLike,
        *,
        noise_multiplier: float | None = None,
        budget: PrivacyBudget | None = None,
        queries: int | None = None,
        every: int = 1,
        correct: Callable | None = None,
        from_logits: bool | None = None,
        disjoint: bool = True,
        batch_size: int = 256,
        name: str = NAME_PREFIX + "accuracy",
    ) -> None:
        super().__init__()
        # Copies: what the caller writes to the arrays later is not what was checked.
        self.x = arrays.map_leaves(lambda *a: arrays.numeric_array(*a).copy(), x, "x")
        self.y = arrays.map_leaves(lambda *a: arrays.numeric_array(*a).copy(), y, "y")
        lengths = [
            (part, len(leaf))
            for part, given in (("x", self.x), ("y", self.y))
            for leaf in tf.nest.flatten(given)
        ]
        self.examples = arrays.common_length(lengths)
        arguments.integer("every", every, at_least=1, wrong_type=ValueError)
        arguments.integer("batch_size", batch_size, at_least=1, wrong_type=ValueError)
        if queries is not None:
            arguments.integer("queries", queries, at_least=1, wrong_type=ValueError)
        if not isinstance(name, str) or not name.startswith(NAME_PREFIX):
            raise ValueError(
                f'Expected name to begin with "{NAME_PREFIX}", got {name!r}. Under the name of '
                "another metric it could be mistaken for one without noise."
            )
        if correct is None:
            self.y = class_numbers(self.y)
            correct = lambda y, p: right_class(y, p, from_logits)  # noqa: E731
        self.noise_multiplier = _noise_multiplier(noise_multiplier, budget, queries)
        self.name, self.queries, self.every, self.disjoint = name, queries, every, bool(disjoint)
        self._budget, self._correct, self._batch_size = budget, correct, batch_size
        self._planned, self._rows_at_once = None, batch_size
        self._first_ledger = None  # weak reference to the first one that was charged, its file
        state = hashlib.sha256()
        for part in tf.nest.flatten((self.x, self.y)):
            state.update(f"{part.dtype.str}{part.shape}".encode())
            state.update(np.ascontiguousarray(part).tobytes())
        self._digest_of_rows = state.digest()

    def check_training_data(self, x: Any) -> None:
        """Checks that no validation row is a training row, unless `disjoint=False`; for `fit`.

        See `tfdpnorm.training.validation_data.check_no_training_rows`.

        Args:
            x: The private training inputs: structure of arrays [N, ...], or `tfdpnorm.data.inputs`.

        Raises:
            ValueError: giving the numbers of such rows, for the data's curator, not for
                publication; or if shapes differ, so that no one can tell.
        """
        if not self.disjoint:
            return
        check_no_training_rows(self.x, x, remedy=_NOT_DISJOINT)

    def measure(self, private: keras.Model) -> float:
        """Asks once, outside of `fit`.

        If the ledger holds an answer for the present weights, that answer is returned again.

        Args:
            private: A model from `make_private`.

        Returns:
            The noisy accuracy, a float.

        Raises:
            ValueError: as in `fit`.
            BudgetExhaustedError: if all `queries` were asked.
        """
        self.set_model(private)
        self.on_train_begin()
        private.session.rows.add_validation(self)
        ledger = private.ledger
        answer = self._answer(ledger)
        if answer is None:
            asked = ledger.state.times_asked(self.name)
            if self.queries is not None and asked >= self.queries:
                raise BudgetExhaustedError(
                    f"All {self.queries} planned queries of {self.name} are spent, and this one "
                    "was not made. It cost nothing. Plan for more of them with queries=...."
                )
            self._planned = self.queries or asked + 1
            answer = self._ask(ledger)
        return answer / self.examples

    def on_train_begin(self, logs: dict | None = None) -> None:
        ledger = getattr(self.model, "ledger", None)
        if not isinstance(ledger, PrivacyLedger):
            raise ValueError(
                "Expected PrivateValidation in the fit() of a model from make_private(), got "
                f"{type(self.model).__name__}, which has no ledger to charge. Use validation_data."
            )
        if self._budget is not None and self._budget.delta != ledger.plan.delta:
            raise ValueError(
                f"Expected a budget with the plan's delta, {ledger.plan.delta!r}, at which the "
                f"ledger gives every epsilon, got {self._budget.delta!r}. Use the same for both."
            )
        if self.noise_multiplier == 0:
            if ledger.guarantee_holds:
                raise PrivacyError(
                    "Expected noise_multiplier > 0 in a run that has a guarantee, got 0. Give a "
                    "noise_multiplier, or a finite budget and queries."
                )
            ledger.record(caveat("validation_without_noise", name=self.name))
        self._rows_at_once = self.model.rows_to_predict_at_once(self.x, self._batch_size)
        # Judges a few rows together and one by one, before anything depends on it.
        take = lambda rows, s: tf.nest.map_structure(lambda leaf: leaf[s], rows)  # noqa: E731
        few = slice(0, min(_ROWS_TRIED, self._batch_size))
        y = take(self.y, few)
        predictions = self._predict(take(self.x, few))
        together = self._checked_correct(y, predictions)
        for row, right in enumerate(together):
            one = slice(row, row + 1)
            if self._checked_correct(take(y, one), take(predictions, one))[0] != right:
                raise PrivacyError(
                    "correct(y, predictions) does not judge each row by itself: its answer for row "
                    f"{row} changes with the other rows. One example could then change the count "
                    "by more than 1. Judge each row by its own target and prediction."
                )
        self._planned = None

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        if self._planned is None:
            self._planned = self._plan(epoch)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if (epoch + 1) % self.every:
            return
        ledger = self.model.ledger
        answer = self._answer(ledger)
        if answer is None:
            if self.queries is not None and ledger.state.times_asked(self.name) >= self.queries:
                # An error would lose the epoch, and with it every attempt to resume the run.
                warnings.warn(
                    f"{self.name} was asked for {self.queries} times, as often as planned, since "
                    "epochs were repeated after a resumption. The remaining epochs go without it.",
                    PrivacyWarning,
                    stacklevel=2,
                )
                return
            answer = self._ask(ledger)
        logs[self.name] = answer / self.examples
        if not self.disjoint:
            logs["epsilon"] = ledger.epsilon()  # What Keras has is from before the answer.

    def _plan(self, epoch):
        """How many answers there will be after a fit from `epoch` on; rejected if too many."""
        ledger = self.model.ledger
        epochs = math.ceil(ledger.state.remaining_updates / (self.params["steps"] or 1))
        last = min(self.params["epochs"], epoch + epochs)
        asked = ledger.state.times_asked(self.name)
        coming = last // self.every - epoch // self.every
        if self.queries is None:
            return asked + coming
        # After a resumption, lost epochs are asked about again, as long as there are queries left.
        before = 0 if ledger.state.resumes else asked
        if before + coming > self.queries:
            raise BudgetExhaustedError(
                f"Expected at most {self.queries} queries of {self.name}, got {coming} planned for "
                f"this fit() after {before} before it. Nothing was spent. Plan for "
                f"{before + coming} with queries=..., or ask less often with every=...."
            )
        return self.queries

    def _answer(self, ledger):
        """The ledger's answer for the present weights and these rows, or None.

        Of an answer that another process got only the update is known: a resumed run has the same
        weights there.
        """
        of = _asked_of.get(ledger, {}).get((self.name, ledger.state.position))
        return ledger.state.answer(self.name) if of in (None, self._is_about()) else None

    def _is_about(self):
        return self.model.session.provenance.digest(), self._digest_of_rows

    def _ask(self, ledger):
        count = int(self._judge(self.x, self.y).sum())
        if self.noise_multiplier == 0:
            return count
        if self.disjoint:
            self._declare_other_runs(ledger)
        _asked_of.setdefault(ledger, {})[self.name, ledger.state.position] = self._is_about()
        ledger.record(
            Query(
                self.name,
                noise_multiplier=self.noise_multiplier,
                examples=self.examples,
                disjoint=self.disjoint,
                queries_planned=self._planned,
            )
        )
        answer = count + _whole_noise(self.noise_multiplier)
        ledger.record(Answer(self.name, answer))
        return answer

    def _declare_other_runs(self, ledger):
        """Says in both ledgers, each of which counts its own answers, that there is another.

        Not of the trials of a search, which counts them all: the selected trial's ledger must not
        reveal how many there were.
        """
        if ledger.state.search is not None:
            return
        path = None if ledger.file is None else ledger.file.path
        if self._first_ledger is None:
            self._first_ledger = weakref.ref(ledger), path
        of, file = self._first_ledger
        first = of()
        if first is ledger or (file is not None and file == path):  # the same run, resumed
            return
        for either in (first, ledger):
            if either is not None:
                with contextlib.suppress(io.UnsupportedOperation):  # closed
                    either.record(caveat("validation_by_other_runs", name=self.name))

    def _judge(self, x, y):
        """Whether the model is right, bool [rows]."""
        predictions = self._predict(x)
        right = self._checked_correct(y, predictions)
        for output in tf.nest.flatten(predictions):
            right = right & ~np.isnan(output).reshape(len(output), -1).any(axis=1)
        return right

    def _predict(self, x):
        # A list of its own: otherwise Keras would replace the model's `history`.
        alone = keras.callbacks.CallbackList()
        return self.model.predict(x, batch_size=self._rows_at_once, verbose=0, callbacks=alone)

    def _checked_correct(self, y, predictions):
        rows = len(tf.nest.flatten(y)[0])
        right = np.asarray(self._correct(y, predictions))
        # Anything but one truth value for each row could count an example for more than 1.
        if right.dtype != bool or right.shape != (rows,):
            raise ValueError(
                f"Expected correct(y, predictions) to give bool [{rows}], one for each row, got "
                f"{right.dtype} {list(right.shape)}. Compare arrays of shape [rows]."
            )
        return right


def _noise_multiplier(noise_multiplier, budget, queries):
    if (noise_multiplier is None) == (budget is None):
        raise ValueError(
            f"Expected either a noise_multiplier or a budget, got {noise_multiplier!r} and "
            f"{budget!r}. Give budget=PrivacyBudget(...) and queries=..., for instance."
        )
    if budget is None:
        return arguments.nonnegative(
            "noise_multiplier",
            noise_multiplier,
            remedy="It is the standard deviation of the noise, in examples.",
        )
    if not isinstance(budget, PrivacyBudget) or queries is None:
        raise ValueError(
            f"Expected a PrivacyBudget and the number of queries it is for, got {budget!r} and "
            f"queries={queries!r}. One query is made after each epoch, or after `every` of them."
        )
    return calibrate_noise_multiplier(budget, 1.0, queries)


def _whole_noise(stddev):
    """A rounded Gaussian number, from the operating system's entropy.

    Box and Muller's, from a uniform number of 256 bits: it reaches 18 standard deviations, and what
    an exact one has beyond weighs 1e-77, less than any delta.
    """
    entropy = random.SystemRandom()
    uniform = (2 * entropy.getrandbits(256) + 1) / 2**257
    radius = math.sqrt(-2.0 * math.log(uniform))
    return round(stddev * radius * math.cos(2.0 * math.pi * entropy.random()))
