"""A Keras model that is not written to files as it is.

Private part of Keras 2 and TensorFlow: `_trackable_children`, which is asked for all that a file
has to hold; there is no public way to keep the metrics of a model out of a SavedModel.
"""

from tensorflow import keras


class UnsavedModel(keras.Model):
    """Refuses `keras.models.save_model` and `tf.saved_model.save`, which write the metrics too.

    Attributes:
        how_to_save: What the error says, an "Expected ... got ..." of the class derived from this.
    """

    how_to_save = "Expected another model to be saved, got one that cannot be."

    def get_config(self):
        """Raises TypeError: Keras asks for it before it writes a file."""
        raise TypeError(self.how_to_save)

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        if save_type == "savedmodel":
            raise TypeError(self.how_to_save)
        return super()._trackable_children(save_type, **kwargs)
