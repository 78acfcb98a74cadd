"""Multi-view augmentation: K augmented views of each example behind one clipped gradient."""

import tensorflow as tf
from tensorflow import keras


class Views:
    """Makes the K augmented views of each example, and averages what a model gives for them.

    The gradient of an example is that of the mean loss of its views, and is clipped as one: views
    cost time, not privacy. K is called the augmentation multiplicity.

    Args:
        count: K, the number of views of each example; 1 for the example itself.
        augmentation: None, or a Keras layer or a function from rows [rows, ...] to as many; or a
            list of K of them, one for each view. They must treat each row by itself.

    Attributes:
        augmentations: Tuple of what makes the views: of none, one or K.

    Reference:
        De et al. (2022), "Unlocking high-accuracy differentially private image classification
        through scale", Section 3.
    """

    def __init__(self, count=1, augmentation=None):
        self.count = count
        if augmentation is None:
            augmentation = ()
        one_each = isinstance(augmentation, (list, tuple))
        self.augmentations = tuple(augmentation) if one_each else (augmentation,)

    def __call__(self, x):
        """[rows, ...] to views [rows, K, ...], or to [rows, ...] if K is 1."""
        if len(self.augmentations) > 1:
            views = [_augmented(augmentation, x) for augmentation in self.augmentations]
            return tf.nest.map_structure(lambda *each: tf.stack(each, axis=1), *views)
        x = self.repeated(x)
        for augmentation in self.augmentations:
            x = _augmented(augmentation, x)
        if self.count == 1:
            return x
        return tf.nest.map_structure(
            lambda t: tf.reshape(t, tf.concat([[-1, self.count], tf.shape(t)[1:]], 0)), x
        )

    def as_rows(self, views):
        """[rows, K, ...] to [rows * K, ...], the views of a row one after the other."""
        if self.count == 1:
            return views
        return tf.nest.map_structure(_joined, views)

    def repeated(self, rows):
        """[rows, ...] to [rows * K, ...]."""
        if self.count == 1:
            return rows
        return tf.nest.map_structure(lambda t: tf.repeat(t, self.count, axis=0), rows)

    def mean(self, values):
        """The mean over the views: [rows * K, ...] to [rows, ...]."""
        if self.count == 1:
            return values
        split = tf.concat([[-1, self.count], tf.shape(values)[1:]], 0)
        rows = None if values.shape[0] is None else values.shape[0] // self.count
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
