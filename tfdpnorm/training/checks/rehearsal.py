"""A step that is traced, and not run: what it would refuse is refused by `make_private`.

The step that trains is traced and proved anew, in `fit`. By then the data have been sampled.
"""

import warnings

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.audit.row_independence.rows import input_specs
from tfdpnorm.audit.row_independence.undisturbed import undisturbed
from tfdpnorm.data import Lot
from tfdpnorm.gradients.engines.registry import engine_named
from tfdpnorm.gradients.refusals import is_of_engine
from tfdpnorm.gradients.rules import rule_for
from tfdpnorm.keras_compat.graphs import cause_of, traced
from tfdpnorm.keras_compat.models import is_made_of_layers, is_stock, specs_of_build
from tfdpnorm.keras_compat.walk import sublayers, weight_owners
from tfdpnorm.layers import PublicBatchNormalization
from tfdpnorm.privacy.slots import slots_of_plan
from tfdpnorm.training.checks.rows import check_proof, is_ours
from tfdpnorm.training.step.lot_gradients import LotGradients

_OWN_LAYERS = PublicBatchNormalization.__module__.rpartition(".")[0]
_UNKNOWN_SIZE = 32
_MEGABYTE = 1e6


def rehearsed_engine(model, checked, plan, *, asked_for, physical_batch_size, validate):
    """Returns the engine for a model, and what is to be said if it is not the fastest.

    Where the shapes of the inputs are not known yet, or all of the model is known to be fit for
    book-keeping (layers of Keras and of this library, which have rules, in a graph), nothing is
    traced. Neither is it with `validate=False`, nor for the engines that are there to compare with.

    Args:
        model: The Keras model.
        checked: What its settings come to: `streams`, `views`, `clipping`, and the `engine`.
        plan: `tfdpnorm.privacy.PrivacyPlan`.
        asked_for: Name of the engine that was asked for; None to have one that can do it.
        physical_batch_size: As in `make_private`.
        validate: As in `make_private`.

    Returns:
        Pair of the `Engine` and a sentence for a warning, or None.

    Raises:
        ValueError: for a layer that splits texts or draws sizes, and if no engine, or not that
            which was asked for, can train the model.
    """
    engine = checked.engine
    examined = validate is not False and checked.streams.mode != "lot"
    if not (examined and engine.takes_unreached):
        return engine, None
    if _is_known_to_fit(model, checked) and not (
        engine.runs_rows_apart and _resizing(model, checked)
    ):
        return engine, None
    rows = slots_of_plan(plan, physical_batch_size).rows
    specs = _lot_specs(model, rows)
    if specs is None:
        return engine, None
    refused = _refused(model, checked, plan, engine, specs, validate)
    if refused is not None or engine.runs_rows_apart:
        for layer in _splitting(model):
            raise _split_before(layer)
        for layer in _resizing(model, checked):
            raise _of_one_size(layer)
    if refused is None:
        return engine, None
    apart = engine_named("per_example")
    if asked_for is not None or engine is apart:
        raise refused from None
    refused_apart = _refused(model, checked, plan, apart, specs, validate)
    if refused_apart is not None:
        # The first, unless its remedy is what was tried.
        raise (refused_apart if is_of_engine(refused) else refused) from None
    return apart, _price(model, refused, rows * checked.views.count)


def _is_known_to_fit(model, checked):
    if any(not isinstance(a, keras.layers.Layer) for a in checked.views.augmentations):
        return False
    layers = [x for part in (model, *checked.views.augmentations) for x in _layers_of(part)]
    return (
        not _splitting(model)
        and all(is_stock(x) or type(x).__module__.startswith(_OWN_LAYERS) for x in layers)
        and all(is_made_of_layers(x) for x in layers if isinstance(x, keras.Model))
        and all(rule_for(x) is not None for x in weight_owners(model) if x.trainable_weights)
    )


def _splitting(model):
    """The layers that split texts into words, which no gradient of single rows gets past."""
    texts = [x for x in sublayers(model) if isinstance(x, keras.layers.TextVectorization)]
    return [layer for layer in texts if layer.get_config()["split"] is not None]


def _resizing(model, checked):
    """The layers that give images another size in each batch, hence each row its own if apart."""
    layers = [x for part in (model, *checked.views.augmentations) for x in _layers_of(part)]
    return [
        x for x in layers if isinstance(x, (keras.layers.RandomHeight, keras.layers.RandomWidth))
    ]


def _of_one_size(layer):
    return ValueError(
        f"Expected examples that keep their size, got {type(layer).__name__} {layer.name!r}, which "
        "draws one size for all rows of a batch: those that are run apart would have one each. Use "
        'RandomZoom or RandomTranslation, which keep the size, or engine="book_keeping".'
    )


def _layers_of(part):
    return (part, *sublayers(part)) if isinstance(part, keras.layers.Layer) else ()


def _split_before(layer):
    return ValueError(
        f"Expected texts to be split into words before the model, got TextVectorization "
        f"{layer.name!r} in it, where the words of all examples come in one list. Run it on the "
        "data, once: x = layer(texts).numpy(); train a model that begins with the ids, and put "
        "the layer before it where it is used: keras.Sequential([layer, private.servable()])."
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


def _refused(model, checked, plan, engine, specs, validate):
    """What a step with this engine refuses, a ValueError; None if it goes through.

    Also None for errors that are not this library's: those of the model's own code are shown best
    where the user calls it.
    """

    gradients = LotGradients(
        model,
        checked.streams,
        checked.views,
        plan,
        engine=engine,
        clipping=checked.clipping,
        sum_rounding=0.0,  # nothing is released
    )
    gradients.compile(None, _any_loss, lambda proof, _: check_proof(proof, engine, validate))

    def step(lot):
        return gradients.clipped(lot).sums

    try:
        with undisturbed(model, *checked.views.augmentations), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the step that trains warns again
            traced(step, (specs,))
    except Exception as error:  # whatever code of the user's raises
        cause = cause_of(error)
        return cause if isinstance(cause, ValueError) and is_ours(cause) else None
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


def _price(model, refused, rows):
    numbers = rows * sum(v.shape.num_elements() for v in model.trainable_variables)
    why = refused.what if is_of_engine(refused) else str(refused).rstrip(".")
    return (
        f'engine=None takes "per_example", since "book_keeping" cannot be used: {why}. '
        f"It holds one gradient for each row of a physical batch, {rows} rows or "
        f"{max(1, round(4 * numbers / _MEGABYTE))} MB at once here (less with a smaller "
        "physical_batch_size), and takes several times as long. The guarantee is the same. To "
        'choose it without this warning, pass engine="per_example".'
    )
