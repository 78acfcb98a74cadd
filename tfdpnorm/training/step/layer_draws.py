"""What random layers draw in an update: a function of the run's key, so that it repeats itself."""

import contextlib
import hashlib
import itertools
import secrets

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.arguments import refusal
from tfdpnorm.keras_compat.draws import generators_from, is_philox, seeds_from
from tfdpnorm.keras_compat.graphs import as_written, current_graph, operation_count
from tfdpnorm.keras_compat.random_layers import (
    drawing_from,
    draws_by_generator,
    held_generators,
    keras_sources,
    make_generators,
)
from tfdpnorm.keras_compat.walk import sublayers
from tfdpnorm.training.checks.secret_draws import check_draws

_WORD = 8  # bytes


class LayerDraws:
    """Lets all that is random in a training step draw what nobody else can know.

    What a layer draws in an update follows from (the run's key, the number of the layer, the number
    of the update): an update that is repeated under the same key comes out as before. That goes for
    the layers of Keras that draw by `keras.backend.RandomGenerator`, such as Dropout, GaussianNoise
    and RandomFlip, for cells of recurrent layers, and for every `tf.random.Generator`, whoever
    holds it. Outside of the step they draw as they did, from a state that the step does not touch:
    it is saved with the weights. What is drawn by other operations, such as `tf.random.normal`,
    follows from seeds that are drawn for each trace, and for each eager step, and from counters
    inside of TensorFlow: it is not repeated; nor is what is drawn in a loop over time steps for
    sure.

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
        # Plain objects: no checkpoint may hold them.
        self._generators = []
        self._keys = []
        self._others = []  # generators that no layer holds, in the order in which they were met
        self._seeds = set()
        self._contexts = 0

    def make_variables(self):
        """Makes the variables of the layers that the model has by now.

        Made within the first trace of the training step, they would have it traced a second time.
        """
        self._make(len(self._sources()) + len(self._held()))

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
    def of_update(self, update, by_xla=False):
        """Context in which all that is random draws what belongs to an update.

        Args:
            update: Scalar int64, the number of the update.
            by_xla: Whether the step is compiled with jit_compile=True.

        Raises:
            ValueError: in a graph, at the end, for random numbers from elsewhere.
        """
        sources, held = self._sources(), self._held()
        known = [*held, *self._others]
        self._make(len(sources) + len(known))
        counter = tf.stack([tf.zeros_like(update), update])
        for number in range(len(sources) + len(known)):
            self._reset(number, counter)
        first = len(sources)
        stand_ins = {id(x): self._generators[first + i] for i, x in enumerate(known)}
        stand_ins.update((id(own), own) for own in self._generators)
        outside = current_graph()

        def stand_in(generator):
            if id(generator) not in stand_ins:
                number = first + len(known)
                known.append(generator)
                self._others.append(generator)
                self._make(number + 1)
                # Not in a loop or a function inside, which would draw the same again and again.
                with tf.init_scope() if eagerly else outside.as_default():
                    self._reset(number, counter)
                own = self._generators[number]
                stand_ins.update({id(generator): own, id(own): own})
            return _checked(stand_ins[id(generator)], generator)

        eagerly, count = tf.executing_eagerly(), operation_count()
        with (
            drawing_from(sources, self._generators[:first]),
            generators_from(stand_in),
            seeds_from(self._new_seeds()),
        ):
            yield
        if not eagerly:
            states = [generator.state.handle for generator in self._generators]
            check_draws(outside.get_operations()[count:], self._seeds, states, by_xla)

    def _new_seeds(self):
        """Function from the seed of an operation to two secret ones, of 62 bits each.

        Otherwise the numbers would follow from a global seed or one of a layer, which may be known:
        settings are public. Anew for each trace: a resumed run begins to count at zero. What has
        the same seed draws the same, as an image and its mask may have to.
        """
        self._contexts += 1
        secret = secrets.token_bytes(32)
        if self._insecure_seed is not None:
            secret = f"{self._insecure_seed} {self._contexts}".encode()
        unnamed = itertools.count()

        def seeds(op_seed):
            name = f"number {next(unnamed)}" if op_seed is None else f"seed {op_seed}"
            words = hashlib.shake_256(b"operations" + secret + name.encode()).digest(2 * _WORD)
            found = tuple(int(x) for x in np.frombuffer(words, np.uint64) >> np.uint64(2))
            if not tf.executing_eagerly():  # nothing checks eager steps
                self._seeds.add(found)
            return found

        return seeds

    def _reset(self, number, counter):
        # The lower word counts what is drawn within the update.
        self._generators[number].reset_from_key_counter(self._keys[number], counter)

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

    def _make(self, count):
        """Makes variables for so many generators and their keys, unless there are enough."""
        words = hashlib.shake_256(b"random layers" + self._secret).digest(_WORD * count)
        keys = np.frombuffer(words, np.int64)
        with tf.init_scope():
            for number in range(len(self._generators), count):
                state = np.zeros(3, np.int64)
                self._generators.append(tf.random.Generator.from_state(state, "philox"))
                # A variable, not a constant, so that the key is no part of any traced graph.
                key = tf.Variable(keys[number], trainable=False, name="layer_key")
                self._keys.append(key)


def _checked(stand_in, generator):
    if not is_philox(generator):
        raise refusal(
            "every tf.random.Generator of the model and its augmentations",
            "to work by Philox",
            int(generator.algorithm),
            'Make it with alg="philox", TensorFlow\'s default.',
        )
    return stand_in
