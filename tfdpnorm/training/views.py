"""Multi-view augmentation: K augmented views of each example behind one clipped gradient."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm import arguments


class Views:
    """Makes the K augmented views of each example, and averages what a model gives for them.

    The gradient of an example is that of the mean loss of its views, and is clipped as one: views
    take K times the time and memory, and the guarantee is the same.

        views=Views(keras.layers.RandomFlip("horizontal"), multiplicity=4)

    Args:
        augmentation: None, or a Keras layer or a function from inputs [rows, ...] to as many, that
            makes a view of each row *by itself*: if one row changes the view of another, no
            guarantee holds. Or a list of K of them, one for each view. Random numbers have to be
            drawn whatever the rows hold; they may depend on a row's position, and need not be
            secret.
        multiplicity: K, the augmentation multiplicity: the number of views of each example.

    Attributes:
        augmentations: Tuple of what makes the views: of none, one or K.

    Raises:
        ValueError: for anything else.

    Reference:
        De et al. (2022), "Unlocking high-accuracy differentially private image classification
        through scale", Section 3.
    """

    def __init__(self, augmentation=None, multiplicity=1):
        self.multiplicity = arguments.integer(
            "multiplicity", multiplicity, at_least=1, wrong_type=ValueError
        )
        if augmentation is None:
            augmentation = ()
        elif isinstance(augmentation, (list, tuple)):
            if len(augmentation) != multiplicity or not all(map(callable, augmentation)):
                raise ValueError(
                    f"Expected as many augmentations as multiplicity={multiplicity}, Keras layers "
                    f"or functions of rows, got {augmentation!r}."
                )
        elif not callable(augmentation):
            raise ValueError(
                "Expected augmentation to be a Keras layer or a function of rows, or a list of "
                f"them, got {type(augmentation).__name__}."
            )
        else:
            augmentation = (augmentation,)
        self.augmentations = tuple(augmentation)

    @property
    def are_rows(self):
        """Whether each example is its own only view."""
        return self.multiplicity == 1 and not self.augmentations

    def __call__(self, x):
        """[rows, ...] to views [rows, K, ...], or to [rows, ...] if K is 1."""
        if len(self.augmentations) > 1:
            views = [_augmented(augmentation, x) for augmentation in self.augmentations]
            return tf.nest.map_structure(lambda *each: tf.stack(each, axis=1), *views)
        x = self.repeated(x)
        for augmentation in self.augmentations:
            x = _augmented(augmentation, x)
        if self.multiplicity == 1:
            return x
        return tf.nest.map_structure(
            lambda t: tf.reshape(t, tf.concat([[-1, self.multiplicity], tf.shape(t)[1:]], 0)), x
        )

    def as_rows(self, views):
        """[rows, K, ...] to [rows * K, ...], the views of a row one after the other."""
        if self.multiplicity == 1:
            return views
        return tf.nest.map_structure(_joined, views)

    def repeated(self, rows):
        """[rows, ...] to [rows * K, ...]."""
        if self.multiplicity == 1:
            return rows
        return tf.nest.map_structure(lambda t: tf.repeat(t, self.multiplicity, axis=0), rows)

    def mean(self, values):
        """The mean over the views: [rows * K, ...] to [rows, ...]."""
        if self.multiplicity == 1:
            return values
        split = tf.concat([[-1, self.multiplicity], tf.shape(values)[1:]], 0)
        rows = None if values.shape[0] is None else values.shape[0] // self.multiplicity
        mean = tf.reduce_mean(tf.reshape(values, split), axis=1)
        return tf.ensure_shape(mean, [rows, *values.shape[1:]])


def _augmented(augmentation, x):
    if isinstance(augmentation, keras.layers.Layer):
        found = augmentation(x, training=True)
    else:
        found = augmentation(x)
    given, made = tf.nest.flatten(x), tf.nest.flatten(found)
    if len(given) != len(made) or any(
        not m.shape[:1].is_compatible_with(g.shape[:1]) for g, m in zip(given, made, strict=False)
    ):
        raise ValueError(
            f"Expected the augmentation to give as many rows as it takes, {given[0].shape[0]}, "
            f"got shapes {[tuple(m.shape) for m in made]}."
        )
    return found


def _joined(t):
    rows = None if t.shape[0] is None else t.shape[0] * t.shape[1]
    return tf.ensure_shape(
        tf.reshape(t, tf.concat([[-1], tf.shape(t)[2:]], 0)), [rows, *t.shape[2:]]
    )
