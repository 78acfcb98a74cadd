"""Layers whose weights are drawn from a normal distribution at every call."""

import contextlib
import inspect
import math
import numbers
import random
import threading

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.exchange import replaced
from tfdpnorm.keras_compat.walk import sublayers
from tfdpnorm.layers.noised_batch_normalization import NoisedBatchNormalization
from tfdpnorm.layers.public_moments_layer import PublicMomentsLayer
from tfdpnorm.layers.scale_norm import ScaleNorm

NORMALIZATIONS = (
    keras.layers.BatchNormalization,
    keras.layers.GroupNormalization,
    keras.layers.LayerNormalization,
    keras.layers.UnitNormalization,
    keras.layers.experimental.SyncBatchNormalization,
    NoisedBatchNormalization,
    PublicMomentsLayer,
    ScaleNorm,
)

# For the time of a call a layer's attributes are those of that call, in one thread only. One lock
# for all, since two wrappers may hold one layer, and since layers with a lock cannot be copied.
_SWAPPING = threading.RLock()


@keras.utils.register_keras_serializable(package="tfdpnorm")
class WeightNoise(keras.layers.Wrapper):
    """A layer with weights from N(mu, stddev^2), drawn at every call, in training and testing.

    mu is the variable of the layer and is learnt; stddev is constant and the same for every weight.
    By the reparametrisation w = mu + stddev e, e from N(0, 1), dl/dmu = dl/dw.

    All rows of a batch and all steps of a recurrent layer see the same draw. Drawn are the
    trainable weights, frozen or not, in the order of `layer.weights`; but not gamma and beta of
    normalisation layers inside, nor what is no trainable weight (moving statistics). Regularizers
    and constraints see mu. The wrapper is called as the layer is, and has the layer's weights in
    the layer's order.

    Where rows are run one by one, as `tf.vectorized_map` and with it
    `tfdpnorm.gradients.per_example` do, each row is a call and sees a draw of its own.

    Privacy:
        The noise depends on no row, and gives no guarantee of its own.

    Args:
        layer: A Keras layer with weights.
        stddev: Standard deviation of every weight, >= 0. With 0 the wrapper is the plain layer and
            nothing is drawn.
        seed: Int from 0 to 2^63 - 1 that makes the draws of a newly built wrapper repeatable. Give
            each layer its own: of two layers with one seed the noise is the same. None takes a seed
            from Python's `random`, which `keras.utils.set_random_seed` makes repeatable.
        **kwargs: As in `keras.layers.Layer`. dtype is the layer's own if not given.

    Call arguments:
        As the layer's.

    Raises:
        ValueError: for a layer that normalises, has no weights to draw or is a `WeightNoise` (or
            holds one), and for weights that the layer reads elsewhere than in its attributes, where
            they cannot be replaced.

    Reference:
        Davody, Adelani, Kleinbauer, Klakow (2020), "On the effect of normalization layers on
        differentially private training of deep neural networks", Section 2; the reparametrisation
        of Kingma and Welling (2014).
    """

    def __init__(self, layer, stddev, seed=None, **kwargs):
        _check_layer(layer)
        kwargs.setdefault("dtype", layer.dtype_policy)
        super().__init__(layer, **kwargs)
        self._stddev = _checked_stddev(stddev)
        self.seed = _checked_seed(seed)
        self._first_call = True
        self.supports_masking = layer.supports_masking
        # The layer casts its inputs itself, or does not; and tells which arguments it takes.
        self._autocast = False
        self._call_spec = layer._call_spec

    @property
    def stddev(self):
        return self._stddev

    def build(self, input_shape=None):
        if isinstance(input_shape, list) and not any(hasattr(x, "__len__") for x in input_shape):
            # As a model file gives it; a recurrent layer takes a list for one of several shapes.
            input_shape = tuple(input_shape)
        super().build(input_shape)
        # Keras gives a layer its weights=[...] at the layer's first call only if that builds it.
        initial = getattr(self.layer, "_initial_weights", None)
        if initial is not None:
            with tf.init_scope():
                self.layer.set_weights(initial)
            self.layer._initial_weights = None
        if self.stddev:
            key = random.getrandbits(63) if self.seed is None else self.seed
            with tf.init_scope():
                # Not from_seed, which counts from the seed on: seed 8 would give what seed 7 gives,
                # four numbers later.
                self._generator = tf.random.Generator.from_key_counter(key, [0, 0], "philox")

    def __call__(self, *args, **kwargs):
        # By keyword: some layers order the arguments of __call__ otherwise than those of `call`.
        names = _positional_names(self.layer)
        if 1 < len(args) <= len(names):
            given = dict(zip(names[1:], args[1:], strict=False))
            twice = sorted(set(given) & set(kwargs))
            if twice:
                raise TypeError(
                    f"Expected each argument of layer {self.layer.name!r} once, got {twice} by "
                    "position and by keyword. Leave one of them out."
                )
            args, kwargs = args[:1], {**given, **kwargs}
        return super().__call__(*args, **kwargs)

    def call(self, inputs, *args, **kwargs):
        if not self.stddev:
            outputs = self.layer(inputs, *args, **kwargs)
            self._check_weights()
            return outputs
        if self._first_call:
            self._create_all_weights(inputs, args, kwargs)
            self._check_weights()
        with self._drawn():
            return self.layer(inputs, *args, **kwargs)

    def _create_all_weights(self, inputs, args, kwargs):
        """Sees to the weights that a layer makes at its first call, as MultiHeadAttention does."""
        layers = [self.layer, *sublayers(self.layer)]
        if not self.layer.weights or not all(layer.built for layer in layers):

            def first_call():
                return self.layer(inputs, *args, **kwargs)

            # Traced, but never run: no moving average moves, nothing random is consumed.
            tf.function(first_call).get_concrete_function()
            self.layer._clear_losses()

    def _check_weights(self):
        if not drawn_weights(self.layer):
            raise ValueError(
                f"Expected a layer with weights to draw, got {type(self.layer).__name__} "
                f"{self.layer.name!r}, which has none. Use the layer without WeightNoise."
            )

    @contextlib.contextmanager
    def _drawn(self):
        """Context in which the layer's attributes hold a new draw of its weights."""
        variables = drawn_weights(self.layer)
        draws = {id(v): self._draw(v) for v in variables}
        # Reads of a variable itself are looked for once; the tape would cost memory every time.
        watch = tf.GradientTape() if self._first_call else contextlib.nullcontext()
        with _SWAPPING, replaced(self.layer, variables, draws), watch as tape:
            yield
        if tape is not None:
            read = {id(v.handle) for v in tape.watched_variables()}
            self._refuse([v for v in variables if id(v.handle) in read], "a read of the mean of")
        self._first_call = False
        known = {id(v) for v in variables}
        late = [v for v in drawn_weights(self.layer) if id(v) not in known]
        self._refuse(late, "a call that made")

    def _draw(self, variable):
        # Under a mixed policy Keras hands out the variable cast; the mean is what it holds.
        mean = tf.convert_to_tensor(getattr(variable, "_variable", variable))
        if not mean.dtype.is_floating:
            raise ValueError(
                f"Expected floating-point weights, got {variable.name!r} of dtype "
                f"{mean.dtype.name}. Make it not trainable, or leave the layer out of WeightNoise."
            )
        wide = tf.float64 if mean.dtype == tf.float64 else tf.float32
        noise = self._generator.normal(mean.shape, dtype=wide)
        return mean + tf.cast(self.stddev * noise, mean.dtype)

    def _refuse(self, variables, what):
        if variables:
            raise ValueError(
                f"Expected layer {self.layer.name!r} to read its weights from its attributes, got "
                f"{what} {[v.name for v in variables]}. Make the weights in build() and read them "
                "as self.kernel or the like."
            )

    def compute_mask(self, inputs, mask=None):
        return self.layer.compute_mask(inputs, mask)

    def compute_output_shape(self, *args, **kwargs):
        return self.layer.compute_output_shape(*args, **kwargs)

    def reset_states(self, *args, **kwargs):
        """Of a stateful recurrent layer."""
        self.layer.reset_states(*args, **kwargs)

    def get_config(self):
        return {**super().get_config(), "stddev": self.stddev, "seed": self.seed}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        # Not Wrapper's, which does not find registered classes of others.
        config = dict(config)
        layer = keras.layers.deserialize(config.pop("layer"), custom_objects=custom_objects)
        return cls(layer, **config)


def with_weight_noise(model, stddev, seed=None):
    """Returns a copy of a model in which every layer that has trainable weights draws them.

    Such layers are wrapped in `WeightNoise` of the same name, so that `get_layer(name)` finds the
    wrapper; frozen ones too, and those of nested models. A layer that is called twice in one pass
    draws twice. Normalisation layers are left as they are: gamma and beta are learnt, not drawn.
    (Davody et al. draw the weights of a network and normalise after each trainable layer; we read
    "weights" as those of the layers that normalisation follows.)

    Args:
        model: A functional or sequential Keras model, built. Its weights are copied; whether it
            was compiled, and how, is not.
        stddev: As in `WeightNoise`; with 0 the model itself is returned.
        seed: None, or an int as in `WeightNoise`, from which each layer gets one of its own.

    Raises:
        ValueError: for subclassed models, models that are not built, that have `WeightNoise`
            already, or in which layers share weights, and as `WeightNoise` does.

    Reference:
        Davody et al. (2020), Section 2.
    """
    stddev, seed = _checked_stddev(stddev), _checked_seed(seed)
    if not stddev:
        return model
    _check_model(model)
    noisy = _wrapped_copy(model, stddev, None if seed is None else random.Random(seed))
    if len(noisy.weights) != len(model.weights):
        raise ValueError(
            f"Expected layers with weights of their own in model {model.name!r}, got layers that "
            "share some, which a copy would not. Wrap the layers by hand."
        )
    # A frozen part of a layer is not in its config, and weights come in another order with it.
    layers = [x for x in noisy._flatten_layers() if not isinstance(x, WeightNoise)]
    for own, copied in zip(model._flatten_layers(), layers, strict=True):
        copied.trainable = own.trainable
    for wrapper in (x for x in sublayers(noisy) if isinstance(x, WeightNoise)):
        wrapper._trainable = wrapper.layer.trainable
    noisy.set_weights(model.get_weights())
    return noisy


def drawn_weights(layer):
    """Returns the variables of `layer` that `WeightNoise` draws: trainable, frozen or not."""
    kept = {
        id(w) for sub in sublayers(layer) if isinstance(sub, NORMALIZATIONS) for w in sub.weights
    }
    # Keras 2 freezes layers, not variables: a variable stays trainable in a frozen layer.
    return [w for w in layer.weights if w.trainable and id(w) not in kept]


def _wrapped_copy(model, stddev, seeds):
    def copy(layer):
        if isinstance(layer, keras.Model):
            _check_model(layer)
            return _wrapped_copy(layer, stddev, seeds)
        again = layer.__class__.from_config(layer.get_config())
        if isinstance(layer, NORMALIZATIONS) or not drawn_weights(layer):
            return again
        own = None if seeds is None else seeds.getrandbits(63)
        return WeightNoise(again, stddev, own, name=layer.name)

    return keras.models.clone_model(model, clone_function=copy)


def _check_model(model):
    graph = isinstance(model, keras.Sequential) or getattr(model, "_is_graph_network", False)
    if not isinstance(model, keras.Model) or not graph:
        raise ValueError(
            "Expected a functional or sequential model, got "
            f"{type(model).__name__} {getattr(model, 'name', '')!r}. Wrap the layers of another "
            "kind of model in WeightNoise where it makes them."
        )
    if not model.built:
        raise ValueError(
            f"Expected a built model, got {model.name!r}, whose weights are not made yet. Call "
            "model.build(input_shape) before."
        )


def _check_layer(layer):
    if not isinstance(layer, keras.layers.Layer):
        raise ValueError(f"Expected a Keras layer, got {layer!r}. Pass an instance, not a class.")
    if any(isinstance(x, WeightNoise) for x in [layer, *sublayers(layer)]):
        raise ValueError(
            f"Expected a layer without WeightNoise, got {type(layer).__name__} {layer.name!r}, "
            "which draws its weights already. Variances add: give one WeightNoise the root of "
            "their sum."
        )
    if isinstance(layer, (*NORMALIZATIONS, keras.layers.SpectralNormalization)):
        raise ValueError(
            f"Expected a layer that does not normalise, got {type(layer).__name__} "
            f"{layer.name!r}. Use it without WeightNoise: gamma and beta are not drawn."
        )


def _checked_stddev(stddev):
    if isinstance(stddev, numbers.Real) and not isinstance(stddev, bool):
        # inf where float32, in which noise is drawn, does not hold it.
        with np.errstate(over="ignore"), contextlib.suppress(OverflowError):
            if stddev >= 0 and math.isfinite(np.float32(float(stddev))):
                return float(stddev)
    raise ValueError(
        f"Expected stddev to be a finite float32 number >= 0, got {stddev!r}. Pass 0.0 for none."
    )


def _checked_seed(seed):
    if seed is None:
        return None
    if isinstance(seed, numbers.Integral) and not isinstance(seed, bool) and 0 <= seed < 2**63:
        return int(seed)
    raise ValueError(f"Expected seed to be None or an int from 0 to 2**63 - 1, got {seed!r}.")


def _positional_names(layer):
    """The names of a layer's call arguments in the order in which `layer(...)` takes them."""
    for method in (layer.__call__, layer.call):
        kinds = [(p.name, p.kind) for p in inspect.signature(method).parameters.values()]
        if inspect.Parameter.VAR_POSITIONAL not in dict(kinds).values():
            return [name for name, kind in kinds if kind == inspect.Parameter.POSITIONAL_OR_KEYWORD]
    return []
