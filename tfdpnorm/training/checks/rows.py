"""Per-example independence of a model, its loss and its augmentation: probed, then proved."""

import contextlib
import weakref

import tensorflow as tf

from tfdpnorm.audit import model_rows, probe_augmentation, probe_loss, probe_model, warn_unchecked
from tfdpnorm.data import Lot
from tfdpnorm.gradients.refusals import refusal_of_engine
from tfdpnorm.keras_compat.graphs import captures_symbols, traced
from tfdpnorm.training.checks.graphs import in_no_graph
from tfdpnorm.training.errors import own_words

_RESTS = "Per-example independence, which clipping rests on: "
_PROVED = (
    _RESTS + "proved from the graph that the step runs, for physical batches of {rows} rows. Taken "
    "for granted are this library's gradient rules and the kernels of TensorFlow."
)
_APART = (
    _RESTS + "each example's gradient is computed by itself, by the engine {engine!r}, in a "
    "graph that changes no variable."
)
_PROBED = "Per-example independence, beyond what the probe tries: the proof stopped at {obstacle}."
_FOREIGN = (
    "Per-example independence, beyond what the probe tries: the engine {engine!r} is that of "
    "TensorFlow Privacy, for which there is no proof."
)
_EAGER = (
    "Per-example independence, beyond a trace of the step that it was proved for: with "
    "run_eagerly=True Python runs the model anew in each step."
)
_UNKNOWN_SIZE = (
    "Per-example independence, beyond what the probe tries: the rows of a physical batch were not "
    "known before the step, so that nothing was proved."
)
_SWITCHED_OFF = (
    "Per-example independence in the model, its loss and its augmentation: its checks were "
    "switched off."
)
_KEPT = (
    "Expected the model, its loss and its augmentation to compute in each call what they use, got "
    "a tensor that an earlier call has kept, in an attribute or a list, and that belongs to the "
    "graph of that call. A model is called in several graphs: set the attribute anew in each call."
)
_PROBE_INSTEAD = (
    'Or pass validate="probe" to go on with what the probe finds alone; the statement then says so.'
)


class RowChecks:
    """Probes with `tfdpnorm.audit`, as soon as there is what a probe needs; and judges the proofs.

    In statistics mode "lot" examples change each other's gradients by design, and the plan has no
    guarantee: nothing is checked.

    Args:
        private: `PrivateModel`.
        views: `tfdpnorm.training.step.views.Views` of its rows.
        engine: `tfdpnorm.training.step.engine_in_use.EngineInUse` of the clipped sums.
        validate: True probes, and demands a proof. "probe" probes, and the ledger says what is not
            proved. False does neither, and the ledger says so.
    """

    def __init__(self, private, views, engine, validate=True):
        self._private, self._views, self._engine = private, views, engine
        self._validate = validate
        self._traced = None  # the last training function, and a weak reference to its iterator
        self._outputs = None
        self._loss_probed = False

    @property
    def demand_a_proof(self):
        """Whether a step is only made if per-example independence is proved of it."""
        return self._demanded() and self._validate is True

    def check_model(self, x=None):
        """Probes the model and the augmentations, unless that was done.

        Args:
            x: Structure of `tf.TensorSpec` [None, ...]; None for the inputs that the model
                declares.
                A model that declares none is probed later.

        Raises:
            ValueError: listing what was found.
        """
        if self._outputs is not None or self._is_left_out():
            return
        rows = model_rows(self._private, x)
        if rows is None:
            return
        size = self._private.physical_batch_size
        of_views = None if size is None else size * self._views.count
        report = probe_model(self._private, rows, batch_size=of_views)
        for augmentation in self._views.augmentations:
            report += probe_augmentation(augmentation, rows, batch_size=size)
        self._outputs = report.outputs or False
        self._conclude(report)

    def check_loss(self, loss, y):
        """Probes a loss, unless that was done since `forget_loss`.

        Args:
            loss: Function (y, predictions) -> [rows].
            y: Structure of `tf.TensorSpec` [None, ...].

        Raises:
            ValueError: listing what was found.
        """
        if self._loss_probed or self._is_left_out() or not self._outputs:
            return
        self._loss_probed = True
        size = self._private.physical_batch_size
        self._conclude(probe_loss(loss, self._outputs, y, batch_size=size))

    def forget_loss(self):
        """Forgets that the loss was probed: the next one is probed, too."""
        self._loss_probed = False

    def trace(self, train_function, iterator):
        """Traces the training function of Keras, unless it was traced for this iterator.

        Where it runs eagerly, by the model or by `tf.config.run_functions_eagerly`, which may be
        switched on at any time, no graph says what it computes.

        Raises:
            ValueError: if per-example independence is not proved and had to be.
        """
        is_graph = hasattr(train_function, "get_concrete_function")
        if not is_graph or tf.config.functions_run_eagerly():
            self._rehearse(train_function, iterator)
            return
        if self._was_traced(train_function, iterator):
            return
        with _in_its_own_words():
            _check_keeps_nothing(train_function.get_concrete_function(iterator))
        self._traced = train_function, weakref.ref(iterator)

    def _rehearse(self, train_function, iterator):
        """Traces what an eager step computes, so that what it would refuse is no update yet."""
        if self._demanded():
            self._private.ledger.exclude(_EAGER)
        spec = getattr(iterator, "element_spec", None)
        if not isinstance(spec, Lot) or self._was_traced(train_function, iterator):
            return
        try:
            with _in_its_own_words():
                _check_keeps_nothing(traced(lambda lot: self._private.clipped_sum(lot), (spec,)))
        except Exception as error:  # whatever code of the user's raises
            raise (error if str(error).startswith("Expected ") else in_no_graph(error)) from None
        self._traced = train_function, weakref.ref(iterator)

    def _was_traced(self, train_function, iterator):
        if self._traced is None:
            return False
        function, of = self._traced
        return function is train_function and of() is iterator

    def conclude_proof(self, proof, rows):
        """Judges the proof of what a step computes of a physical batch.

        Args:
            proof: `tfdpnorm.audit.Proof`; None where the shapes of a batch are not known.
            rows: P, the rows of a physical batch, or None.

        Returns:
            Whether training goes on without a proof where there should be one.

        Raises:
            ValueError: if it does not hold and had to.
        """
        if not self._demanded():
            return self._private.statistics != "lot" and not (proof is None or proof.holds)
        ledger, engine = self._private.ledger, self._engine.now
        if proof is None:
            ledger.exclude(_UNKNOWN_SIZE)
        elif not proof.holds:
            if self._validate is True or proof.written:  # which no missing rule explains
                raise refusal_of(proof, engine)
            ledger.exclude(_PROBED.format(obstacle=proof.obstacle))
        elif engine.can_be_proved:
            ledger.establish(_PROVED.format(rows=rows))
        elif engine.runs_rows_apart:
            ledger.establish(_APART.format(engine=engine.name))
        else:
            ledger.exclude(_FOREIGN.format(engine=engine.name))
        return proof is not None and not proof.holds

    def _demanded(self):
        return self._private.statistics != "lot" and self._validate is not False

    def _is_left_out(self):
        if self._private.statistics == "lot":
            return True
        if self._validate is False:
            self._private.ledger.exclude(_SWITCHED_OFF)
        return self._validate is False

    def _conclude(self, report):
        if report.findings:
            raise ValueError("\n".join(finding.message for finding in report.findings))
        proved = self._engine.now.can_be_proved or self._engine.now.runs_rows_apart
        warn_unchecked(report, proof_is_demanded=self.demand_a_proof and proved)
        for sentence in report.unchecked:
            self._private.ledger.exclude(f"Per-example independence, not checked for {sentence}.")


def _check_keeps_nothing(function):
    if captures_symbols(function):
        raise ValueError(_KEPT)


@contextlib.contextmanager
def _in_its_own_words():
    """Context in which what this library refuses is raised as it was worded.

    Keras and AutoGraph add, in several lines, where in the trace that was.
    """
    try:
        yield
    except Exception as error:
        cause = own_words(error)
        if cause is error or cause is None:
            raise
        raise cause from None


def refusal_of(proof, engine):
    """The ValueError for a `Proof` that does not hold and had to, with the remedy."""
    if proof.state_faults:
        return ValueError(
            f"Expected state that no example changes, got {proof.state_faults[0]}. It would be "
            f"released without noise, or change what later examples do: remove it. {_PROBE_INSTEAD}"
        )
    if proof.written:
        return ValueError(
            f"Expected variables that do not change within an update, got {proof.written[0]}. Rows "
            "that are run later would read another value, and the last one, which is released "
            "without noise, tells how many physical batches the lots had. Change it after each "
            "update: keras.callbacks.LambdaCallback(on_train_batch_end=...)."
        )
    if engine.runs_rows_apart:
        return ValueError(
            "Expected an augmentation, or statistics of rows, whose per-example independence can "
            f"be proved: they see the whole batch. Got {proof.obstacle}. Write that part in "
            f"operations that keep the examples apart. {_PROBE_INSTEAD}"
        )
    return refusal_of_engine(
        "Expected a model, a loss and an augmentation whose per-example independence can be "
        f"proved, with engine={engine.name!r}, got {proof.obstacle}",
        'Use engine="per_example", which runs each example by itself, or write that part in '
        f"operations that keep the examples apart. {_PROBE_INSTEAD}",
    )
