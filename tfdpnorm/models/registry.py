"""The registry of network families, and what all families of this library share."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from tensorflow import keras

from tfdpnorm.arguments import choice, refusal
from tfdpnorm.layers import with_weight_noise
from tfdpnorm.models.normalization import Normalizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


PARTS = ("whole", "features", "head")

_BUILDERS = {}


def register(name: str) -> Callable[[Callable], Callable]:
    """Decorator that registers a function `(norm, num_classes, input_shape=..., ...) -> Model`.

    Args:
        name: Name for `build`.

    Returns:
        A decorator that returns the function unchanged.
    """

    def add(builder):
        if name in _BUILDERS:
            raise ValueError(f"A model named {name!r} is registered already. Choose another name.")
        _BUILDERS[name] = builder
        return builder

    return add


def family(
    name, input_shape, *, dtype=None, smallest=None, last_hidden=None, groups=32, called=None
):
    """Decorator that registers a network by the function that makes its layers.

    That is a function `(x, normalize, num_classes, ...) -> logits`, with x [rows, *input_shape] and
    normalize a `Normalizer`. Its further arguments are options of the model. One that is called
    `part` is one of `PARTS`: "features" gives float32 [rows, units] instead, "head" takes that. A
    layer has the same name in the whole network as in its part, so that weights can be copied layer
    by layer; then head(features(x)) is whole(x).

    Args:
        input_shape, groups: Defaults of these options.
        dtype: Of the inputs; None for floats.
        smallest: Of an image: the least height and width.
        last_hidden: Name of the last trainable layer before the logits, or a function from the
            options to it. None: the model does not have the option `norm_placement`.
        called: Function from the options to the name of the model; None for `name`.
    """

    def add(layers):
        parameters = list(inspect.signature(layers).parameters.values())[3:]
        own = {parameter.name: parameter.default for parameter in parameters}
        shared = {"groups": groups, "statistics": "public", "statistics_gradient": "full"}
        if last_hidden is not None:
            shared["norm_placement"] = "hidden"
        if len(input_shape) == 3:
            shared["standardized_by"] = None

        def builder(norm, num_classes, input_shape=input_shape, **options):
            given = own | {key: value for key, value in options.items() if key in own}
            settings = shared | {key: value for key, value in options.items() if key in shared}
            last = last_hidden(**given) if callable(last_hidden) else last_hidden
            placement = settings.pop("norm_placement", "hidden")
            constants = settings.pop("standardized_by", None)
            normalize = Normalizer(norm, placement, last_hidden=last, **settings)
            title, part = (called(**given) if called else name), given.get("part", "whole")
            choice("part", part, PARTS)
            if part == "head":
                if len(input_shape) != 1 or input_shape[0] is None:
                    raise ValueError(
                        'Expected input_shape=(units,) with part="head", got '
                        f"{tuple(input_shape)}. Give it the output_shape[1:] of the model with "
                        'part="features".'
                    )
            elif smallest is not None:
                check_image_shape(input_shape, smallest)
            inputs = keras.Input(input_shape, dtype=dtype)
            x = inputs if part == "head" else standardized(inputs, constants)
            outputs = layers(x, normalize, num_classes, **given)
            if part == "features":
                # Stored and passed on as float32, whatever the policy computes in.
                outputs = keras.layers.Activation("linear", dtype="float32", name=part)(outputs)
            ending = "" if part == "whole" else f"_{part}"
            return keras.Model(inputs, outputs, name=f"{title}_{norm}{ending}")

        keyword, needed = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
        taken = {"norm": needed, "num_classes": needed, "input_shape": input_shape, **own, **shared}
        builder.__signature__ = inspect.Signature(
            [inspect.Parameter(n, keyword, default=default) for n, default in taken.items()]
        )
        register(name)(builder)
        return layers

    return add


def check_image_shape(input_shape, smallest):
    """Raises ValueError unless it is (height, width, channels) of `smallest` pixels a side."""
    if len(input_shape) != 3 or any(size is None or size < smallest for size in input_shape[:2]):
        raise ValueError(
            "Expected input_shape=(height, width, channels) with height and width at least "
            f"{smallest}, got {tuple(input_shape)}. Resize smaller images "
            "(tfdpnorm.data.match_images)."
        )


def names() -> list[str]:
    """Lists the registered models.

    Returns:
        Their names, sorted.
    """
    return sorted(_BUILDERS)


def options(name: str) -> dict[str, Any]:
    """Returns the options that a model takes in addition to `norm` and `num_classes`.

    Args:
        name: One of `names()`.

    Returns:
        A dict from their names to their defaults.

    Raises:
        ValueError: for an unknown name.
    """
    parameters = inspect.signature(_BUILDERS[choice("model name", name, names())]).parameters
    return {n: p.default for n, p in parameters.items() if n not in ("norm", "num_classes")}


def build(
    name: str,
    norm: str = "none",
    num_classes: int = 10,
    input_shape: Sequence[int] | None = None,
    *,
    weight_noise_stddev: float = 0.0,
    weight_noise_seed: int | None = None,
    **model_options: Any,
) -> keras.Model:
    """Builds an untrained Keras model.

    Args:
        name: One of `names()`.
        norm: The normalisation of the network, one of `tfdpnorm.models.NORMS`.
        num_classes: Number of outputs (logits).
        input_shape: Shape of one example, without the batch; None for the family's own.
        weight_noise_stddev: Standard deviation of normal noise on the weights, drawn at every call
            in training and testing (Davody et al. 2020, Section 2); 0 for none. See
            `tfdpnorm.layers.with_weight_noise`.
        weight_noise_seed: Int that makes the draws repeatable, or None.
        **model_options: Further options, listed by `options(name)`. Those that families share:

            * `norm_placement`, one of `tfdpnorm.models.PLACEMENTS`: "hidden" normalises after each
              trainable layer but the logits, "all" after the logits too, "mod" after all but the
              last two.
            * `groups`: desired number of groups, see `normalization_layer`.
            * `statistics` and `statistics_gradient`, for norm="public_batch".
            * `scale_norm`: whether `ScaleNorm` follows each residual addition.
            * `part`: "whole"; "features", the network without its head, for which num_classes has
              no meaning; or "head", the rest alone, with input_shape=(features,).
            * `standardized_by`, of images in colour: "cifar100" or "imagenet", by whose published
              channel means and standard deviations pixels in [0, 1] are standardised first.

    Returns:
        A `tf.keras.Model` from [rows, *input_shape] to float32 logits [rows, num_classes].

    Raises:
        ValueError: for an unknown name, norm or option, a shape that the family cannot take, or a
            negative `weight_noise_stddev`.
    """
    known = list(options(name))
    unknown = sorted(set(model_options) - set(known))
    if unknown:
        raise ValueError(f"Expected options of {known} for model {name!r}, got {unknown}.")
    if not isinstance(num_classes, int) or num_classes < 1:
        raise refusal("num_classes", "to be a positive int", num_classes)
    if input_shape is not None:
        model_options["input_shape"] = tuple(input_shape)
    model = _BUILDERS[name](norm=norm, num_classes=num_classes, **model_options)
    return with_weight_noise(model, weight_noise_stddev, weight_noise_seed)


# Mean and standard deviation of red, green and blue, of pixels in [0, 1].
PUBLIC_MOMENTS = {
    "cifar100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}


def standardized(x, dataset):
    """Images [batch, height, width, 3] with pixels in [0, 1], standardised by channel.

    With `dataset` None, they are returned as they are.

    Privacy:
        The constants are those of a public data set, so that no private example is counted in them.
        Klause et al. take those of CIFAR-10 itself.
    """
    if dataset is None:
        return x
    mean, stddev = PUBLIC_MOMENTS[choice("standardized_by", dataset, tuple(PUBLIC_MOMENTS))]
    if x.shape[-1] != len(mean):
        raise refusal(
            "standardized_by", "with images of three channels only", f"{x.shape[-1]} channels"
        )
    variance = [value**2 for value in stddev]
    return keras.layers.Normalization(mean=mean, variance=variance, name="standardized")(x)
