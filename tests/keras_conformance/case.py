"""One row of the conformance table."""

from typing import Any, NamedTuple

from tensorflow import keras

CE = keras.losses.SparseCategoricalCrossentropy
PER_EXAMPLE = "per_example"


class Case(NamedTuple):
    """One row of the table.

    Attributes:
        name: Of the test and of the row.
        model: Function that returns (model, x, y); the same weights each time after the seed.
        loss: Function that makes that of `compile`, so that no two models share one.
        metrics, weighted_metrics: As in `compile`; functions that make them.
        loss_weights: As in `compile`.
        optimizer: Function that makes one.
        weights: None, or a function (x) -> sample weights [rows] or [rows, T].
        keras_weights: Whether plain Keras is given those weights, too; False where they are what
            makes an example count here as it counts in Keras.
        class_weight: As in `fit`.
        callbacks: Function from a folder to a list of callbacks.
        validated: Whether `fit` gets validation data.
        physical: Rows of a physical batch; other than that of the lot brings rows of padding.
        engine: Name of the engine that `engine=None` takes.
        refused: None, or a pattern of the refusal.
        differs: None, or why the result is not that of Keras.
        quick: Whether it is among the quick tests.
    """

    name: str
    model: Any
    loss: Any = lambda: CE(from_logits=True)
    metrics: Any = lambda: ["accuracy"]
    weighted_metrics: Any = lambda: None
    loss_weights: Any = None
    optimizer: Any = lambda: keras.optimizers.SGD(0.3)
    weights: Any = None
    keras_weights: bool = True
    class_weight: Any = None
    callbacks: Any = lambda folder: []
    validated: bool = False
    physical: int | None = 8
    engine: str = "book_keeping"
    refused: str | None = None
    differs: str | None = None
    quick: bool = False
