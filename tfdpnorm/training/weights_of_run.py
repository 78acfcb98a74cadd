"""Which weights a run has left, so that those which come from elsewhere are told from them."""

import contextlib
import hashlib
import io
import weakref

import numpy as np
from tensorflow import keras

from tfdpnorm.keras_compat.graphs import as_written
from tfdpnorm.keras_compat.models import own_weights, sublayers
from tfdpnorm.layers import PublicMomentsLayer
from tfdpnorm.privacy.marks import remember, said_of, weight_digests

# The variables that private models have trained in this process, by id, while they live.
_trained = weakref.WeakValueDictionary()
# The trials of searches that left weights, by the digest of these.
_left_by_trials = {}

_REPLACED = (
    "Weights that come from elsewhere: {when}, others than this run left were put in their place "
    "(by load_weights, set_weights or the like). {known}"
)
_UNKNOWN = "What private data these have seen is not known here, and adds to this epsilon."
_OPTIMIZED = (
    "Weights that come from elsewhere: when this run began, the model was trained already (its "
    "optimizer had made {steps} steps). What private data it has seen is not known here, and adds "
    "to this epsilon."
)
_PRIVATELY = (
    "Weights that come from elsewhere: when this run began, another private model had trained "
    "them. What that one has spent on the same data is not counted here, and adds to this epsilon."
)
_LOADED_EARLY = (
    "Weights that come from elsewhere: they were loaded before the model was built, which fit() "
    "did. What private data these have seen is not known here, and adds to this epsilon."
)
_UNSEEN = (
    "The weights that the run began with, unless they were drawn at random: the model was built "
    "after it was made private, and before fit()."
)


def earlier_training(model):
    """Returns what is known of earlier training of a model's weights, a tuple of sentences.

    Args:
        model: A Keras model.
    """
    models = [x for x in (model, *sublayers(model)) if isinstance(x, keras.Model)]
    optimizers = [getattr(x, "optimizer", None) for x in models]
    steps = [int(x.iterations) for x in optimizers if x is not None]
    weights = model.weights if model.built else []
    said = said_of([v.numpy() for v in weights])
    if any(_trained.get(id(v)) is v for v in weights):
        said = (_PRIVATELY, *said)
    elif any(steps):
        said = (_OPTIMIZED.format(steps=max(steps)), *said)
    return tuple(dict.fromkeys(said))


class WeightsOfRun:
    """Knows the weights that a run left, by a digest of their bytes, and declares others.

    Known are those that the run began with, those after each `fit`, those that it restored from a
    checkpoint of its own, and those that callbacks took from it. A digest is one pass over the
    weights; none is made during a step. Public moments are left out: they are computed from
    the other weights and from public rows, whenever these are used.

    **It guards against mistakes.** Weights that code of the user's writes to the variables while
    `fit` runs are not noticed.

    Args:
        model: The wrapped Keras model.
        ledger: `tfdpnorm.privacy.PrivacyLedger`, which is told of weights from elsewhere.

    Attributes:
        unrecorded: Sentences that the ledger did not take, since it is closed: a tuple.
    """

    def __init__(self, model, ledger):
        self._model, self._ledger = model, ledger
        self._known = set()
        self._touched = {}  # variables that were trained, by id
        self._begun = set()  # digests of the weights before
        self.unrecorded = ()
        self._trial = None

    def of_trial(self, trial):
        """Notes that the weights from now on are those of a `NoticedTrial`; None for no trial."""
        self._trial = trial

    def declare_earlier_training(self, model=None):
        """Declares what is known of the weights that the run begins with.

        Args:
            model: What they are copies of; None for the run's own model.
        """
        for sentence in earlier_training(self._model if model is None else model):
            self._declare(sentence)

    @as_written
    def mark_trained(self):
        """Remembers, for the private models to come, that these weights are being trained."""
        _trained.update({id(v): v for v in self._model.weights})
        self._touched.update({id(v): v for v in self._unfrozen()})

    def trained(self):
        """Returns the weights that were trained or may be: none whose layers were always frozen.

        Returns:
            A list of arrays.
        """
        touched = {**self._touched, **{id(v): v for v in self._unfrozen()}}
        return [v.numpy() for v in touched.values()]

    def remember(self):
        """Remembers the weights that were trained, so that copies of them are known again."""
        if self._touched:
            changed = set(weight_digests(self.trained())) - self._begun
            remember(changed, (*self._ledger.foreign, *self.unrecorded, _PRIVATELY))

    def _unfrozen(self):
        layers = [x for x in (self._model, *sublayers(self._model)) if x.trainable]
        return [v for layer in layers for v in own_weights(layer)]

    def begin(self, *, loaded_early):
        """Notes the weights of a model that was built just now; as they are when a run begins.

        Args:
            loaded_early: Whether weights waited in it, to be put in as soon as it was built.
        """
        self.declare_earlier_training()
        if loaded_early:
            self._declare(_LOADED_EARLY)
        self.note()

    def note(self):
        """Notes that the present weights are of this run."""
        if self._model.built:
            digest = self.digest()
            self._known.add(digest)
            if not self._touched:
                self._begun = set(weight_digests([v.numpy() for v in self._weights()]))
            if self._trial is not None:
                _left_by_trials[digest] = self._trial

    def check(self, *, replaced=False, trial=None):
        """Declares the present weights to come from elsewhere, unless they are known.

        Args:
            replaced: Whether they were just put in. Otherwise the first ones that are seen are
                those that the run begins with: the model may have been built since.
            trial: `TrialOfAnotherProcess` whose file they are from, or None.
        """
        if not self._model.built:
            if replaced:
                self._declare_replaced(trial)
            return
        digest = self.digest()
        if not self._known and not replaced:
            # Built by somebody since: what was loaded or trained then was not seen.
            self.declare_earlier_training()
            self._exclude(_UNSEEN)
        elif digest not in self._known:
            self._declare_replaced(_left_by_trials.get(digest, trial))
        self._known.add(digest)

    def digest(self):
        """Returns what the present weights are known by, bytes; public moments are left out."""
        layers = [x for x in sublayers(self._model) if isinstance(x, PublicMomentsLayer)]
        left_out = {id(v) for layer in layers for v in layer.moments_variables}
        state = hashlib.sha256()
        for variable in self._weights():
            if id(variable) not in left_out:
                value = np.ascontiguousarray(variable.numpy())
                state.update(f"{value.dtype.str}{value.shape}".encode())
                state.update(value.data if value.dtype.kind in "biuf" else value.tobytes())
        return state.digest()

    def _declare_replaced(self, trial=None):
        """Declares others' weights; if a trial left them, it is named."""
        position = self._ledger.position
        when = f"after update {position}" if position else "before the first update"
        known = _UNKNOWN if trial is None else trial.in_words()
        self._declare(_REPLACED.format(when=when, known=known))

    def _exclude(self, sentence):
        with contextlib.suppress(io.UnsupportedOperation):  # closed: nothing will be trained
            self._ledger.exclude(sentence)

    def _declare(self, sentence):
        try:
            self._ledger.declare_foreign(sentence)
        except io.UnsupportedOperation:
            self.unrecorded = tuple(dict.fromkeys((*self.unrecorded, sentence)))

    def _weights(self):
        return self._model.weights if self._model.built else []
