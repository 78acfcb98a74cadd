"""A copy of a model in which layers are exchanged for others.

`keras.models.clone_model` makes new layers from the configs of the old ones, so that two things are
missing: the weights, and what no config holds, such as which part of a layer is frozen. Private
part of Keras 2: `_trainable`; the public setter of `trainable` also changes all layers inside.
"""

from tensorflow import keras

from tfdpnorm.keras_compat.configs import check_made_by_configs
from tfdpnorm.keras_compat.models import is_made_of_layers
from tfdpnorm.keras_compat.walk import direct_sublayers, sublayers


def cloned(model, exchange):
    """Copies a model layer by layer, and the models nested in it, with layers exchanged.

    Layers that are not exchanged have the weights of the originals, and are frozen as these are. A
    layer that stands in several of the models is copied once.

    Args:
        model: A built Sequential or functional model; so are all of `models_within(model)`.
        exchange: Function from a layer to the new layer in its place, or None for a copy. It is not
            asked about models that are made of layers, input layers and layers inside of layers.

    Returns:
        Pair of the copy and of the list of pairs (layer, layer in its place), whose weights are
        left to the caller.
    """
    models, copies, exchanged, known = [], [], [], {}

    def copied(layer):
        if id(layer) not in known:
            known[id(layer)] = made(layer)
        return known[id(layer)]

    def made(layer):
        if isinstance(layer, keras.Model) and is_made_of_layers(layer):
            return clone(layer)
        other = exchange(layer)
        if other is None:
            other = fresh_copy(layer)
            copies.append((layer, other))
        else:
            exchanged.append((layer, other))
        return other

    def clone(part):
        models.append((part, keras.models.clone_model(part, clone_function=copied)))
        return models[-1][1]

    copy = clone(model)
    for part, other in models:
        set_trainable_alone(other, part.trainable)
    for layer, other in copies:
        copy_state(layer, other)
    return copy, exchanged


def models_within(model):
    """Yields `model` and the models that are layers of it, at any depth: what `cloned` clones."""
    yield model
    if is_made_of_layers(model):
        for layer in model.layers:
            if isinstance(layer, keras.Model):
                yield from models_within(layer)


def fresh_copy(layer):
    """Returns a new layer of the same configuration, with weights of its own or not yet any.

    Raises:
        ValueError: for a layer that holds others than its configuration makes.
    """
    check_made_by_configs(layer, "copied")
    return layer.__class__.from_config(layer.get_config())


def paired_sublayers(layer, copy, *, leave=lambda layer: False):
    """Pairs the layers inside a layer with those inside a copy that is not built.

    Args:
        layer: The original.
        copy: A fresh copy of it.
        leave: Function from a layer to whether what is inside it is left out.

    Returns:
        Two lists of pairs: of the layers inside, at any depth; and of those, or of `layer` itself,
        that do not hold layers of the same types, as where `build` makes them. What is inside
        these is not in the first list.
    """
    pairs, unlike, known = [], [], set()

    def enter(old, new):
        own, others = direct_sublayers(old), direct_sublayers(new)
        if [type(x) for x in own] != [type(x) for x in others]:
            unlike.append((old, new))
            return
        for pair in zip(own, others, strict=True):
            if id(pair[0]) not in known:
                known.add(id(pair[0]))
                pairs.append(pair)
                if not leave(pair[0]):
                    enter(*pair)

    enter(layer, copy)
    return pairs, unlike


def copy_state(layer, copy):
    """Gives a copy of a layer the weights of the layer, and freezes the same parts.

    Args:
        layer: The original, built.
        copy: Of the same class and configuration, built.
    """
    for own, other in zip([layer, *sublayers(layer)], [copy, *sublayers(copy)], strict=True):
        set_trainable_alone(other, own.trainable)
    # Now: with other parts frozen, weights come in another order.
    copy.set_weights(layer.get_weights())


def set_trainable_alone(layer, trainable):
    """Sets `trainable` of a layer, and leaves the layers inside it as they are."""
    layer._trainable = trainable
