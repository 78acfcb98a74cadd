"""Which layers of a model are trained: the head, the last ones, those of some names, or all."""

import fnmatch

from tfdpnorm import arguments
from tfdpnorm.keras_compat.exchange import set_trainable_alone
from tfdpnorm.keras_compat.models import sublayers, weight_owners


def freeze(model, trainable):
    """Freezes all layers of a model but some, which are trained.

    Frozen layers keep their weights, and frozen batch normalisation normalises by its moving
    averages. Layers without weights, such as Dropout, go on as they are.

    Args:
        model: A Keras model, built; it is changed.
        trainable: "all"; "head", the last layer that has weights; "last:N", the last N of those;
            or a list of names of layers, or shell-style patterns of them, such as ["block7*"].

    Returns:
        The names of the layers that are trained, in order.

    Raises:
        ValueError: for anything else, for names that no layer has, and for more layers than there
            are.
    """
    owners = weight_owners(model)
    chosen = {id(layer) for layer in _chosen(owners, checked_trainable(trainable))}
    for part in (model, *sublayers(model)):
        set_trainable_alone(part, True)
    for layer in owners:
        if id(layer) not in chosen:
            layer.trainable = False
    return [layer.name for layer in owners if id(layer) in chosen]


def checked_trainable(trainable):
    """Returns `trainable` as a list of patterns, or as the number of last layers; None for all.

    Raises:
        ValueError: for what `freeze` does not take.
    """
    if trainable == "all":
        return None
    if trainable == "head":
        return 1
    if isinstance(trainable, str) and trainable.startswith("last:"):
        number = trainable.removeprefix("last:")
        if number.isdecimal() and int(number) > 0:
            return int(number)
    elif isinstance(trainable, (list, tuple)) and all(isinstance(x, str) for x in trainable):
        if trainable:
            return list(trainable)
    raise arguments.refusal(
        "trainable", 'to be "all", "head", "last:N" or a list of names of layers', trainable
    )


def check_last(number, there):
    """Refuses more last layers than there are.

    Args:
        number: N of "last:N".
        there: How many layers have weights.
    """
    if number > there:
        raise ValueError(
            f"Expected trainable to be last:{there} or fewer, got last:{number}: there are no more "
            'layers that have weights. For all of them, pass "all".'
        )


def _chosen(owners, trainable):
    if trainable is None:
        return owners
    if isinstance(trainable, int):
        check_last(trainable, len(owners))
        return owners[-trainable:]
    for pattern in trainable:
        if not any(fnmatch.fnmatchcase(layer.name, pattern) for layer in owners):
            raise ValueError(
                f"Expected names of layers that have weights in trainable, got {pattern!r}. They "
                f"are {', '.join(layer.name for layer in owners)}."
            )
    return [x for x in owners if any(fnmatch.fnmatchcase(x.name, each) for each in trainable)]


def counts(model):
    """Returns how many layers of a model with weights are trained, and how many there are."""
    owners = weight_owners(model)
    return sum(bool(layer.trainable_weights) for layer in owners), len(owners)
