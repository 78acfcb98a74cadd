"""Per-example independence of a model, its loss and its augmentation: the one judge of a run.

It judges what is computed. Layers that are rejected by their names are in
`tfdpnorm.independence.known_layers`; what an engine cannot sum, in `tfdpnorm.gradients`.
"""

import contextlib
import warnings
import weakref

import tensorflow as tf

from tfdpnorm.errors import PrivacyError, PrivacyWarning
from tfdpnorm.gradients.refusals import refusal_of_coupling, refusal_of_engine
from tfdpnorm.independence.examples import integer_bound, synthetic_examples
from tfdpnorm.independence.randomized_check import Checked, randomized_check
from tfdpnorm.keras_compat.graphs import captures_symbols
from tfdpnorm.keras_compat.variables import trainable_variables
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.training.errors import own_words

_SWITCHED_OFF = "its checks were switched off (validate=False)"
_EAGER = "eager steps are not verified (run_eagerly=True, or tf.config.run_functions_eagerly(True))"
_UNKNOWN_SIZE = "the number of rows of a batch was not known before the step"
_STOPPED = "the verification stopped at {obstacle}"
_FOREIGN = "sums by the engine {engine!r} of TensorFlow Privacy are not verified"
_NOT_RUN = "no training data were given"
_MOST_EXAMPLES = 16  # of a randomized check
_KEPT = (
    "The model, its loss or its augmentation uses a tensor that an earlier call kept in an "
    "attribute or a list, and that belongs to the graph of that call. A model is called in several "
    "graphs: set the attribute again in each call."
)
_REMEDY = (
    "Let every layer treat each example separately: no moments, sorting, softmax, shifts or sizes "
    "over axis 0, and no state updates."
)
_PER_EXAMPLE = 'Or pass engine="per_example", which runs each example separately.'
_PROBE_INSTEAD = (
    'Or pass validate="probe" to rely on the randomized check alone; the statement then says so.'
)


class IndependenceChecks:
    """Decides, before the first update, whether a run has per-example independence.

    A run keeps its guarantee in three cases, which the statement distinguishes:

    - the graph of the step was verified (engine "book_keeping");
    - each example's gradient is computed by itself, and no state changes ("per_example");
    - with validate="probe", a randomized check of the model, its augmentations and its loss ran
      to its end, and found nothing.

    In every other case the step is rejected, or the ledger says NO GUARANTEE and why.

    In statistics mode "lot" examples change each other's gradients by design, and the plan has no
    guarantee: nothing is checked.

    Args:
        private: `PrivateModel`.
        views: `tfdpnorm.training.views.Views` of its rows.
        engine: `tfdpnorm.training.engine_choice.EngineInUse` of the clipped sums.
        validate: True rejects a step that cannot be verified. "probe" continues with one if the
            randomized check ran and found nothing. False does neither, and no guarantee holds.
    """

    def __init__(self, private, views, engine, validate=True):
        self._private, self._views, self._engine = private, views, engine
        self._validate = validate
        self._traced = None  # the last training function, and a weak reference to its iterator
        self._checked = None  # what the randomized check has seen since `forget`

    @property
    def demand_a_proof(self):
        """Whether a step is only made if per-example independence is verified for it."""
        return self._private.statistics != "lot" and self._validate is True

    def check_at_random(self, loss, x, y):
        """Makes the randomized check, with validate="probe", unless that was done since `forget`.

        Args:
            loss: Function (y, predictions) -> [rows].
            x: Structure of `tf.TensorSpec` [None, ...].
            y: Structure of `tf.TensorSpec` [None, ...].

        Raises:
            ValueError: listing what was found.
        """
        private, views = self._private, self._views
        if self._validate != "probe" or private.statistics == "lot" or self._checked is not None:
            return

        def losses(both):
            x, y = both
            predictions = private.forward(views.as_rows(views(x)), training=True)
            return views.mean(loss(views.repeated(y), predictions))

        count = max(2, min(private.slots.rows, _MOST_EXAMPLES))
        try:
            examples = synthetic_examples(x, count, bound=integer_bound(private.model))
            examples = examples.joined_with(synthetic_examples(y, count, labels=True, seed=1))
        except ValueError as error:
            self._checked = Checked([], str(error).rstrip("."))
            return
        checked = randomized_check(
            losses,
            examples,
            variables=lambda: trainable_variables(private.model),
            layers=(private.model, *views.augmentations),
        )
        if checked.found:
            raise PrivacyError(
                "Expected a model, a loss and an augmentation without interaction between "
                f"examples, got {'; '.join(checked.found)}. {_REMEDY}"
            )
        self._checked = checked

    def forget(self):
        """Forgets what was checked of another loss, and of layers that were frozen or unfrozen."""
        self._checked = None

    def trace(self, train_function, iterator):
        """Traces the training function of Keras, unless it was traced for this iterator.

        Where it runs eagerly, by the model or by `tf.config.run_functions_eagerly`, which may be
        switched on at any time, no graph says what it computes, and no guarantee holds.

        Raises:
            ValueError: if per-example independence is not verified and had to be.
        """
        is_graph = hasattr(train_function, "get_concrete_function")
        if not is_graph or tf.config.functions_run_eagerly():
            self._void(_EAGER)
            return
        if self._was_traced(train_function, iterator):
            return
        with _in_its_own_words():
            _check_keeps_nothing(train_function.get_concrete_function(iterator))
        self._traced = train_function, weakref.ref(iterator)

    def _was_traced(self, train_function, iterator):
        if self._traced is None:
            return False
        function, of = self._traced
        return function is train_function and of() is iterator

    def judge(self, proof, rows):
        """Judges what a step computes of a physical batch, before the step is run.

        Args:
            proof: `tfdpnorm.independence.Proof`; None where the shapes of a batch are not known.
            rows: P, the rows of a physical batch, or None.

        Returns:
            Whether training continues unverified where verification is expected.

        Raises:
            ValueError: if it does not hold and had to.
        """
        if self._private.statistics == "lot":
            return False
        ledger, engine = self._private.ledger, self._engine.now
        if self._validate is False:
            self._void(_SWITCHED_OFF)
            return proof is not None and not proof.holds
        stopped = check_proof(proof, engine, self._validate)
        if stopped:
            self._rest_on_probe(_STOPPED.format(obstacle=proof.obstacle))
        elif proof is None:
            self._rest_on_probe(_UNKNOWN_SIZE)
        elif engine.one_pass:
            of_slot = self._private.plan.most_per_person or 1
            ledger.record(caveat("verified_from_graph", rows=rows * of_slot))
        elif engine.runs_rows_apart:
            ledger.record(caveat("computed_per_example", engine=engine.name))
        else:
            self._rest_on_probe(_FOREIGN.format(engine=engine.name))
        return stopped

    def _rest_on_probe(self, why):
        if self._validate != "probe":
            # Where no guarantee can be had anyway, this would not give one.
            helps = self._private.ledger.guarantee_holds
            remedy = '; only validate="probe" continues with the randomized check alone'
            self._void(f"{why}{remedy if helps else ''}")
        elif self._checked is None or self._checked.not_run:
            not_run = _NOT_RUN if self._checked is None else self._checked.not_run
            self._void(f"{why}, and the randomized check did not finish: {not_run}")
        else:
            self._private.ledger.record(caveat("randomized_check_only", why=why))

    def _void(self, why):
        ledger, reason = self._private.ledger, caveat("not_verified", why=why)
        if self._private.statistics == "lot" or reason in ledger.state.caveats:
            return
        warnings.warn(
            f"No privacy guarantee holds: {reason.sentence}.", PrivacyWarning, stacklevel=2
        )
        ledger.record(reason)


def _check_keeps_nothing(function):
    if captures_symbols(function):
        raise PrivacyError(_KEPT)


@contextlib.contextmanager
def _in_its_own_words():
    """Context in which what this library rejects is raised as it was worded.

    Keras and AutoGraph add, in several lines, where in the trace that was.
    """
    try:
        yield
    except Exception as error:
        cause = own_words(error)
        if cause is error or cause is None:
            raise
        raise cause from None


def check_proof(proof, engine, validate):
    """Returns whether a step may run unverified, and rejects it where it may not.

    Args:
        proof: `tfdpnorm.independence.Proof`; None where the shapes of a batch are not known.
        engine: `tfdpnorm.gradients.engines.registry.Engine`.
        validate: True or "probe".

    Raises:
        ValueError: with the remedy.
    """
    stopped = proof is not None and not proof.holds
    if stopped and validate is True:
        raise _refusal_of(proof, engine)
    return stopped


def _refusal_of(proof, engine):
    """The PrivacyError for a `Proof` that does not hold and had to, with the remedy."""
    if proof.state_faults:
        return PrivacyError(
            f"Examples change state of the model: {proof.state_faults[0]}. This state would be "
            f"released without noise, or affect later examples. Remove it. {_PROBE_INSTEAD}"
        )
    # A randomized check would find what is known to be there, or miss it.
    instead = "" if proof.couples else f" {_PROBE_INSTEAD}"
    if engine.runs_rows_apart:
        return PrivacyError(
            "Per-example independence of the augmentation, or of the statistics of rows, which "
            f"process the whole batch, cannot be verified: {proof.obstacle}. Write that part with "
            f"operations that keep the examples separate.{instead}"
        )
    what = (
        "Per-example independence of the model, the loss and the augmentation cannot be verified "
        f"with engine={engine.name!r}: {proof.obstacle}"
    )
    if proof.couples:
        return refusal_of_coupling(f"{what}. {_REMEDY} {_PER_EXAMPLE}")
    return refusal_of_engine(
        what,
        'Use engine="per_example", which runs each example by itself, or write that part with '
        f"operations that keep the examples separate. {_PROBE_INSTEAD}",
        kind=PrivacyError,
    )
