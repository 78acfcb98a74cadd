"""A step that is traced, and not run: what it would refuse is refused by `make_private`.

The step that trains is traced and proved anew, in `fit`. By then the data have been sampled.
"""

import warnings

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.data import Lot
from tfdpnorm.gradients.rules import rule_for
from tfdpnorm.independence.examples import input_specs
from tfdpnorm.independence.undisturbed import undisturbed
from tfdpnorm.keras_compat.graphs import traced
from tfdpnorm.keras_compat.models import (
    is_made_of_layers,
    is_stock,
    specs_of_build,
    sublayers,
    weight_owners,
)
from tfdpnorm.layers import PublicBatchNormalization
from tfdpnorm.privacy.slots import slots_of_plan
from tfdpnorm.training.checks.rows import check_proof
from tfdpnorm.training.errors import own_words
from tfdpnorm.training.step.engine_in_use import layers_of, splits_texts
from tfdpnorm.training.update import Update

_OWN_LAYERS = PublicBatchNormalization.__module__.rpartition(".")[0]
_UNKNOWN_SIZE = 32


def rehearse(model, checked, plan, *, physical_batch_size, validate):
    """Traces a step of a model, which may change its `EngineInUse`, and raises what would stop it.

    Where the shapes of the inputs are not known yet, or all of the model is known to be fit for
    book-keeping (layers of Keras and of this library, which have rules, in a graph), nothing is
    traced. Neither is it with `validate=False`, nor for the engines that are there to compare with.

    Args:
        model: The Keras model.
        checked: What its settings come to: `streams`, `views`, `clipping`, and the `engine`.
        plan: `tfdpnorm.privacy.PrivacyPlan`.
        physical_batch_size: As in `make_private`.
        validate: As in `make_private`.

    Raises:
        ValueError: for a layer that splits texts or draws sizes, and if no engine, or not that
            which was asked for, can train the model.
    """
    engine = checked.engine
    examined = validate is not False and checked.streams.mode != "lot"
    if not examined or engine.now.of_tensorflow_privacy:
        return
    if engine.now.runs_rows_apart:
        engine.check_rows_can_be_apart()
    if _is_known_to_fit(model, checked):
        return
    specs = _lot_specs(model, slots_of_plan(plan, physical_batch_size).rows)
    if specs is None:
        return
    refused = _refused(model, checked, plan, specs, validate)
    if refused is not None:
        engine.check_rows_can_be_apart()
        raise refused from None


def _is_known_to_fit(model, checked):
    if any(not isinstance(a, keras.layers.Layer) for a in checked.views.augmentations):
        return False
    layers = [x for part in (model, *checked.views.augmentations) for x in layers_of(part)]
    return (
        not any(map(splits_texts, sublayers(model)))
        and all(is_stock(x) or type(x).__module__.startswith(_OWN_LAYERS) for x in layers)
        and all(is_made_of_layers(x) for x in layers if isinstance(x, keras.Model))
        and all(rule_for(x) is not None for x in weight_owners(model) if x.trainable_weights)
    )


def _lot_specs(model, rows):
    """`Lot` of `tf.TensorSpec`s [K, P, ...]; None if the model does not know its inputs."""
    built = all(x.built for x in (model, *sublayers(model)))
    specs = input_specs(model) or specs_of_build(model) if built else None
    if specs is None or any(spec.shape.rank is None for spec in tf.nest.flatten(specs)):
        return None

    def of_lot(spec):
        inner = [_UNKNOWN_SIZE if n is None else n for n in spec.shape[1:]]
        return tf.TensorSpec([None, rows, *inner], spec.dtype)

    vector = tf.TensorSpec([None, rows])
    return Lot(tf.nest.map_structure(of_lot, specs), vector, vector, vector)


def _refused(model, checked, plan, specs, validate):
    """What a step refuses, a ValueError; None if it goes through.

    Also None for errors that are not this library's: those of the model's own code are shown best
    where the user calls it.
    """
    engine = checked.engine

    gradients = Update(
        model,
        checked.streams,
        checked.views,
        plan,
        engine=engine,
        clipping=checked.clipping,
        sum_rounding=0.0,  # nothing is released
    )
    gradients.compile(None, _any_loss, lambda proof, _: check_proof(proof, engine.now, validate))

    def step(lot):
        return gradients.clipped(lot).sums

    try:
        with undisturbed(model, *checked.views.augmentations), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the step that trains warns again
            traced(step, (specs,))
    except Exception as error:  # whatever code of the user's raises
        return own_words(error)
    return None


def _any_loss(y, predictions):
    """A loss of each row that every output takes part in, and that has a gradient by all of it."""
    del y
    losses = [
        tf.reduce_mean(tf.square(tf.cast(t, tf.float32)), axis=list(range(1, t.shape.rank)))
        for t in tf.nest.flatten(predictions)
        if t.dtype.is_floating
    ]
    return tf.add_n(losses)
