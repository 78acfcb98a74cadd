"""The engine of a model's clipped sums, and the one that takes its place where it cannot."""

import warnings

from tensorflow import keras

from tfdpnorm.gradients.engines.registry import engine_named
from tfdpnorm.gradients.refusals import is_of_coupling, is_of_engine
from tfdpnorm.keras_compat.graphs import as_written
from tfdpnorm.keras_compat.models import sublayers
from tfdpnorm.training.errors import own_words

_MEGABYTE = 1e6


class EngineInUse:
    """An engine, which "per_example" may replace when a step is traced: before any update.

    What stops book-keeping may be known in `make_private` (a layer), or only when the step of `fit`
    is traced (a loss, or a model that did not know its inputs). Both go this way.

    Args:
        model: The Keras model.
        views: `tfdpnorm.training.step.views.Views` of its rows.
        engine: `tfdpnorm.gradients.engines.registry.Engine`.
        may_change: Whether nobody has asked for this engine.

    Attributes:
        now: The `Engine`.
        said: Why it is another one than at first, a sentence for a warning; or None.
    """

    def __init__(self, model, views, engine, *, may_change):
        self._model, self._views = model, views
        self._may_change = may_change and not engine.of_tensorflow_privacy
        self.now = engine
        self.said = None

    def summed(self, sum_up, rows):
        """Returns `sum_up()`; if this engine cannot, as "per_example" does it, with a warning.

        Args:
            sum_up: Function that traces a clipped sum with the engine `now`.
            rows: The rows of a physical batch, or None.

        Raises:
            ValueError: what this library raises of either engine, as it is worded; and for layers
                that cannot run rows apart.
            Exception: whatever the user's code raises.
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
        self.said = _price(self._model, refused, rows and rows * self._views.count)
        _warn(self.said)
        return result

    def check_rows_can_be_apart(self):
        """Raises ValueError for a layer that splits texts or draws sizes."""
        for layer in sublayers(self._model):
            if splits_texts(layer):
                raise ValueError(
                    "Expected texts to be split into words before the model, got TextVectorization "
                    f"{layer.name!r} in it, where the words of all examples come in one list. Run "
                    "it on the data, once: x = layer(texts).numpy(); train a model that begins "
                    "with the ids, and put the layer before it where it is used: "
                    "keras.Sequential([layer, private.servable()])."
                )
        for layer in [x for p in (self._model, *self._views.augmentations) for x in layers_of(p)]:
            if isinstance(layer, (keras.layers.RandomHeight, keras.layers.RandomWidth)):
                raise ValueError(
                    f"Expected examples that keep their size, got {type(layer).__name__} "
                    f"{layer.name!r}, which draws one size for all rows of a batch: those that are "
                    "run apart would have one each. Use RandomZoom or RandomTranslation, which "
                    'keep the size, or engine="book_keeping".'
                )


def splits_texts(layer):
    """Whether a layer splits texts into words, which no gradient of single rows gets past."""
    is_of_texts = isinstance(layer, keras.layers.TextVectorization)
    return is_of_texts and layer.get_config()["split"] is not None


def layers_of(part):
    """Returns a layer or model and all layers inside it; nothing for a plain function."""
    return (part, *sublayers(part)) if isinstance(part, keras.layers.Layer) else ()


@as_written
def _warn(sentence):
    warnings.warn(sentence, stacklevel=2)


def _price(model, refused, rows):
    numbers = (rows or 1) * sum(v.shape.num_elements() for v in model.trainable_variables)
    size = f"{max(1, round(4 * numbers / _MEGABYTE))} MB"
    held = f"{rows} rows or {size} at once" if rows else f"{size} a row"
    why = refused.what if is_of_engine(refused) else str(refused).rstrip(".")
    return (
        f'engine=None takes "per_example", since "book_keeping" cannot be used: {why}. '
        f"It holds one gradient for each row of a physical batch, {held} here (less with a smaller "
        "physical_batch_size), and takes several times as long. The guarantee is the same. To "
        'choose it without this warning, pass engine="per_example".'
    )
