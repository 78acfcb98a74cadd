"""The engine of a model's clipped sums, chosen before the first update: `default_engine`, unless
the user names one, and "per_example" where that cannot be.

A step is traced, and not run: what it would reject is rejected by `make_private`. The step that
trains is traced and verified again, in `fit`. By then the data have been sampled.
"""

import warnings

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.data import Lot
from tfdpnorm.gradients.engines.registry import engine_named
from tfdpnorm.gradients.refusals import is_of_coupling, is_of_engine
from tfdpnorm.gradients.rules import rule_for
from tfdpnorm.independence.examples import input_specs
from tfdpnorm.independence.undisturbed import undisturbed
from tfdpnorm.keras_compat.graphs import as_written, traced
from tfdpnorm.keras_compat.models import (
    is_functional,
    is_made_of_layers,
    is_stock,
    specs_of_build,
    sublayers,
    weight_owners,
)
from tfdpnorm.keras_compat.variables import trainable_variables
from tfdpnorm.layers import PublicBatchNormalization
from tfdpnorm.privacy.slots import slots_of_plan
from tfdpnorm.training.checks.independence import check_proof
from tfdpnorm.training.errors import own_words
from tfdpnorm.training.update import Update

_MEGABYTE = 1e6


def default_engine(*, rows_mix, public_rows_per_example):
    """Returns the fastest `Engine` that can do what a model's statistics ask for.

    Its `check` describes the arguments.
    """
    return engine_named("per_example" if rows_mix or public_rows_per_example else "book_keeping")


class EngineInUse:
    """An engine, which "per_example" may replace when a step is traced: before any update.

    What stops book-keeping may be known in `make_private` (a layer), or only when the step of `fit`
    is traced (a loss, or a model that did not know its inputs). Both go this way.

    Args:
        model: The Keras model.
        views: `tfdpnorm.training.views.Views` of its rows.
        engine: `tfdpnorm.gradients.engines.registry.Engine`.
        may_change: Whether the user did not ask for this engine.

    Attributes:
        now: The `Engine`.
        said: The warning that says why it is another one than at first; or None.
    """

    def __init__(self, model, views, engine, *, may_change):
        self._model, self._views = model, views
        self._may_change = may_change and not engine.of_tensorflow_privacy
        self.now = engine
        self.said = None

    def summed(self, sum_up, rows):
        """Returns `sum_up()`; if this engine cannot, as "per_example" does it, with a warning.

        `sum_up` traces a clipped sum with the engine `now`. `rows` are those of a physical batch,
        or None. Raises the ValueError of this library about either engine, as it is worded, or
        about layers that cannot run rows apart; errors of the user's code pass through.
        """
        first = self.now
        try:
            return sum_up()
        except ValueError as error:
            refused = own_words(error)
            may_change = self._may_change and not first.runs_rows_apart
            if refused is None or not may_change or is_of_coupling(refused):
                raise
        self.check_rows_can_be_apart()
        self.now = engine_named("per_example")
        try:
            result = sum_up()
        except Exception as error:
            self.now, again = first, own_words(error)
            # The first, unless its remedy is what was tried.
            raise (again if again is not None and is_of_engine(refused) else refused) from None
        rows = rows and rows * self._views.rows_per_example
        numbers = (rows or 1) * sum(
            v.shape.num_elements() for v in trainable_variables(self._model)
        )
        size = f"{max(1, round(4 * numbers / _MEGABYTE))} MB"
        held = f"{rows} rows or {size} at once" if rows else f"{size} a row"
        why = refused.what if is_of_engine(refused) else str(refused).rstrip(".")
        self.said = (
            f'engine=None takes "per_example", since "book_keeping" cannot be used: {why}. It '
            f"holds one gradient for each row of a physical batch, {held} here (less with a "
            "smaller physical_batch_size). An update took 1 (attention) to 5 (dense layers) times "
            "as long where it was measured. The guarantee is the same. To choose it without this "
            'warning, pass engine="per_example".'
        )
        _warn(self.said)
        return result

    def check_rows_can_be_apart(self):
        """Raises ValueError for a layer that splits texts or draws sizes."""
        for layer in sublayers(self._model):
            if _splits_texts(layer):
                raise ValueError(
                    f"The model contains TextVectorization {layer.name!r}, which puts the words of "
                    "all examples into one list. Run it once on the data: x = "
                    "layer(texts).numpy(); train a model that takes the ids, and put the layer in "
                    "front of it for predictions: keras.Sequential([layer, private.servable()])."
                )
        for layer in [x for p in (self._model, *self._views.augmentations) for x in _layers_of(p)]:
            if isinstance(layer, (keras.layers.RandomHeight, keras.layers.RandomWidth)):
                raise ValueError(
                    f"Expected examples that keep their size, got {type(layer).__name__} "
                    f"{layer.name!r}, which draws one size for all rows of a batch: rows that are "
                    "run separately would each have their own. Use RandomZoom or "
                    'RandomTranslation, which keep the size, or engine="book_keeping".'
                )


def _splits_texts(layer):
    """Whether a layer splits texts into words, after which no gradient of single rows exists."""
    is_of_texts = isinstance(layer, keras.layers.TextVectorization)
    return is_of_texts and layer.get_config()["split"] is not None


def _layers_of(part):
    """Returns a layer or model and all layers inside it; nothing for a plain function."""
    return (part, *sublayers(part)) if isinstance(part, keras.layers.Layer) else ()


@as_written
def _warn(sentence):
    warnings.warn(sentence, stacklevel=2)


_OWN_LAYERS = PublicBatchNormalization.__module__.rpartition(".")[0]
_UNKNOWN_SIZE = 32


def rehearse(model, parts, plan, *, physical_batch_size, validate, replicas):
    """Traces a step of a model, which may change its `EngineInUse`, and raises what would stop it.

    Where the shapes of the inputs are not known yet, or all of the model is known to be fit for
    book-keeping (layers of Keras and of this library, which have rules, in a graph), nothing is
    traced. Neither is it with `validate=False`, nor for the engines that are there to compare with.
    `parts` has `streams`, `views`, `clipping` and `engine`.

    Raises:
        ValueError: for a layer that splits texts or draws sizes, and if no engine, or not that
            which was asked for, can train the model.
    """
    engine = parts.engine
    examined = validate and parts.streams.mode != "lot"
    if not examined or engine.now.of_tensorflow_privacy:
        return
    if engine.now.runs_rows_apart:
        engine.check_rows_can_be_apart()
    if _is_known_to_fit(model, parts):
        return
    rows = slots_of_plan(plan, physical_batch_size, replicas.count).rows
    specs = lot_specs(model, rows, parts.views.rows_per_person)
    if specs is None:
        return
    refused = _refused(model, parts, plan, specs)
    if refused is not None:
        engine.check_rows_can_be_apart()
        raise refused from None


def _is_known_to_fit(model, parts):
    if any(not isinstance(a, keras.layers.Layer) for a in parts.views.augmentations):
        return False
    layers = [x for part in (model, *parts.views.augmentations) for x in _layers_of(part)]
    return (
        not any(map(_splits_texts, sublayers(model)))
        and all(is_stock(x) or type(x).__module__.startswith(_OWN_LAYERS) for x in layers)
        and all(is_made_of_layers(x) for x in layers if isinstance(x, keras.Model))
        and all(rule_for(x) is not None for x in weight_owners(model) if x.trainable_weights)
    )


def lot_specs(model, rows, per_person=None):
    """Returns a `Lot` of `tf.TensorSpec` [None, rows, ...]; None if the inputs are not known.

    Sizes that are not known are 32, and the targets a vector. `rows` is that of a physical batch;
    with `per_person=R` each is a person with R rows: [None, rows, R, ...].
    """
    built = is_functional(model) or all(x.built for x in (model, *sublayers(model)))
    specs = input_specs(model) or specs_of_build(model) if built else None
    if specs is None or any(spec.shape.rank is None for spec in tf.nest.flatten(specs)):
        return None

    def of_lot(spec):
        inner = [_UNKNOWN_SIZE if n is None else n for n in spec.shape[1:]]
        return tf.TensorSpec([*of_rows, *inner], spec.dtype)

    mask = tf.TensorSpec([None, rows])
    of_rows = [None, rows] if per_person is None else [None, rows, per_person]
    vector = tf.TensorSpec(of_rows)
    return Lot(tf.nest.map_structure(of_lot, specs), vector, vector, mask)


def _refused(model, parts, plan, specs):
    """The ValueError of this library for a step that is rejected; None if it passes.

    Errors of the model's own code also give None: they are shown best where the user calls it.
    """
    judge = lambda proof, _: check_proof(proof, parts.engine.now)  # noqa: E731
    update = rehearsed_update(model, parts, plan, judge)
    try:
        with undisturbed(model, *parts.views.augmentations), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the step that trains warns again
            traced(lambda lot: update.clipped(lot).sums, (specs,))
    except Exception as error:  # whatever code of the user's raises
        return own_words(error)
    return None


def rehearsed_update(model, parts, plan, judge):
    """Returns the `Update` of a model for a loss like any other, of which nothing is released.

    `parts` as in `rehearse`; `judge` as in `tfdpnorm.training.physical_batches.PhysicalBatches`.
    """
    update = Update(model, parts, plan)
    update.compile(None, _any_loss, judge)
    return update


def _any_loss(y, predictions):
    """A loss of each row that depends on every output, with a gradient for each."""
    del y
    losses = [
        tf.reduce_mean(tf.square(tf.cast(t, tf.float32)), axis=list(range(1, t.shape.rank)))
        for t in tf.nest.flatten(predictions)
        if t.dtype.is_floating
    ]
    return tf.add_n(losses)
