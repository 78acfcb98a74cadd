"""Frozen features: a network's convolutions, trained on public images, run once over all rows.

Davody et al. (2020), Table 6, after Abadi et al. (2016), Section 5.3: the convolutions are
pre-trained on CIFAR-100, and only the linear layers are trained privately.

Privacy: what is learnt here depends on public images alone, and the features of an image on those
and on that image. A guarantee for the features is therefore one for the images.
"""

import dataclasses
import functools
import hashlib
import os
import pathlib
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm import files, models
from tfdpnorm.data import load_examples, match_images
from tfdpnorm.experiments.parts import CACHE_DIR

# What is pre-trained for which normalisation. Batch normalisation with its own moving averages
# is sound here: all that they have seen is public.
_NORM_BEFORE = {"public_batch": "batch", "noised_batch": "batch"}
_SEED = 0  # one pre-trained network for all seeds of a cell
_BATCH_SIZE = 128
_ROWS = 500  # through the frozen part at once


def frozen_features(spec, arrays, *, data_dir=None, cache_dir=CACHE_DIR, echo=print):
    """Returns the features of images under the pre-trained part "features" of a spec's network.

    The network is trained on the public set first, once for all runs that share it; its weights and
    the features are kept in `cache_dir`. Features are centred by the mean of the public images'
    features and divided by their root mean square, both constants of public data.

    Args:
        spec: Spec with the parts `Network` and `Pretraining`, and a `pretraining_dataset`.
        arrays: Dict from a name to images [N, height, width, channels], or to None.
        data_dir: TFDS directory.
        cache_dir: Folder for weights and features. Those of private images are as private as
            the images.
        echo: Function that shows a line.

    Returns:
        Dict from the same names to float32 [N, features], or to None; and a line that says what
        was pre-trained.

    Raises:
        DatasetNotFoundError: if the public set is not there.
        ValueError: if the network has no part to freeze, or the images do not fit.
    """
    shape = next(x.shape[1:] for x in arrays.values() if x is not None)
    public = _PublicTraining(spec, shape, data_dir, cache_dir, echo)
    network = public.network()
    own = public.features(network, public.images)
    mean = own.mean(axis=0)
    scale = np.sqrt(np.mean(np.square(own - mean)) + 1e-12)
    features = {
        name: None if x is None else (public.features(network, x) - mean) / scale
        for name, x in arrays.items()
    }
    return features, f"features of {spec.model}'s convolutions, {public.described()} and frozen"


@dataclasses.dataclass
class _PublicTraining:
    """A network trained on a public set, and the folder that keeps its weights and features."""

    spec: object
    shape: tuple
    data_dir: object
    cache_dir: object
    echo: object

    @functools.cached_property
    def public(self):
        return load_examples(self.spec.pretraining_dataset, "train", self.data_dir)

    @functools.cached_property
    def images(self):
        return match_images(self.public.x, self.shape)

    @functools.cached_property
    def folder(self):
        spec, options = self.spec, sorted(dict(self.spec.model_options).items())
        settings = (
            spec.model,
            self.norm,
            options,
            self.shape,
            self.public.name,
            len(self.public),
            spec.pretraining_epochs,
            _SEED,
            _BATCH_SIZE,
        )
        digest = hashlib.sha256(repr(settings).encode()).hexdigest()[:16]
        name = f"{spec.model}-{self.norm}-{self.public.name}-{digest}"
        folder = pathlib.Path(self.cache_dir) / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def norm(self):
        return _NORM_BEFORE.get(self.spec.norm, self.spec.norm)

    def described(self):
        return (
            f"pre-trained on {len(self.public):,} images of {self.public.name} for "
            f"{self.spec.pretraining_epochs} epochs"
        )

    def network(self):
        """The trained part "features" of the network; from the cache if it is there."""
        network, path = self._build("features"), self.folder / "features.weights.h5"

        def train():
            keras.utils.set_random_seed(_SEED)
            whole = self._build("whole")
            self._train(whole)
            for layer in network.layers:
                if layer.weights:
                    layer.set_weights(whole.get_layer(layer.name).get_weights())

        self._make_once(path, train, lambda partial, _: network.save_weights(partial))
        network.load_weights(path)
        return network

    def features(self, network, images):
        """Features of `images`, from the cache if they are there."""
        key = hashlib.sha256(np.ascontiguousarray(images)).hexdigest()[:16]
        path = self.folder / f"{key}.npy"

        def compute():
            started = time.perf_counter()
            run = tf.function(lambda x: network(x, training=False))
            features = np.concatenate(
                [run(images[i : i + _ROWS]).numpy() for i in range(0, len(images), _ROWS)]
            )
            seconds = time.perf_counter() - started
            self.echo(f"  features of {len(images):,} images, {seconds:.0f} s")
            return features

        self._make_once(path, compute, np.save)
        return np.load(path)

    def _make_once(self, path, compute, save):
        """Writes the file `path` unless it is there, whole or not at all.

        If several processes want it at the same time, one computes it and the others wait.
        """
        if path.exists():
            return
        with files.locked_folder(self.folder, self.echo):
            if path.exists():
                return
            value = compute()
            with files.scratch_file(path) as partial:
                save(partial, value)
                os.replace(partial, path)

    def _build(self, part):
        return models.build(
            self.spec.model,
            norm=self.norm,
            num_classes=self.public.num_classes,
            input_shape=self.shape,
            **{**dict(self.spec.model_options), "part": part},
        )

    def _train(self, whole):
        epochs = self.spec.pretraining_epochs
        self.echo(
            f"  pre-training {whole.name} on {len(self.images):,} images of {self.public.name} for "
            f"{epochs} epochs"
        )
        model = keras.Sequential([*_augmentation(self.public.name), whole])
        steps = -(-len(self.images) // _BATCH_SIZE)
        model.compile(
            optimizer=keras.optimizers.Adam(
                keras.optimizers.schedules.CosineDecay(1e-3, steps * epochs)
            ),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
        started = time.perf_counter()
        history = model.fit(
            self.images, self.public.y, batch_size=_BATCH_SIZE, epochs=epochs, verbose=0
        )
        self.echo(
            f"  pre-trained: accuracy {100 * history.history['accuracy'][-1]:.1f} % on its own "
            f"images, {time.perf_counter() - started:.0f} s"
        )


def _augmentation(dataset):
    # A mirrored character is another one.
    if dataset not in ("digits", "kmnist", "mnist"):
        yield keras.layers.RandomFlip("horizontal", seed=_SEED)
    yield keras.layers.RandomTranslation(0.125, 0.125, fill_mode="reflect", seed=_SEED)
