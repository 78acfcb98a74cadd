"""Frozen features: a network's convolutions, trained on public images, run once over all images.

Davody et al. (2020), Table 6, after Abadi et al. (2016), Section 5.3: the convolutions are
pre-trained on CIFAR-100, and only the linear layers are trained privately. The rows
"public_features" beside those of Ermis and Cemgil (2017) use MNIST in the same way.

Privacy: what is learnt here depends on public images alone, and the features of an image on those
and on that image. A guarantee for the features is therefore one for the images.
"""

import dataclasses
import functools
import hashlib
import itertools
import os
import pathlib
import time

import numpy as np
from tensorflow import keras

from tfdpnorm import files, models
from tfdpnorm.convert import FeatureExtractor, Pixels
from tfdpnorm.data import match_images
from trainers.data.catalogue import official_size
from trainers.data.digits import as_digits
from trainers.data.sources import load_examples
from trainers.specs.training import CACHE_DIR

# What is pre-trained for which normalisation. Batch normalisation with its own moving averages
# is sound here: all that they have seen is public.
_NORM_BEFORE = {"public_batch": "batch", "noised_batch": "batch"}
_SEED = 0  # one pre-trained network for all seeds of a cell
_BATCH_SIZE = 128


# Pairs (public set, private set) whose classes mean the same: what has been learnt on the first
# classifies the second one without a private example.
_SAME_CLASSES = (("mnist", "digits"),)


def frozen_features(spec, arrays, *, tested_y=None, data_dir=None, cache_dir=CACHE_DIR, echo=print):
    """Returns the features of images under the pre-trained part "features" of a spec's network.

    The network is trained on the public set first, once for all runs that share it; its weights and
    the features are kept in `cache_dir`, where those of private images are as private as the
    images. Features are centred by the mean of the public images' features and divided by their
    root mean square, both constants of public data. `arrays` has images [N, height, width,
    channels], or None, by name, and `tested_y` the labels of "test_x".

    Returns three things: a dict from the same names to float32 [N, features], or to None; a line
    that says what was pre-trained, and, if the classes of both sets mean the same, what accuracy
    the public network has on "test_x" by itself; and what of the public set was not there, or None.
    """
    shape = next(x.shape[1:] for x in arrays.values() if x is not None)
    public = _PublicTraining(spec, shape, data_dir, cache_dir, echo)
    whole = public.network()
    made = FeatureExtractor(
        public.without_head(whole), pixels=Pixels(), folder=public.folder, echo=echo
    )
    private = [x for name, x in arrays.items() if name != "public_x" and x is not None]
    echo(said_of_kept(itertools.chain(*map(made.files, private))))
    own = made(public.images)
    mean = own.mean(axis=0)
    scale = np.sqrt(np.mean(np.square(own - mean)) + 1e-12)
    features = {name: None if x is None else (made(x) - mean) / scale for name, x in arrays.items()}
    words = said_of(spec, len(public.public))
    if tested_y is not None and (public.public.name, spec.dataset) in _SAME_CLASSES:
        logits = whole.predict(arrays["test_x"], batch_size=_BATCH_SIZE, verbose=0)
        right = logits.argmax(axis=-1) == tested_y
        words += (
            f"; its own logits, without any example of {spec.dataset}, have "
            f"{100 * np.mean(right):.2f} % of those tested"
        )
    return features, words, left_out(spec, len(public.public))


def said_of_kept(paths):
    """Returns what the user has to know of files with features of private images, a line."""
    return (
        "  features are kept for later runs, as secret as the images, and to be deleted with them: "
        f"{', '.join(map(str, paths))}"
    )


def said_of(spec, count):
    """Returns in words what is pre-trained for a spec, on `count` public images."""
    return (
        f"features of {spec.model}'s convolutions, pre-trained on {count:,} images of "
        f"{spec.pretraining_dataset} for {spec.pretraining_epochs} epochs and frozen"
    )


def left_out(spec, count):
    """Returns in words what is missing of a public set with `count` images; None for nothing."""
    whole = official_size(spec.pretraining_dataset, "train")
    return None if count == whole else f"{count} of {whole} pre-training images"


def features_shape(spec, shape):
    """Returns the shape of the features of an image; `shape` is the image's for the network."""
    return _PublicTraining(spec, shape, None, None, None).features_shape()


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
        # In their own form, other sets' characters fill another part of the image.
        images = as_digits(self.public.x) if self.spec.dataset == "digits" else self.public.x
        return match_images(images, self.shape)

    @functools.cached_property
    def folder(self):
        spec, options = self.spec, sorted(dict(self.spec.model_options).items())
        settings = (
            spec.model,
            self.norm,
            options,
            self.shape,
            self.spec.dataset == "digits",  # what the images are brought to
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

    def network(self):
        """The trained network, whole; from the cache if it is there."""
        keras.utils.set_random_seed(_SEED)
        whole, path = self._build("whole"), self.folder / "whole.weights.h5"
        if not path.exists():
            # If several processes want it at the same time, one trains it and the others wait.
            with files.locked_folder(self.folder, self.echo):
                if not path.exists():
                    self._train(whole)
                    with files.scratch_file(path) as partial:
                        whole.save_weights(partial)
                        os.replace(partial, path)
        whole.load_weights(path)
        return whole

    def without_head(self, whole):
        """The part "features" of a whole network."""
        network = self._build("features")
        for layer in network.layers:
            if layer.weights:
                layer.set_weights(whole.get_layer(layer.name).get_weights())
        return network

    def features_shape(self):
        """The shape of the features of an image."""
        return self._build("features").output_shape[1:]

    def _build(self, part):
        classes = {"num_classes": self.public.num_classes} if part == "whole" else {}
        return models.build(
            self.spec.model,
            norm=self.norm,
            input_shape=self.shape,
            **{**dict(self.spec.model_options), "part": part, **classes},
        )

    def _train(self, whole):
        epochs = self.spec.pretraining_epochs
        self.echo(
            f"  pre-training {whole.name} on {len(self.images):,} images of {self.public.name} for "
            f"{epochs} epochs"
        )
        moved = [keras.layers.RandomTranslation(0.125, 0.125, fill_mode="reflect", seed=_SEED)]
        if self.public.name not in ("digits", "kmnist", "mnist"):  # a mirrored character is another
            moved.insert(0, keras.layers.RandomFlip("horizontal", seed=_SEED))
        model = keras.Sequential([*moved, whole])
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
