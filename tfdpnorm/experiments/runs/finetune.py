"""Runs that train an imported model further."""

import functools
import os
import pathlib

import numpy as np
from tensorflow import keras

from tfdpnorm.convert import Pixels, convert_model, image_features, load_model
from tfdpnorm.convert.features import model_digest
from tfdpnorm.convert.head import head_layers, trunk_of, whole_model
from tfdpnorm.data import match_images, take_public_batch
from tfdpnorm.data.images import load_labelled
from tfdpnorm.experiments.parts import CACHE_DIR
from tfdpnorm.experiments.runs.data import load_experiment_data
from tfdpnorm.experiments.runs.private import PrivateRun
from tfdpnorm.experiments.spec import FinetuneSpec
from tfdpnorm.keras_compat.precision import made_under

MODELS_DIR = "TFDPNORM_MODELS_DIR"  # environment variable: folder of models to import


def load_finetune_data(spec, data_dir=None, *, cache_dir=CACHE_DIR, echo=print):
    """Loads what a `FinetuneSpec` asks for: images, or the features of a frozen trunk.

    Args:
        spec: `FinetuneSpec`.
        data_dir: TFDS directory.
        cache_dir: Folder for features; those of private images are as private as the images.
        echo: Function that shows a line.

    Returns:
        `ExperimentData`.

    Raises:
        ValueError: for a model or a data set that is none.
        FileNotFoundError: if the file of the model is not there.
        DatasetNotFoundError: if a known set is not there.
    """
    trunk = imported_trunk(spec.model)
    where = f"imported, {trunk.name} {model_digest(trunk)}"
    source = functools.partial(load_labelled, image_size=spec.image_size)

    def prepare(raw):
        if spec.trainable != "head":
            return raw, {"pretrained": f"{where}, trained further: {spec.trainable}"}
        made = functools.partial(
            image_features,
            trunk,
            pixels=pixels_of(spec, trunk),
            folder=cache_dir,
            views=spec.feature_views,
            echo=echo,
        )
        arrays = {name: None if x is None else made(x) for name, x in raw.items()}
        more = {"pretrained": f"{where}, frozen; its features"}
        if spec.feature_scaling == "public":
            public = take_public_batch(
                load_labelled(spec.public_dataset, "train", data_dir, image_size=spec.image_size),
                spec.public_batch_size,
                seed=spec.seed,
            )
            shape = raw["train_x"].shape[1:]
            more["model_options"] = {"constants": _constants(made(match_images(public, shape)))}
        return arrays, more

    return load_experiment_data(
        spec, data_dir, cache_dir=cache_dir, echo=echo, source=source, prepare=prepare
    )


def build_finetuned(spec, data, **statistics):
    """Builds what a `FinetuneSpec` trains: a head on features, or the whole converted model.

    Args:
        spec: `FinetuneSpec`.
        data: `ExperimentData`.
        **statistics: For public-batch normalisation.
    """
    keras.utils.set_random_seed(spec.seed)
    with made_under(spec.precision):
        return _finetuned(spec, data, statistics)


def _finetuned(spec, data, statistics):
    if spec.trainable == "head":
        (features,) = data.train_x.shape[1:]
        layers = head_layers(data.num_classes, spec.norm, features, **statistics)
        if "constants" in data.model_options:
            mean, variance = data.model_options["constants"]
            layers.insert(
                0, keras.layers.Normalization(mean=mean, variance=variance, name="centred")
            )
        return keras.Sequential([keras.Input((features,), name="features"), *layers], name="head")
    trunk = imported_trunk(spec.model)
    layers = head_layers(data.num_classes, spec.norm, trunk.output_shape[-1], **statistics)
    whole = whole_model(trunk, layers, pixels_of(spec, trunk), data.train_x.shape[1:])
    return convert_model(whole, spec.batch_norm, trainable=spec.trainable).model


def _constants(features):
    """Pair of the mean of each feature [F] and the variance of all around these, [F] alike."""
    mean = features.mean(axis=0)
    variance = np.full_like(mean, np.mean(np.square(features - mean)))
    return mean.tolist(), variance.tolist()


class FinetuneRun(PrivateRun):
    """A run of a `FinetuneSpec`; arguments and attributes as of `PrivateRun`."""

    spec_class = FinetuneSpec
    load = staticmethod(load_finetune_data)
    network = staticmethod(build_finetuned)


def deployed_model(spec, private, image_shape):
    """Returns the model from images in [0, 1] to logits that a finished run has made.

    Args:
        spec: `FinetuneSpec`.
        private: The `PrivateModel` of the run.
        image_shape: (height, width, channels) of the images that come.
    """
    trained = private.servable()
    if spec.trainable != "head":
        return trained
    layers = [x for x in trained.layers if not isinstance(x, keras.layers.InputLayer)]
    trunk = imported_trunk(spec.model)
    trunk.trainable = False
    pixels = pixels_of(spec, trunk)
    return whole_model(trunk, layers, pixels, image_shape, views=spec.feature_views)


def imported_trunk(path):
    """Returns what gives features of the model in a file, by its path or its name.

    Raises:
        FileNotFoundError: if there is no such file, neither here nor in the folder of models.
        ValueError: if it holds no model of images.
    """
    return trunk_of(load_model(model_file(path)))


def model_file(path):
    """Returns the path of a model, which may be a name in the folder of models."""
    folder = os.environ.get(MODELS_DIR)
    if folder and not pathlib.Path(path).exists():
        return pathlib.Path(folder) / path
    if not pathlib.Path(path).exists():
        raise FileNotFoundError(
            f"Expected the file of a Keras model, got {path}, which is not there. Name its path, "
            f"or set the environment variable {MODELS_DIR} to the folder that has it."
        )
    return pathlib.Path(path)


def pixels_of(spec, trunk):
    """Returns the `Pixels` of a `FinetuneSpec` for what gives features."""
    channels = trunk.input_shape[-1]
    return Pixels(spec.image_size, spec.pixel_mean, spec.pixel_scale, channels)
