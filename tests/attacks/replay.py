"""A replay: whether the data reach a training's results by the released numbers alone.

The guarantee is one of post-processing. Each update releases a noised sum; weights, the optimizer's
slots, running averages, checkpoints and the privacy statement must be functions of these sums and
of public things. So the sums are pinned: two trainings on unrelated data are made to release the
same numbers, and whatever then differs between them, by a single bit, came from the data around the
noise. Equality proves it for the paths that the two trainings took, and for no others.
"""

import contextlib
import pathlib
from unittest import mock

import numpy as np
import tensorflow as tf

from tests.statements import of_any_run
from tfdpnorm.data import PoissonBatches
from tfdpnorm.keras_compat.training import optimizer_variables, rate_variables
from tfdpnorm.privacy.journal import read_journal

_ELSEWHERE = 77


@contextlib.contextmanager
def pinned_sums(private, seed=0):
    """Puts made-up numbers in the place of every lot's clipped sum, before it is noised.

    The real code still computes the sum over the lot, and does everything that follows the sum:
    noise, weights of the clip, running averages, pull-back and division. With an `insecure_seed`
    in `make_private`, what each update releases is then a function of its number alone.

    Args:
        private: `tfdpnorm.PrivateModel` that trains inside of the context, from its first update.
        seed: Of the made-up numbers, which are Gaussian of standard deviation C.
    """
    lots = private._update
    real = lots.noised
    clip = private.plan.l2_norm_clip

    def pinned(clipped, noise, update):
        sums = [
            tf.cast(
                clip * tf.random.stateless_normal(s.shape, [seed + k, tf.cast(update, tf.int32)]),
                s.dtype,
            )
            for k, s in enumerate(clipped.sums)
        ]
        return real(clipped._replace(sums=sums), noise, update)

    lots.noised = pinned
    try:
        yield
    finally:
        del lots.noised


@contextlib.contextmanager
def other_lots():
    """Draws lots from another seed, for the second training: of other rows, and of other sizes.

    `PoissonBatches` itself is changed meanwhile: `fit` takes the lots of a derived class for lots
    that nobody knows to be sampled, and the two statements would differ.
    """
    real = PoissonBatches.as_dataset

    def as_dataset(self, slots=None, *, insecure_seed, **more):
        return real(self, slots, insecure_seed=insecure_seed + _ELSEWHERE, **more)

    with mock.patch.object(PoissonBatches, "as_dataset", as_dataset):
        yield


def kept_state(private, callbacks=(), run_dir=None):
    """Everything that a training leaves behind under the guarantee.

    Left out is what the statement leaves out too: the loss and the metrics on the training data.

    Args:
        private: `tfdpnorm.PrivateModel`, trained.
        callbacks: Those of `fit`; variables of callbacks with a method `training_state(model)`.
        run_dir: Folder of the run: the variables of its checkpoints, and its ledger.

    Returns:
        Dict from a name to an array, a number or a text.
    """
    groups = {
        "trained weight": private.model.trainable_variables,
        "constant weight": private.model.non_trainable_variables,
        "optimizer variable": optimizer_variables(private.optimizer),
        "learning rate": rate_variables(private.optimizer),
        "update counter": [private.update_count],
        "callback variable": [
            variable
            for callback in callbacks
            if hasattr(callback, "training_state")
            for variable in callback.training_state(private)
        ],
    }
    state = {
        f"{name} {place} ({variable.name})": variable.numpy()
        for name, variables in groups.items()
        for place, variable in enumerate(variables)
    }
    state["statement"] = "\n".join(of_any_run(private.privacy_statement()))
    state["spent epsilon"] = private.ledger.epsilon()
    state["counted updates"] = private.ledger.updates
    if run_dir is not None:
        folder = pathlib.Path(run_dir)
        _, (header, *entries) = read_journal(folder / "ledger.jsonl")
        del header["run"]  # A random id, which the checksums are of as well.
        state["ledger file"] = str((header, *entries))
        for index in sorted(folder.glob("checkpoint-*/variables.index")):
            saved = tf.train.load_checkpoint(str(index.with_suffix("")))
            for key in saved.get_variable_to_shape_map():
                state[f"{index.parent.name}: {key}"] = saved.get_tensor(key)
    return state


def differences(first, second):
    """Returns the names of what two states do not have alike to the bit.

    Args:
        first: Dict that `kept_state` gave.
        second: Another.

    Returns:
        Sorted list of names; a name that only one of them has is among them.
    """
    return sorted(
        name
        for name in {*first, *second}
        if name not in first or name not in second or _bits(first[name]) != _bits(second[name])
    )


def _bits(value):
    if isinstance(value, str):
        return value
    array = np.asarray(value)
    return (
        array.dtype.str,
        array.shape,
        array.tobytes() if array.dtype != object else array.tolist(),
    )
