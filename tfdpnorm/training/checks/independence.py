"""Per-example independence of a model, its loss and its augmentation: the one judge of a run.

It judges what is computed. Layers that are rejected by their names are in
`tfdpnorm.independence.known_layers`; what an engine cannot sum, in `tfdpnorm.gradients`.
"""

import os
import warnings
import weakref

import tensorflow as tf

from tfdpnorm import files
from tfdpnorm.errors import PrivacyError, PrivacyWarning
from tfdpnorm.gradients.refusals import refusal_of_coupling, refusal_of_engine
from tfdpnorm.independence.verification import certificate
from tfdpnorm.keras_compat.graphs import captures_symbols
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.training.errors import own_words

_SWITCHED_OFF = "its checks were switched off (validate=False)"
_EAGER = "eager steps are not verified (run_eagerly=True, or tf.config.run_functions_eagerly(True))"
_UNKNOWN_SIZE = "the number of rows of a batch was not known before the step"
_FOREIGN = "sums by the engine {engine!r} of TensorFlow Privacy are not verified"
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


class IndependenceChecks:
    """Decides, before the first update, whether a run has per-example independence.

    A run keeps its guarantee in two cases, which the statement distinguishes:

    - the graph of the step was verified (engine "book_keeping");
    - each example's gradient is computed by itself, and no state changes ("per_example").

    In every other case the step is rejected, or the ledger says NO GUARANTEE and why. With
    `validate=False` nothing is rejected, and no guarantee holds.

    In statistics mode "lot" examples change each other's gradients by design, and the plan has no
    guarantee: nothing is checked. `engine` is the `EngineInUse` of the clipped sums.
    """

    def __init__(self, private, engine, validate=True):
        self._private, self._engine = private, engine
        self._validate = validate
        self._traced = None, None  # the last training function, weak reference to its iterator

    @property
    def demand_a_proof(self):
        """Whether a step is only made if per-example independence is verified for it."""
        return self._private.statistics != "lot" and self._validate

    def trace(self, train_function, iterator):
        """Traces the training function of Keras, unless it was traced for this iterator.

        Where it runs eagerly, by the model or by `tf.config.run_functions_eagerly`, which may be
        switched on at any time, no graph says what it computes, and no guarantee holds. Raises
        ValueError if per-example independence is not verified and had to be.
        """
        is_graph = hasattr(train_function, "get_concrete_function")
        if not is_graph or tf.config.functions_run_eagerly():
            self._void(_EAGER)
            return
        known, of = self._traced
        if known is train_function and of() is iterator:
            return
        try:
            traced = train_function.get_concrete_function(iterator)
        except Exception as error:
            # Keras and AutoGraph add, in several lines, where in the trace that was.
            cause = own_words(error)
            if cause is error or cause is None:
                raise
            raise cause from None
        if captures_symbols(traced):
            raise PrivacyError(_KEPT)
        self._traced = train_function, weakref.ref(iterator)

    def judge(self, proof, rows):
        """Judges a step by its `Proof` for a physical batch of P `rows`, before the step is run.

        Both are None where the shapes of a batch are not known. Returns whether training continues
        unverified where verification is expected; raises ValueError if it does not hold and had to.
        """
        if self._private.statistics == "lot":
            return False
        ledger, engine = self._private.ledger, self._engine.now
        if not self._validate:
            self._void(_SWITCHED_OFF)
            return proof is not None and not proof.holds
        check_proof(proof, engine)
        # Not for a trial of a search: the names of layers would reveal how many trials there were.
        if proof is not None and ledger.file is not None and ledger.state.search is None:
            data = certificate.encode(proof.question, proof.constants_read)
            name = certificate.name_of(data)
            files.write_whole(os.path.join(os.path.dirname(ledger.file.path), name), data)
            ledger.record(caveat("certificate", file=name, sha256=certificate.digest(data)))
        if proof is None:
            self._void(_UNKNOWN_SIZE)
        elif engine.one_pass:
            of_slot = self._private.plan.drawn_per_person or 1
            ledger.record(caveat("verified_from_graph", rows=rows * of_slot))
        elif engine.runs_rows_apart:
            ledger.record(caveat("computed_per_example", engine=engine.name))
        else:
            self._void(_FOREIGN.format(engine=engine.name))
        return False

    def _void(self, why):
        ledger, reason = self._private.ledger, caveat("not_verified", why=why)
        if self._private.statistics == "lot" or reason in ledger.state.caveats:
            return
        warnings.warn(
            f"No privacy guarantee holds: {reason.sentence}.", PrivacyWarning, stacklevel=2
        )
        ledger.record(reason)


def check_proof(proof, engine):
    """Raises PrivacyError, with the remedy for this engine, for a `Proof` that does not hold.

    The proof is None where the shapes of a batch are not known: nothing is rejected then.
    """
    if proof is None or proof.holds:
        return
    if proof.state_faults:
        raise PrivacyError(
            f"Examples change state of the model: {proof.state_faults[0]}. This state would be "
            f"released without noise, or affect later examples. Remove it."
        )
    if engine.runs_rows_apart:
        raise PrivacyError(
            "Per-example independence of the augmentation, or of the statistics of rows, which "
            f"process the whole batch, cannot be verified: {proof.obstacle}. Write that part with "
            "operations that keep the examples separate."
        )
    what = (
        "Per-example independence of the model, the loss and the augmentation cannot be verified "
        f"with engine={engine.name!r}: {proof.obstacle}"
    )
    if proof.couples:
        raise refusal_of_coupling(f"{what}. {_REMEDY} {_PER_EXAMPLE}")
    raise refusal_of_engine(
        what,
        'Use engine="per_example", which runs each example by itself, or write that part with '
        "operations that keep the examples separate.",
        kind=PrivacyError,
    )
