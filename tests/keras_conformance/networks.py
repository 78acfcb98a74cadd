"""Cases of the conformance table: kinds of models."""

import numpy as np
from tensorflow import keras

from tests.keras_conformance import models, transformers, variational
from tests.keras_conformance.case import PER_EXAMPLE, Case
from tests.keras_examples.case import CLASSES
from tfdpnorm.keras_compat.variables import KERAS_3


def steps_weights(x):
    """The weight by which an example's mean over its valid steps counts as in Keras."""
    valid = (x > 0).sum(1)
    return (valid / valid.mean()).astype(np.float32)


def _divergence(y, given):
    return given[:, 0] - y[:, 0]


_TWO = {
    "loss": lambda: [keras.losses.SparseCategoricalCrossentropy(from_logits=True), "mse"],
    "metrics": lambda: [["accuracy"], ["mae"]],
}
_NAMED = {
    "loss": lambda: dict(zip(("kind", "size"), _TWO["loss"](), strict=True)),
    "metrics": lambda: {"kind": ["accuracy"], "size": ["mae"]},
}
_PIXEL_METRICS = lambda: [  # noqa: E731
    "accuracy",
    keras.metrics.Precision(),
    keras.metrics.AUC(num_thresholds=20),
    keras.metrics.TruePositives(),
    keras.metrics.BinaryIoU([1], threshold=0.5),
]
_CLASSES_OF_PIXELS = lambda: [  # noqa: E731
    "accuracy",
    keras.metrics.MeanIoU(CLASSES, sparse_y_pred=False),
]
_NO_METRICS = {"metrics": lambda: None}
_ENCODER = {"loss": lambda: "mse", **_NO_METRICS}
_SLOWLY = {"optimizer": lambda: keras.optimizers.SGD(0.03)}

NETWORKS = [
    Case("mlp", models.mlp),
    Case("mlp, a batch at once", models.mlp, physical=None),
    Case("cnn with group normalisation", models.cnn),
    Case("pixels of one class", models.pixels, lambda: "binary_crossentropy", _PIXEL_METRICS),
    Case(
        "u-net, classes of pixels",
        lambda: transformers.example("unet"),
        metrics=_CLASSES_OF_PIXELS,
        **_SLOWLY,
    ),
    Case("text transformer", lambda: transformers.example("text_transformer")),
    Case("vision transformer", lambda: transformers.example("vision_transformer"), **_SLOWLY),
    Case(
        "vision transformer, subclassed, with a class token of its own",
        transformers.vision_transformer_with_a_class_token,
        engine=PER_EXAMPLE,
    ),
    Case("miniature gpt", lambda: transformers.example("miniature_gpt")),
    Case("gpt with a tied embedding", transformers.tied_gpt, engine=PER_EXAMPLE),
    Case("lstm, masks of one length", models.masked_lstm),
    Case(
        "words, masks of several lengths, with weights",
        lambda: models.masked_lstm((1, 4, 5), recurrent=False),
        weights=steps_weights,
        keras_weights=False,
        quick=True,
    ),
    Case(
        "lstm, masks of several lengths, with weights",
        lambda: models.masked_lstm((1, 4, 5)),
        weights=steps_weights,
        keras_weights=False,
    ),
    Case("sequence to sequence", lambda: transformers.example("sequence_to_sequence")),
    Case(
        "two inputs, two outputs", models.two_of_each, **_TWO, loss_weights=[0.5, 2.0], quick=True
    ),
    Case("dicts", models.dicts, **_NAMED, loss_weights={"kind": 0.5, "size": 2.0}),
    Case(
        "dicts in no alphabetical order",
        lambda: models.dicts("ba", ("size", "kind")),
        lambda: dict(zip(("size", "kind"), _TWO["loss"]()[::-1], strict=True)),
        _NAMED["metrics"],
        loss_weights={"size": 2.0, "kind": 0.5},
        validated=True,
        quick=True,
    ),
    Case(
        "a loss for one of two outputs",
        models.dicts,
        lambda: {"kind": _TWO["loss"]()[0]},
        **_NO_METRICS,
    ),
    Case("subclassed", models.subclassed),
    Case("subclassed, not built", models.not_built),
    Case("subclassed, tied", models.tied, engine=PER_EXAMPLE),
    Case(
        "subclassed, tied, not built",
        lambda: models.not_built(True),
        engine=PER_EXAMPLE,
    ),
    Case("nested", models.nested),
    Case("frozen layer", models.frozen),
    Case("layer used twice", models.shared),
    Case(
        "fine-tuned batch normalisation in inference mode",
        models.fine_tuned,
        # Keras 3 trains it all the same: a functional model passes on the mode of fit.
        refused="got BatchNormalization" if KERAS_3 else None,
    ),
    Case("batch normalisation", models.batch_normalized, refused="got BatchNormalization"),
    Case("stateful lstm", models.stateful, refused="stateful recurrent layer"),
    Case("activity regulariser", models.activity_regularized, refused="has an activity regul"),
    Case(
        "variational autoencoder, divergence as an output",
        variational.with_divergence_as_output,
        lambda: ["mse", _divergence],
        **_NO_METRICS,
        loss_weights=[1.0, 0.1],
    ),
    Case(
        "variational autoencoder, one loss of all outputs",
        variational.with_everything_in_one_output,
        lambda: variational.evidence,
        **_NO_METRICS,
        **_SLOWLY,
    ),
    Case(
        "variational autoencoder, add_loss of a mean",
        lambda: variational.with_added_loss("mean"),
        **_ENCODER,
        refused=r"The call of .* uses add_loss\(\)",
        quick=True,
    ),
    Case(
        "variational autoencoder, add_loss of each example",
        lambda: variational.with_added_loss("each"),
        **_ENCODER,
        refused=r"The call of .* uses add_loss\(\)",
    ),
    Case(
        "variational autoencoder, train_step",
        variational.with_a_train_step,
        **_ENCODER,
        refused=r"overrides train_step\(\)",
    ),
    Case(
        "lambda of the batch's mean", models.centred, refused="works along the axis of the examples"
    ),
]
if not KERAS_3:  # where both are gone
    NETWORKS += [
        Case(
            "variational autoencoder, add_loss of the model",
            variational.with_added_loss_of_the_model,
            **_ENCODER,
            refused=r"The call of .* uses add_loss\(\)",
        ),
        Case(
            "variational autoencoder, add_metric",
            lambda: variational.with_added_loss("metric"),
            **_ENCODER,
            refused=r"The call of .* uses add_metric\(\)",
        ),
    ]
