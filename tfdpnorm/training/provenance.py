"""Provenance of the weights and the optimizer of a run: the run itself, or another source."""

from __future__ import annotations

import hashlib
import io
import warnings

import numpy as np
from tensorflow import keras

from tfdpnorm.earlier_training import remember_training
from tfdpnorm.errors import PrivacyError, PrivacyWarning
from tfdpnorm.keras_compat.models import own_weights, sublayers
from tfdpnorm.keras_compat.training import steps_of
from tfdpnorm.keras_compat.variables import is_variable, raw, weights
from tfdpnorm.layers import PublicMomentsLayer
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.metadata import (
    metadata_of,
    origins_by_run,
    origins_of,
    remember,
    weight_digests,
)


class Provenance:
    """Compares the weights of a model with those that its run left, by digests of their bytes.

    Known are the weights that the run began with, those after each `fit`, those that it restored
    from a checkpoint of its own, and those that callbacks took from it. Others were put in by an
    intervention: the ledger says how many there were. A digest is one pass over the weights; none
    is made during a step.

    In `fit`, where updates write weights without a digest, the user's callbacks run between `watch`
    and `end_watch`: nothing else writes weights then.

    **It guards against mistakes.** Weights that code other than callbacks writes to the variables
    between the updates of an epoch are not noticed.
    """

    def __init__(self, model, ledger):
        self._model, self._ledger = model, ledger
        self._left = set()
        self._begun = set()  # digests of the single weights before the first update
        self._optimizer = None, 0  # the one that the run left, and its steps then
        self._unrecorded = ()
        self._before = None  # the values that `watch` found

    @property
    def is_watching(self):
        """Whether a callback of the user's runs, in which the weights have to stay as they were."""
        return self._before is not None

    @property
    def stated_ledger(self):
        """The ledger, with the caveats that it did not take since it is closed."""
        return self._ledger.with_caveats(self._unrecorded) if self._unrecorded else self._ledger

    def begin(self, model=None, *, loaded_early=False):
        """Declares what is known of the weights that the run begins with.

        They are copies of those of `model`, by default the run's own. With `loaded_early`, weights
        waited in the model, to be put in as soon as it was built.
        """
        model = self._model if model is None else model
        remembered = remember_training(model)
        origins = origins_of([v.numpy() for v in weights(model)] if model.built else ())
        earlier = (*remembered, *(each for each in origins if each not in remembered))
        for known in earlier:
            if not self._is_counted(known):
                self._record(known)
        which = first_not_fresh(model) if model.built and not earlier else None
        if which is not None:
            self._record(caveat("initial_weights_not_fresh", which=which))
        if loaded_early:
            self._record(caveat("loaded_before_built"))

    def note(self, optimizer=None):
        """Notes that the present weights are of this run, and what the optimizer keeps, too."""
        if optimizer is not None:
            self._optimizer = optimizer, steps_of(optimizer)
        if not self._model.built:
            return
        self._left.add(self.digest())
        if not self._ledger.updates:
            self._begun = set(weight_digests(self._arrays()))
            return
        remember(self._trained() - self._begun, origins_by_run(self.stated_ledger))

    def check(self, *, replaced=False):
        """Counts an intervention if the present weights are not known to be of this run.

        Unless they were `replaced` just now, the first ones that are seen are those that the run
        begins with: the model may have been built since.
        """
        if self.is_watching and self._are_as_before():
            self.note()
            return
        if self._model.built and self.digest() in self._left:
            return
        replaced = replaced or bool(self._before)
        if self._model.built and not self._left and not replaced:
            # Built by other code since: what was loaded or trained then was not seen.
            self.begin()
            self._record(caveat("first_weights_unseen"))
        elif self._model.built or replaced:
            state = self.stated_ledger.state
            before = [c.fields for c in state.caveats if c.code == "weights_replaced"]
            first, count = state.position, 1
            if before:
                first, count = before[-1]["position"], before[-1]["interventions"] + 1
            self._record(caveat("weights_replaced", position=first, interventions=count))
            for known in origins_of(self._arrays()):
                self._record(known)
        if self._model.built:
            self._left.add(self.digest())

    def watch(self):
        """Begins to watch the weights, which are those of this run.

        It keeps the tensors that hold them. TensorFlow writes to no tensor that is in use, so
        values that were not replaced are found in the same memory again, without reading them.
        """
        self._before = self._values()

    def end_watch(self):
        """Counts an intervention if the weights were replaced since `watch`."""
        if self.is_watching and not self._are_as_before():
            self.check()
        self._before = None

    def check_optimizer(self, optimizer):
        """Rejects an optimizer (None before `compile`) that has made steps outside of this run.

        What an optimizer keeps of gradients, such as momentum, moves the weights of the first
        private update. If it comes from gradients without noise, that update releases them.
        """
        steps, (known, left) = steps_of(optimizer), self._optimizer
        expected = left if optimizer is known else 0
        if steps != expected:
            raise PrivacyError(
                f"The optimizer has been used outside of this private training: it has made "
                f"{steps} steps, not {expected}. Its state may come from gradients without noise, "
                "and the next update would release it. Compile again with a new optimizer."
            )

    def metadata(self, saved):
        """Returns the privacy metadata for the file of a Keras model that the run trained."""
        arrays = [v.numpy() for v in weights(saved)] if saved.built else ()
        return metadata_of(self.stated_ledger, self._trained(), arrays)

    def digest(self):
        """Returns what the present weights are known by; see `weights_digest`."""
        return weights_digest(self._model)

    def _values(self):
        return [v.read_value() for v in _identifying(self._model)]

    def _are_as_before(self):
        present = self._values()
        return len(present) == len(self._before) and all(map(_are_same, self._before, present))

    def _is_counted(self, known):
        """Whether a caveat is of a run that the plan counts as an earlier phase."""
        return any(
            known.fields.get("run") == phase.run and known.fields.get("updates", 0) <= phase.updates
            for phase in self._ledger.plan.earlier
        )

    def _trained(self):
        """Digests of the weights that were trained or may be: no layers that were always frozen."""
        layers = [x for x in (self._model, *sublayers(self._model)) if x.trainable]
        free = weight_digests([v.numpy() for layer in layers for v in own_weights(layer)])
        # A run that began in another process does not know what it began with.
        changed = set(weight_digests(self._arrays())) - self._begun if self._begun else ()
        return {*free, *changed}

    def _record(self, known):
        try:
            self._ledger.record(known)
        except io.UnsupportedOperation:  # closed
            self._unrecorded = (*self._unrecorded, known)

    def _arrays(self):
        return [v.numpy() for v in weights(self._model)] if self._model.built else []


def warn_of_initial_weights(ledger, *, is_new):
    """Says at once what the statement will say of the weights that a run begins with.

    `is_new` says whether the weights are new to the ledger: a resumed run has said it before.
    """
    for reason in ledger.state.no_guarantee_because:
        warnings.warn(f"No privacy guarantee holds: {reason}.", PrivacyWarning, stacklevel=3)
    if ledger.state.has_weights_of_unknown_runs and is_new:
        known = ledger.state.sentences("foreign_weights")[0]
        warnings.warn(
            "If the training of the initial weights used no private data, pass "
            f"declaration=Declaration(initial_weights_used_private_data=False). {known}",
            PrivacyWarning,
            stacklevel=3,
        )


def weights_digest(model: keras.Model) -> str:
    """Returns what the weights of a Keras model are known by, a SHA-256 of 64 hexadecimal digits.

    Statements name it, and a model that `private.save()` wrote has it again when it is loaded.
    Public moments are left out: they are computed from the other weights and from public rows,
    whenever these are used.

        weights_digest(tf.keras.models.load_model("model.keras"))

    Args:
        model: A Keras model.

    Returns:
        64 hexadecimal digits.
    """
    state = hashlib.sha256()
    for variable in _identifying(model):
        value = np.ascontiguousarray(variable.numpy())
        state.update(f"{value.dtype.str}{value.shape}".encode())
        state.update(value.data if value.dtype.kind in "biuf" else value.tobytes())
    return state.hexdigest()


def _identifying(model):
    """The variables that a model is known by, a list: all weights but public moments."""
    layers = [x for x in (model, *sublayers(model)) if isinstance(x, PublicMomentsLayer)]
    left_out = {id(raw(v)) for layer in layers for v in layer.moments_variables}
    return [v for v in weights(model) if id(v) not in left_out] if model.built else []


def _are_same(one, other):
    """Whether two tensors lie in the same memory, or have the same bytes."""
    one, other = np.asarray(one), np.asarray(other)
    return one.ctypes.data == other.ctypes.data or one.tobytes() == other.tobytes()


_CONSTANTS = tuple(getattr(keras.initializers, name) for name in ("Zeros", "Ones", "Constant"))
_ENDING = "_initializer"
_TOLERANCE = 2e-3  # what folding fresh moving averages into a scale changes


def first_not_fresh(model):
    """Names the first weight of a built model that is not what its initializer makes; or None.

    For example "the bias of 'dense'". Only weights that begin as constants are looked at, as
    biases, scales and offsets usually do: random ones cannot be told from trained ones.
    """
    for layer in (model, *sublayers(model)):
        for attribute, initializer in list(vars(layer).items()):
            if not attribute.endswith(_ENDING) or not isinstance(initializer, _CONSTANTS):
                continue
            name = attribute.removesuffix(_ENDING)
            variable = getattr(layer, name, None)
            if not is_variable(variable):
                continue
            value = np.asarray(variable)
            off = np.abs(value - np.asarray(initializer(value.shape), value.dtype))
            if getattr(layer, "unit_forget_bias", False):
                off = np.minimum(off, np.abs(value - 1))
            if not np.all(off <= _TOLERANCE):
                return f"the {name} of {layer.name!r}"
    return None
