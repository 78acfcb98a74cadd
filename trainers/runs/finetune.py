"""Imported models that are trained further: what is frozen of them, and what is trained."""

import itertools
import os
import pathlib
from typing import NamedTuple

import numpy as np
from tensorflow import keras

from tfdpnorm.convert import FeatureExtractor, Pixels, convert_model, load_model
from tfdpnorm.convert.backbone import (
    check_last,
    checked_trainable,
    classifier_of,
    freeze,
    frozen_part,
    head_layers,
    trunk_of,
    whole_model,
)
from tfdpnorm.convert.features import model_digest
from tfdpnorm.data import (
    SyntheticRows,
    check_public_batch,
    match_images,
    take_public_batch,
)
from tfdpnorm.data.synthetic import is_synthetic
from tfdpnorm.keras_compat.devices_and_precision import made_under
from tfdpnorm.keras_compat.models import weight_owners
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.metadata import origins_of
from trainers.data.images import load_labelled
from trainers.runs import fixed_features
from trainers.runs.pretraining import said_of_kept

MODELS_DIR = "TFDPNORM_MODELS_DIR"  # environment variable: folder of models to import


def prepared(spec, raw, *, data_dir=None, cache_dir, echo=print):
    """Returns images as inputs of the trained part: the frozen part's outputs, if there is one.

    `raw` has images or None by names of arrays (train_x, test_x, public_x, validation_x). Outputs
    of the frozen part are kept in `cache_dir`; those of private images are as private as these.
    Returns such a dict and a dict of further fields of `ExperimentData`.
    """
    part = imported_parts(spec)
    # Before hours of features are computed.
    check_images(part.frozen or part.trained, raw["train_x"], spec.image_size)
    more = {"pretrained": said_of(spec, part, raw["train_x"].shape[1:]), "foreign": part.foreign}
    if part.frozen is None:
        return raw, more
    made = FeatureExtractor(
        part.frozen,
        pixels=pixels_of(spec, part.frozen),
        folder=cache_dir,
        views=spec.finetuning.feature_views,
        echo=echo,
    )
    more["foreign"] = (*part.foreign, caveat("given_features"))
    kept = [made.files(x) for name, x in raw.items() if name != "public_x" and x is not None]
    echo(said_of_kept(itertools.chain(*kept)))
    arrays = {name: None if x is None else made(x) for name, x in raw.items()}
    if part.trained is None and spec.finetuning.feature_scaling == "public":
        public = made(public_images(spec, raw["train_x"], spec.public_batch_size, data_dir))
        mean = public.mean(axis=0)  # of each feature; the variance is that of all around these
        variance = np.full_like(mean, np.mean(np.square(public - mean)))
        more["model_options"] = {"constants": (mean.tolist(), variance.tolist())}
    return arrays, more


def said_of(spec, part, image_shape):
    """Returns in words what an imported model is, and what is trained of it."""
    if part.trained is None:
        return f"{part.said}, frozen; its features"
    said = f"{part.said}, trained further: {spec.finetuning.trainable}"
    if part.frozen is None:
        return said
    return f"{said}, from its frozen outputs {list(rows_shape(spec, part, image_shape))}"


def rows_shape(spec, part, image_shape):
    """Returns the shape of a row that what is trained takes: an image, or frozen outputs of one."""
    if part.frozen is None:
        return tuple(image_shape)
    height, width = image_shape[:2] if spec.image_size is None else 2 * (spec.image_size,)
    images = (None, height, width, part.frozen.input_shape[-1])
    return tuple(part.frozen.compute_output_shape(images)[1:])


def public_images(spec, private_x, count, data_dir=None):
    """Returns images that may be looked at without noise, shaped as the private ones.

    None of them may be among `private_x`, [N, height, width, channels].
    """
    name, seed, shape = spec.public_dataset, spec.seed, private_x.shape[1:]
    if is_synthetic(name):
        return SyntheticRows.named(name, count=count, seed=seed).rows(shape)
    public = load_labelled(name, "train", data_dir, image_size=spec.image_size)
    rows = match_images(take_public_batch(public, count, seed=seed), shape)
    check_public_batch(rows, private_x)
    return rows


def check_images(model, images, image_size):
    """Raises ValueError for other data than images, and for another size than the model takes.

    `image_size` is what they are brought to; None for their own.
    """
    if images.dtype == object or images.ndim != 4:
        raise ValueError("An imported model trains on images, not on texts.")
    if len(model.input_shape) != 4:
        raise ValueError(
            "Expected a model of images [height, width, channels], got one that takes "
            f"{list(model.input_shape[1:])}."
        )
    size = images.shape[1:3] if image_size is None else (image_size, image_size)
    wanted = model.input_shape[1:3]
    if any(n not in (None, given) for n, given in zip(wanted, size, strict=True)):
        same = f"Set image_size={wanted[0]}." if len(set(wanted)) == 1 else "Resize them first."
        raise ValueError(
            f"Expected images of {wanted[0]} by {wanted[1]} pixels, as the model takes, got "
            f"{size[0]} by {size[1]}. {same}"
        )


def build_finetuned(spec, data, **statistics):
    """Builds what a `PrivateSpec` trains: all of the converted model, or what is not frozen of it.

    `statistics` are for public-batch normalisation.
    """
    keras.utils.set_random_seed(spec.seed)
    with made_under(spec.precision):
        return _finetuned(spec, data, statistics)


def _finetuned(spec, data, statistics):
    part = imported_parts(spec)
    layers = head_layers(data.num_classes, spec.norm, part.features, **statistics)
    rows = data.train_x.shape[1:]
    if part.trained is not None:
        if part.frozen is None:
            whole = whole_model(part.trained, layers, pixels_of(spec, part.trained), rows)
        else:
            inputs = keras.Input(rows, name="frozen_outputs")
            x = part.trained(inputs)
            for layer in layers:
                x = layer(x)
            whole = keras.Model(inputs, x, name=f"{part.trained.name}_finetuned")
        _begin_with(part.classifier, layers[-1])
        return convert_model(whole, spec.finetuning.batch_norm, normalization_is_public=True).model
    if "constants" in data.model_options:
        mean, variance = data.model_options["constants"]
        layers.insert(0, keras.layers.Normalization(mean=mean, variance=variance, name="centred"))
    head = keras.Sequential([keras.Input(rows, name="features"), *layers], name="head")
    _begin_with(part.classifier, layers[-1])
    if spec.finetuning.trainable != "head":
        freeze(head, spec.finetuning.trainable)
    return head


def _begin_with(classifier, logits):
    """Gives the new last layer the weights of the imported one, if that is asked for."""
    if classifier is None:
        return
    classes, features = classifier.units, classifier.kernel.shape[0]
    if (features, classes) != tuple(logits.kernel.shape):
        raise ValueError(
            f"Expected the imported classifier to have {logits.units} classes, got {classes}. "
            "Begin with a new one: --head=new."
        )
    logits.kernel.assign(classifier.kernel)
    if classifier.use_bias:
        logits.bias.assign(classifier.bias)


def deployed_model(spec, private, image_shape):
    """Returns the model from images in [0, 1] to logits that a finished run has made."""
    trained = private.servable()
    part = imported_parts(spec)
    if part.frozen is None:
        return trained
    layers = [x for x in trained.layers if not isinstance(x, keras.layers.InputLayer)]
    part.frozen.trainable = False
    pixels = pixels_of(spec, part.frozen)
    return whole_model(
        part.frozen, layers, pixels, image_shape, views=spec.finetuning.feature_views
    )


class ImportedParts(NamedTuple):
    """An imported model, in two parts."""

    frozen: keras.Model | None  # whose outputs are computed once for each image
    trained: keras.Model | None  # further, from images or from what is frozen; None if all is
    features: int  # F, their number
    classifier: keras.layers.Dense | None  # that the new last layer begins with; None for zeros
    said: str  # name and digest of the whole, in words
    foreign: tuple  # of `Caveat`: what an earlier private run has spent on these weights


def imported_parts(spec):
    """Returns the `ImportedParts` of a `PrivateSpec`; layers are frozen as it says.

    The file may be in the folder of models, too.
    """
    model = load_model(model_file(spec.model))
    trunk = trunk_of(model)
    classifier = classifier_of(model) if spec.finetuning.head == "imported" else None
    if spec.finetuning.head == "imported" and classifier is None:
        raise ValueError(
            f"Expected a model that ends with a dense layer with head=imported, got one that ends "
            f"with {type(model.layers[-1]).__name__}. Begin with a new one: --head=new."
        )
    about = dict(
        features=trunk.output_shape[-1],
        classifier=classifier,
        said=f"imported, {trunk.name} {model_digest(trunk)}",
        foreign=origins_of((trunk if classifier is None else model).get_weights()),
    )
    if spec.finetuning.trainable == "all":
        freeze(trunk, "all")
        return ImportedParts(None, trunk, **about)
    trained = 0
    if spec.finetuning.trainable != "head":
        in_head = len(head_layers(2, spec.norm, about["features"]))  # each has weights
        asked = checked_trainable(spec.finetuning.trainable)
        check_last(asked, in_head + len(weight_owners(trunk)))
        trained = max(0, asked - in_head)
    frozen, rest = frozen_part(trunk, trained)
    if rest is not None and (spec.augmentation_multiplicity > 1 or spec.views == "random"):
        frozen, rest = None, trunk  # Views are of images.
    return ImportedParts(frozen, rest, **about)


def model_file(path):
    """Returns the path of a model, by name in the folder of models or among `fixed_features`."""
    folder = os.environ.get(MODELS_DIR)
    if path in fixed_features.NETWORKS:
        return fixed_features.file_of(path, folder or fixed_features.FOLDER)
    if folder and not pathlib.Path(path).exists():
        return pathlib.Path(folder) / path
    if not pathlib.Path(path).exists():
        raise FileNotFoundError(
            f"File not found: {path}. Name its path, or set the environment variable {MODELS_DIR} "
            "to the folder that has it."
        )
    return pathlib.Path(path)


def pixels_of(spec, trunk):
    """Returns the `Pixels` of a `PrivateSpec` for the model that computes features."""
    channels = trunk.input_shape[-1]
    return Pixels(
        spec.image_size, spec.finetuning.pixel_mean, spec.finetuning.pixel_scale, channels
    )
