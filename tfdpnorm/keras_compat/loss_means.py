"""The means of losses that Keras shows: of all together, then of each output.

A version-bound part of Keras 2: `compiled_loss`, whose `build` makes the means of several outputs.
"""


def loss_means(model, predictions):
    """Returns the mean of a compiled model's loss, and those of each output if there are several.

    Args:
        model: A compiled `keras.Model`.
        predictions: Structure of its outputs.

    Returns:
        A `keras.metrics.Mean` and a list of them, for the outputs that have a loss; empty for a
        single output.
    """
    if not model.compiled_loss.built:
        model.compiled_loss.build(predictions)
    total, *each = model.compiled_loss.metrics
    return total, each


def shown_loss(model, y, predictions, sample_weight):
    """Updates the means of the losses just as `evaluate` of Keras; with regularisers."""
    model.compiled_loss(y, predictions, sample_weight, regularization_losses=model.losses)
