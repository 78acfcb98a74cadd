"""Frozen features: a network's convolutions, trained on public images, run once over all rows.

Davody et al. (2020), Table 6, after Abadi et al. (2016), Section 5.3: the convolutions are
pre-trained on CIFAR-100, and only the linear layers are trained privately.

Privacy: the features of a row depend on that row and on public images alone, so that a guarantee
for the rows' features is one for the rows.
"""

import hashlib
import os
import pathlib
import tempfile
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm import models
from tfdpnorm.data import load_examples, match_images

# What trains the frozen part beside which head. Batch normalisation with its own moving averages
# is sound here: all that they have seen is public.
_NORM_BEFORE = {"public_batch": "batch", "noised_batch": "batch"}
_SEED = 0  # one pre-trained network for all seeds of a cell
_BATCH_SIZE = 128
_ROWS = 500  # through the frozen part at once


def frozen_features(spec, arrays, *, data_dir=None, cache_dir="outputs/pretrained", echo=print):
    """Returns the features of images under the pre-trained part of a spec's network.

    The network is trained on the public set first, once for all runs that share it; its weights and
    the features are kept in `cache_dir`. Features are centred by the mean of the public images'
    features and divided by their root mean square, both constants of public data.

    Args:
        spec: `ExperimentSpec` with a `pretraining_dataset`.
        arrays: Dict from a name to images [N, height, width, channels], or to None.
        data_dir: TFDS directory.
        cache_dir: Folder for weights and features.
        echo: Function that shows a line.

    Returns:
        Dict from the same names to float32 [N, features], or to None; and a line that says what
        was pre-trained.

    Raises:
        DatasetNotFoundError: if the public set is not there.
        ValueError: if the network has no part to freeze, or the images do not fit.
    """
    shape = next(x.shape[1:] for x in arrays.values() if x is not None)
    public = load_examples(spec.pretraining_dataset, "train", data_dir)
    images = match_images(public.x, shape)
    norm = _NORM_BEFORE.get(spec.norm, spec.norm)
    settings = (
        spec.model, norm, sorted(dict(spec.model_options).items()), shape, public.name,
        len(public), spec.pretraining_epochs, _SEED, _BATCH_SIZE,
    )
    digest = hashlib.sha256(repr(settings).encode()).hexdigest()[:16]
    folder = pathlib.Path(cache_dir) / f"{spec.model}-{norm}-{public.name}-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    build = lambda **part: models.build(  # noqa: E731
        spec.model,
        norm=norm,
        num_classes=public.num_classes,
        input_shape=shape,
        **{**dict(spec.model_options), **part},
    )
    network = build(part="features")
    weights = folder / "features.weights.h5"
    if not weights.exists():
        keras.utils.set_random_seed(_SEED)
        _train(build(part="whole"), network, images, public.y, spec, weights, echo)
    network.load_weights(weights)
    own = _features(network, images, folder, echo)
    mean = own.mean(axis=0)
    scale = np.sqrt(np.mean(np.square(own - mean)) + 1e-12)
    features = {
        name: None if x is None else (_features(network, x, folder, echo) - mean) / scale
        for name, x in arrays.items()
    }
    return features, (
        f"features of {spec.model}'s convolutions, pre-trained on {len(public):,} images of "
        f"{public.name} for {spec.pretraining_epochs} epochs and frozen"
    )


def _train(whole, part, images, labels, spec, path, echo):
    """Trains the whole network on public images and writes the weights of its `part`."""
    echo(
        f"  pre-training {whole.name} on {len(images):,} images of {spec.pretraining_dataset} for "
        f"{spec.pretraining_epochs} epochs"
    )
    keras_model = keras.Sequential([*_augmentation(), whole])
    steps = -(-len(images) // _BATCH_SIZE)
    keras_model.compile(
        optimizer=keras.optimizers.Adam(
            keras.optimizers.schedules.CosineDecay(1e-3, steps * spec.pretraining_epochs)
        ),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    started = time.perf_counter()
    history = keras_model.fit(
        images, labels, batch_size=_BATCH_SIZE, epochs=spec.pretraining_epochs, verbose=0
    )
    echo(
        f"  pre-trained: accuracy {100 * history.history['accuracy'][-1]:.1f} % on its own images, "
        f"{time.perf_counter() - started:.0f} s"
    )
    for layer in part.layers:
        if layer.weights:
            layer.set_weights(whole.get_layer(layer.name).get_weights())
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        temporary = pathlib.Path(scratch) / path.name
        part.save_weights(temporary)
        os.replace(temporary, path)  # whole or not at all


def _augmentation():
    return (
        keras.layers.RandomFlip("horizontal", seed=_SEED),
        keras.layers.RandomTranslation(0.125, 0.125, fill_mode="reflect", seed=_SEED),
    )


def _features(network, images, folder, echo):
    """Features of `images`, from the cache if they are there."""
    key = hashlib.sha256(np.ascontiguousarray(images)).hexdigest()[:16]
    path = folder / f"{key}.npy"
    if path.exists():
        return np.load(path)
    started = time.perf_counter()
    run = tf.function(lambda x: network(x, training=False))
    features = np.concatenate(
        [run(images[i : i + _ROWS]).numpy() for i in range(0, len(images), _ROWS)]
    )
    echo(f"  features of {len(images):,} images, {time.perf_counter() - started:.0f} s")
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        temporary = pathlib.Path(scratch) / "features.npy"
        np.save(temporary, features)
        os.replace(temporary, path)
    return features
