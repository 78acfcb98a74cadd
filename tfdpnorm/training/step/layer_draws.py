"""What random layers draw in an update: a function of the run's key, so that it repeats itself."""

import contextlib
import hashlib
import secrets

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.graphs import as_written, seed_graph
from tfdpnorm.keras_compat.random_layers import (
    drawing_from,
    draws_by_generator,
    held_generators,
    keras_sources,
    make_generators,
)
from tfdpnorm.keras_compat.walk import sublayers

_WORD = 8  # bytes


class LayerDraws:
    """Lets the random layers of a training step draw from generators of the run.

    What a layer draws in an update follows from (the run's key, the number of the layer, the number
    of the update): an update that is repeated under the same key comes out as before. That goes for
    the layers of Keras that draw by `keras.backend.RandomGenerator`, such as Dropout, GaussianNoise
    and RandomFlip, for cells of recurrent layers, and for layers that hold a `tf.random.Generator`.
    Outside of the step the layers draw as they did. What a layer draws by other operations, such as
    `tf.random.normal`, follows from counters inside of TensorFlow, and is not repeated; nor is what
    is drawn in a loop over time steps for sure.

    Args:
        model: The Keras model.
        augmentations: What makes views of examples: functions and Keras layers.
        key: Bytes, the secret of a run that may be resumed; None for a new one.
        insecure_seed: An int in place of the secret.
        by_rows: Whether the engine runs the model on one row at a time. Then only such layers take
            part that draw from generators anyway: others could not be vectorised.
    """

    def __init__(self, model, augmentations, key=None, insecure_seed=None, by_rows=False):
        if insecure_seed is not None:
            key = str(insecure_seed).encode()
        self._insecure_seed = insecure_seed
        self._secret = secrets.token_bytes(32) if key is None else key
        self._model, self._augmentations, self._by_rows = model, augmentations, by_rows
        self._keys = None
        self._generators = []  # Those made here. Plain objects: no checkpoint may hold them.

    def make_variables(self):
        """Makes the variables of the layers that the model has by now.

        Made within the first trace of the training step, they would have it traced a second time.
        """
        self._made_for(self._sources(), self._held())

    def make_generators(self):
        """Makes the generators that the layers draw from outside of the training step.

        What a layer makes while a function is first traced is no variable yet, and no proof knows
        what it is.
        """
        views, layers = self._layers()
        make_generators(keras_sources([*views, *layers]))

    # AutoGraph would convert it in a function of the user's.
    @as_written
    @contextlib.contextmanager
    def of_update(self, update):
        """Context in which the random layers draw what belongs to an update.

        Args:
            update: Scalar int64, the number of the update.
        """
        if not tf.executing_eagerly():
            seed_graph(self._graph_seed())
        sources, held = self._sources(), self._held()
        generators = self._made_for(sources, held)
        counter = tf.stack([tf.zeros_like(update), update])
        for number, generator in enumerate([*generators, *held]):
            # The lower word counts what is drawn within the update.
            generator.reset_from_key_counter(self._keys[number], counter)
        with drawing_from(sources, generators):
            yield

    def _graph_seed(self):
        """The seed of a graph, so that what draws by TensorFlow's counters has a secret seed.

        Otherwise the numbers would follow from a global seed or one of a layer, which may be known:
        settings are public. Anew for each trace: a resumed run begins to count at zero.
        """
        if self._insecure_seed is not None:
            return self._insecure_seed
        return secrets.randbelow(2**31 - 1)

    def _layers(self):
        views = [x for x in self._augmentations if isinstance(x, keras.layers.Layer)]
        return [x for view in views for x in (view, *sublayers(view))], sublayers(self._model)

    def _sources(self):
        views, layers = self._layers()
        found = keras_sources([*views, *layers])
        if not self._by_rows:
            return found
        of_views = {id(source) for source in keras_sources(views)}
        return [x for x in found if id(x) in of_views or draws_by_generator(x)]

    def _held(self):
        views, layers = self._layers()
        return held_generators([*views, *layers])

    def _made_for(self, sources, held):
        """The generators of `sources`, made unless they are there, as are the keys of both."""
        with tf.init_scope():
            self._make(len(sources), len(sources) + len(held))
        return self._generators[: len(sources)]

    def _make(self, generators, keys):
        """Makes variables for so many generators and keys, unless there are enough."""
        while len(self._generators) < generators:
            state = np.zeros(3, np.int64)
            self._generators.append(tf.random.Generator.from_state(state, "philox"))
        if keys and (self._keys is None or self._keys.shape[0] < keys):
            words = hashlib.shake_256(b"random layers" + self._secret).digest(_WORD * keys)
            # A variable, not a constant, so that the key is no part of any traced graph.
            self._keys = tf.Variable(
                np.frombuffer(words, np.int64), trainable=False, name="layer_keys"
            )
