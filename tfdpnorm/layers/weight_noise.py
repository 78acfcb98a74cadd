"""Layers whose weights are drawn from a normal distribution at every call."""

from __future__ import annotations

import contextlib
import random
import threading
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.arguments import real, refusal
from tfdpnorm.dtypes import at_least_float32
from tfdpnorm.keras_compat.devices_and_precision import as_stored
from tfdpnorm.keras_compat.exchange import (
    cloned,
    copy_state,
    fresh_copy,
    models_within,
    replaced,
    set_trainable_alone,
)
from tfdpnorm.keras_compat.layers import (
    BATCH_NORMALIZATIONS,
    OutputsOfTheLayerInside,
    build_by_a_call,
    call_like,
    clear_losses,
    positional_names,
    set_initial_weights,
)
from tfdpnorm.keras_compat.models import is_made_of_layers, sublayers
from tfdpnorm.keras_compat.variables import await_values, raw
from tfdpnorm.layers.batch_normalization import NoisedBatchNormalization
from tfdpnorm.layers.own_generator import checked_seed, new_generator, normal_numbers
from tfdpnorm.layers.public_batch_normalization import PublicMomentsLayer
from tfdpnorm.layers.scale_norm import ScaleNorm

if TYPE_CHECKING:
    from typing import Any


NORMALIZATIONS = (
    *BATCH_NORMALIZATIONS,
    keras.layers.GroupNormalization,
    keras.layers.LayerNormalization,
    keras.layers.UnitNormalization,
    NoisedBatchNormalization,
    PublicMomentsLayer,
    ScaleNorm,
)

# During a call the layer's attributes hold that call's draws, so only one thread may be in it. One
# lock for all: two wrappers may hold one layer, and a layer that held a lock could not be copied.
_SWAPPING = threading.RLock()


@keras.utils.register_keras_serializable(package="tfdpnorm")
class WeightNoise(OutputsOfTheLayerInside, keras.layers.Wrapper):
    """A layer with weights from N(mu, stddev^2), drawn at every call, in training and testing.

    mu is the variable of the layer and is learnt; stddev is constant and the same for every weight.
    By the reparametrisation w = mu + stddev e, e from N(0, 1), dl/dmu = dl/dw.

    All rows of a batch and all steps of a recurrent layer see the same draw. The layer draws its
    trainable weights, frozen or not, in the order of `layer.weights`. It does not draw gamma and
    beta of normalisation layers inside, nor weights that are not trainable (moving statistics).
    Regularizers and constraints see mu. The wrapper takes the arguments that the layer takes, and
    has the layer's weights in the layer's order.

    Where rows run one by one, as in `tf.vectorized_map` and so in `tfdpnorm.gradients.per_example`,
    each row is a call and sees a draw of its own.

    Privacy:
        The noise does not depend on the rows, and gives no guarantee by itself.

    Args:
        layer: A Keras layer with weights.
        stddev: Standard deviation of every weight, >= 0. With 0 the wrapper is the plain layer and
            nothing is drawn.
        seed: Int from 0 to 2^63 - 1 that makes the draws of a newly built wrapper repeatable. Give
            each layer its own: of two layers with one seed the noise is the same. None takes a seed
            from Python's `random`, which `keras.utils.set_random_seed` makes repeatable.
        **kwargs: Arguments of `keras.layers.Layer`. dtype is the layer's own if not given.

    Call arguments:
        As the layer's.

    Raises:
        ValueError: for a layer that normalises, has no weights to draw or is a `WeightNoise` (or
            holds one), and for weights that the layer does not read from its attributes, the only
            place where they can be replaced.

    Reference:
        Davody, Adelani, Kleinbauer, Klakow (2020), "On the effect of normalization layers on
        differentially private training of deep neural networks", Section 2; the reparametrisation
        of Kingma and Welling (2014).
    """

    def __init__(
        self, layer: keras.layers.Layer, stddev: float, seed: int | None = None, **kwargs: Any
    ) -> None:
        if not isinstance(layer, keras.layers.Layer):
            raise ValueError(
                f"Expected a Keras layer, got {layer!r}. Pass an instance, not a class."
            )
        if any(isinstance(x, WeightNoise) for x in [layer, *sublayers(layer)]):
            raise ValueError(
                f"{type(layer).__name__} {layer.name!r} draws its weights already. Variances add: "
                "use one WeightNoise whose stddev is the root of their sum."
            )
        if isinstance(layer, (*NORMALIZATIONS, keras.layers.SpectralNormalization)):
            raise ValueError(
                f"WeightNoise does not draw the gamma and beta of a {type(layer).__name__}. Use "
                f"{layer.name!r} without WeightNoise."
            )
        kwargs.setdefault("dtype", layer.dtype_policy)
        super().__init__(layer, **kwargs)
        self._stddev = _checked_stddev(stddev)
        self.seed = checked_seed(seed)
        self._first_call = True
        self.supports_masking = layer.supports_masking
        call_like(self, layer)

    @property
    def stddev(self) -> float:
        return self._stddev

    def build(self, input_shape: Any = None) -> None:
        if isinstance(input_shape, list) and not any(hasattr(x, "__len__") for x in input_shape):
            # As a model file gives it; a recurrent layer takes a list for one of several shapes.
            input_shape = tuple(input_shape)
        super().build(input_shape)
        set_initial_weights(self.layer)
        if self.stddev:
            self._generator = new_generator(self.seed)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # By keyword: the order may differ between `__call__` and `call`.
        names = positional_names(self.layer)
        if not args and names and names[0] in kwargs:
            args = (kwargs.pop(names[0]),)
        if 1 < len(args) <= len(names):
            given = dict(zip(names[1:], args[1:], strict=False))
            twice = sorted(set(given) & set(kwargs))
            if twice:
                raise TypeError(
                    f"Layer {self.layer.name!r} was given {twice} both by position and by keyword. "
                    "Leave one of them out."
                )
            args, kwargs = args[:1], {**given, **kwargs}
        return super().__call__(*args, **kwargs)

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.stddev:
            outputs = self.layer(inputs, *args, **kwargs)
            self._check_weights()
            return outputs
        if self._first_call:
            # Some layers, as MultiHeadAttention, make weights only at their first call.
            layers = [self.layer, *sublayers(self.layer)]
            if not self.layer.weights or not all(layer.built for layer in layers):
                # Traced, but never run: no moving average moves, nothing random is consumed.
                build_by_a_call(self.layer, inputs, *args, **kwargs)
                clear_losses(self.layer)
            self._check_weights()
            if await_values(self.layer.weights):
                return self.layer(inputs, *args, **kwargs)
        with self._drawn():
            return self.layer(inputs, *args, **kwargs)

    def _check_weights(self):
        if not _drawn_weights(self.layer):
            raise ValueError(
                f"{type(self.layer).__name__} {self.layer.name!r} has no weights to draw. Use the "
                "layer without WeightNoise."
            )

    @contextlib.contextmanager
    def _drawn(self):
        """Context in which the layer's attributes hold a new draw of its weights."""
        variables = _drawn_weights(self.layer)
        draws = {id(v): self._draw(v) for v in variables}
        # The first call checks for reads of a variable itself; the tape costs memory.
        watch = tf.GradientTape() if self._first_call else contextlib.nullcontext()
        with _SWAPPING, replaced(self.layer, variables, draws), watch as tape:
            yield
        if tape is not None:
            read = {id(v.handle) for v in tape.watched_variables()}
            means = [v for v in variables if id(raw(v).handle) in read]
            self._refuse(means, "a read of the mean of")
        self._first_call = False
        known = {id(v) for v in variables}
        late = [v for v in _drawn_weights(self.layer) if id(v) not in known]
        self._refuse(late, "a call that made")

    def _draw(self, variable):
        # Under a mixed policy Keras hands out the variable cast; the mean is what it holds.
        mean = tf.convert_to_tensor(as_stored(variable))
        if not mean.dtype.is_floating:
            raise ValueError(
                f"Expected floating-point weights, got {raw(variable).name!r} of dtype "
                f"{mean.dtype.name}. Make it not trainable, or leave the layer out of WeightNoise."
            )
        noise = normal_numbers(self._generator, mean.shape, at_least_float32(mean.dtype))
        return mean + tf.cast(self.stddev * noise, mean.dtype)

    def _refuse(self, variables, what):
        if variables:
            raise ValueError(
                f"Expected layer {self.layer.name!r} to read its weights from its attributes, got "
                f"{what} {[v.name for v in raw(variables)]}. Make the weights in build() and read "
                "them as self.kernel or the like."
            )

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return self.layer.compute_mask(inputs, mask)

    def reset_states(self, *args: Any, **kwargs: Any) -> Any:
        """Of a stateful recurrent layer."""
        self.layer.reset_states(*args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "stddev": self.stddev, "seed": self.seed}

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> WeightNoise:
        # Not Wrapper's, which does not find registered classes of others.
        config = dict(config)
        layer = keras.layers.deserialize(config.pop("layer"), custom_objects=custom_objects)
        return cls(layer, **config)


def _drawn_weights(layer):
    """Returns the variables of `layer` that `WeightNoise` draws: trainable, frozen or not."""
    kept = {
        id(w) for sub in sublayers(layer) if isinstance(sub, NORMALIZATIONS) for w in sub.weights
    }
    # A variable of TensorFlow stays trainable in a frozen layer.
    return [w for w in layer.weights if raw(w).trainable and id(w) not in kept]


def _checked_stddev(stddev):
    """Returns `stddev` as a float; rejects what float32, in which noise is drawn, does not hold."""
    expected, remedy = "to be a finite float32 number >= 0", "Pass 0.0 for none."
    number = real("stddev", stddev, expected, remedy)
    with np.errstate(over="ignore"):
        if number < 0 or not np.isfinite(np.float32(number)):
            raise refusal("stddev", expected, stddev, remedy)
    return number


def with_weight_noise(model: keras.Model, stddev: float, seed: int | None = None) -> keras.Model:
    """Returns a copy of a model in which every layer that has trainable weights draws them.

    Each such layer, frozen or not, also in nested models, is wrapped in a `WeightNoise` of the same
    name, so that `get_layer(name)` finds the wrapper. A layer that is called twice in one pass
    draws twice. Normalisation layers stay as they are: gamma and beta are learnt, not drawn.
    (Davody et al. draw the weights of a network and normalise after each trainable layer; we read
    "weights" as those of the layers that normalisation follows.)

    Args:
        model: A functional or sequential Keras model, built. The copy has its weights, but is not
            compiled.
        stddev: Standard deviation of each drawn weight; 0 returns the model itself.
        seed: None, or an int as in `WeightNoise`, from which each layer gets one of its own.

    Returns:
        A Keras model.

    Raises:
        ValueError: for subclassed models, models that are not built, that have `WeightNoise`
            already, or in which layers share weights, and as `WeightNoise` does.

    Reference:
        Davody et al. (2020), Section 2.
    """
    stddev, seed = _checked_stddev(stddev), checked_seed(seed)
    if not stddev:
        return model
    for part in models_within(model):
        if not isinstance(part, keras.Model) or not is_made_of_layers(part):
            raise ValueError(
                f"Expected a functional or sequential model, got {type(part).__name__} "
                f"{getattr(part, 'name', '')!r}. In another kind of model, wrap the layers in "
                "WeightNoise where they are created."
            )
        if not part.built:
            raise ValueError(
                f"Model {part.name!r} has no weights yet. Call model.build(input_shape) first."
            )
    seeds = None if seed is None else random.Random(seed)

    def wrapped(layer):
        if isinstance(layer, NORMALIZATIONS) or not _drawn_weights(layer):
            return None
        own_seed = None if seeds is None else seeds.getrandbits(63)
        return WeightNoise(fresh_copy(layer), stddev, own_seed, name=layer.name)

    noisy, exchanged = cloned(model, wrapped)
    if len(noisy.weights) != len(model.weights):
        raise ValueError(
            f"Layers of model {model.name!r} share weights, which a copy would not. Wrap the "
            "layers by hand."
        )
    for layer, wrapper in exchanged:
        copy_state(layer, wrapper.layer)
        set_trainable_alone(wrapper, layer.trainable)
    return noisy
