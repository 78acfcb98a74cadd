"""State of a private training between calls of Keras: provenance of weights and data."""

import contextlib
import os
import warnings

from tfdpnorm.errors import PrivacyWarning, level_of_caller
from tfdpnorm.keras_compat.graphs import as_written, without_op_callbacks
from tfdpnorm.keras_compat.variables import trainable_variables
from tfdpnorm.privacy import BudgetExhaustedError
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.rounding import ceil_text
from tfdpnorm.training.announced_updates import BatchesInUse
from tfdpnorm.training.errors import without_private_values
from tfdpnorm.training.provenance import Provenance
from tfdpnorm.training.validation_data import RowsOfRun

_NO_DEBUGGING = (
    "tf.debugging.enable_check_numerics() and enable_dump_debug_info() are off while fit() trains: "
    "they would stop at values of single examples, or write these to files. Gradients that are not "
    "finite count as zero, and fit() shows how many there were (nonfinite_gradients)."
)


class Session:
    """The weights, the optimizer, the data and the process of a private training.

    Each `fit` is between `rows.begin_fit` and `leave`. In between, and from one to the next, this
    object says whether weights and optimizer are those that the run left, whether batches are those
    that were announced, and whether rows that are validated are trained on. `public_batch` is
    [M, ...], or None.
    """

    def __init__(self, model, ledger, public_batch):
        self._model, self._ledger = model, ledger
        self.provenance = Provenance(model, ledger)
        self.batches = BatchesInUse(self.void)
        of_examples = ledger.plan.most_per_person is None
        self.rows = RowsOfRun(model, public_batch, of_examples=of_examples)
        self._process = os.getpid()
        self.validation_is_public = False
        self._variables = None  # those that the model was compiled with, once it is built

    def compiled(self):
        """Notes which variables the model is compiled with."""
        self._variables = self._present_variables()

    def check_ready(self, optimizer, *, made, is_compiled):
        """Rejects training that could not be accounted for, or that the plan has no room for.

        `made` is the number of updates that were made. Raises RuntimeError in another process than
        that of `make_private`, and before `compile`; BudgetExhaustedError if no planned update is
        left; ValueError for an optimizer that something else has used.
        """
        if os.getpid() != self._process:
            raise RuntimeError(
                "This process is a fork of the one that called make_private(): both would draw the "
                "same noise, and each would record only its own updates. Call make_private() in "
                "the process that trains."
            )
        ledger, state = self._ledger, self._ledger.state
        if state.remaining_updates < 1:
            ended = "the run was ended, with " if state.is_finished else ""
            lost = f", {state.lost_updates} of them lost by crashes" if state.lost_updates else ""
            raise BudgetExhaustedError(
                f"No updates are left: {ended}{ledger.updates} spent of {ledger.plan.steps} "
                f"planned{lost}. Evaluate or save the model; the cost of a new plan on the same "
                "data adds to the epsilon of this run."
            )
        if not is_compiled:
            raise RuntimeError(
                "The model is not compiled. Call compile(optimizer=..., loss=...) of the private "
                "model before fit(); that of the model inside is not used."
            )
        self.check_counted(made)
        self.provenance.check_optimizer(optimizer)

    def check_variables(self, *, some=False):
        """Raises ValueError, with their names, if variables were frozen or thawed since `compile`.

        And if there are none, where there have to be `some`: an update would release only noise.
        """
        present = self._present_variables()
        if None not in (self._variables, present):
            both = dict.fromkeys((*self._variables, *present))
            changed = [v[1] for v in both if not (v in self._variables and v in present)]
            if changed:
                raise ValueError(
                    "The set of trainable variables changed after compile(): "
                    f"{', '.join(map(repr, changed[:5]))}. Call compile() of the private model "
                    "again."
                )
        if self._variables is None:  # Only now it is built.
            self._variables = present
        if some and self._variables == ():
            raise ValueError(
                "The model has no trainable variables. Set trainable=True on the layers to train, "
                "and call compile() of the private model again."
            )

    @contextlib.contextmanager
    def training(self, path):
        """Context of the training inside of `fit`; errors of it show no private values.

        A KeyboardInterrupt causes a warning that says what has been spent; `path` is the run
        folder, or None.
        """
        with self.batches.of_fit(), without_private_values():
            with without_op_callbacks() as were_any:
                if were_any:
                    warnings.warn(_NO_DEBUGGING, PrivacyWarning, stacklevel=4)
                try:
                    yield
                except KeyboardInterrupt:
                    if self._ledger.updates:
                        warnings.warn(_spent(self._ledger, path), PrivacyWarning, stacklevel=4)
                    raise
                finally:  # An error may have ended a callback that had replaced weights.
                    self.provenance.end_watch()

    def leave(self, optimizer):
        """Ends a `fit`, or an update by hand: weights and optimizer are those that the run left."""
        self.provenance.note(optimizer)

    def check_weights(self, made):
        """Checks, before weights are used or stated, whether they are counted and of this run.

        `made` is the number of updates that were made.
        """
        self.check_counted(made)
        if self.batches.is_training and not self.provenance.is_watching:
            self.provenance.note()
        else:
            self.provenance.check()

    def check_counted(self, made):
        """Invalidates the guarantee if more updates were made than the ledger announced."""
        if not self.batches.executes:
            self.batches.check_counted(made, self._ledger.updates)

    @as_written
    def void(self, code):
        """Records the caveat `code`, that no guarantee holds, with a warning the first time."""
        reason = caveat(code)
        if reason not in self._ledger.state.caveats:
            warnings.warn(
                f"No privacy guarantee holds: {reason.sentence}. Pass arrays, a source of examples "
                "or tfdpnorm.data.poisson_batches(...) to fit(). Of a tf.data.Dataset, "
                "tfdpnorm.data.save_examples makes arrays.",
                PrivacyWarning,
                stacklevel=level_of_caller(),
            )
            self._ledger.record(reason)

    def _present_variables(self):
        """Pairs (id, name), or None for a model that is not built."""
        if not self._model.built:
            return None
        return tuple((id(v), v.name) for v in trainable_variables(self._model))


def _spent(ledger, path):
    spent = "What they released is"
    if ledger.guarantee_holds:
        spent = f"Epsilon {ceil_text(ledger.epsilon())} is"
    goes_on = "fit() continues in this process alone; with run_dir= a new one could resume the run."
    if path is not None:
        folder = f"RunDir({str(path)!r}, resume=True)"
        goes_on = f"fit() continues, and so does a new process with {folder}."
    return (
        f"Interrupted after {ledger.updates} of {ledger.plan.steps} updates. {spent} spent, "
        "whether you use the weights or not: another run on the same data adds to it. "
        f"{goes_on}"
    )
