"""Features of images from a model that is not trained: computed once, and kept in a file.

Privacy: the features of an image depend on that image and on the model: images run one by one, or
together where that is verified for the graph. If private data have not touched the model, a
guarantee for the features is one for the images. The file is as private as these. A model that is
known to have learnt from private data is warned of: what is trained on features knows nothing of
it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import warnings
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm import arguments, files
from tfdpnorm.convert.tflite import TFLiteModel, of_function
from tfdpnorm.data import match_images
from tfdpnorm.data.image_folder import ImageFolder
from tfdpnorm.errors import PrivacyWarning
from tfdpnorm.independence import rows_apart
from tfdpnorm.privacy.metadata import origins_of

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable
    from typing import Any


VIEWS = ("as it is", "mirrored")
_ROWS = 2_000  # of a piece: what an interruption costs at most
_ROWS_AT_ONCE = 50
_TRIED = 8  # rows
_TOLERANCE = 1e-3  # of the largest output


class FeatureExtractor:
    """Function from images to their features, averaged over views of each; kept in files.

    What is computed is kept piece by piece: a process that ends early costs a piece. The model
    must not change while this is in use.

    Args:
        model: A Keras model from images [rows, height, width, channels] to features [rows, ...],
            such as [rows, F], or activations with height and width.
        pixels: `Pixels`: how images become what the model takes.
        folder: Folder of the files, made if absent. A file's name has the name and a digest of
            the model, the size and a digest of the images.
        views: How many of `VIEWS` are averaged: 1, or 2 with the mirror image.
        echo: Function that shows a line.

    Raises:
        ValueError: for other views.
        OSError: if the folder cannot be made.
    """

    def __init__(
        self,
        model: keras.Model,
        *,
        pixels: Pixels,
        folder: str | os.PathLike,
        views: int = 1,
        echo: Callable[[str], Any] = print,
    ) -> None:
        arguments.choice("views", views, (1, 2))
        self._folder = files.make_folder(folder, "cache_dir")
        self._model, self._pixels, self._echo = model, pixels, echo
        self._views = VIEWS[:views]
        for known in origins_of(model.get_weights()):
            warnings.warn(
                f"Features of model {model.name!r}: {known.sentence}", PrivacyWarning, stacklevel=2
            )
        self._name = f"{model.name}-{model_digest(model)}-{pixels.name}"
        self._forwards = {}  # By the shape of an image: to convert a model takes a while.

    def __call__(self, images: np.ndarray | ImageFolder) -> np.ndarray:
        """Returns the features of images, from their files if these are there.

        Args:
            images: [N, height, width, channels], float in [0, 1]; or an `ImageFolder`.

        Returns:
            float32 [N, ...].

        Raises:
            ValueError: for a file in the folder that holds no features of these images, or images
                that the model does not take.
            OSError: if the folder cannot be written to.
        """
        if isinstance(images, ImageFolder):
            images = np.stack([images[i][0] for i in range(len(images))]) / np.float32(255)
        total = 0.0
        for path, view in zip(self.files(images), self._views, strict=True):
            total = total + self._kept(path, images, view)
        return np.asarray(total / len(self._views), np.float32)

    def files(self, images: np.ndarray) -> list[pathlib.Path]:
        """Returns the paths of the files with the features of images, one for each view."""
        data = hashlib.sha256(np.ascontiguousarray(images)).hexdigest()[:12]
        start = f"{self._name}-{data}"
        return [self._folder / f"{start}-{view.replace(' ', '_')}.npy" for view in self._views]

    def _kept(self, path, images, view):
        """The features of one view: read, or computed piece by piece."""
        while not path.exists():
            pieces = path.with_suffix(".pieces")
            pieces.mkdir(exist_ok=True)
            try:
                with files.locked_folder(pieces, self._echo):
                    if not path.exists():
                        self._compute(path, pieces, images, view)
                    shutil.rmtree(pieces)
            except FileNotFoundError:  # Another process has finished, and removed them meanwhile.
                if not path.exists():
                    raise
        return _load(path, len(images))

    def _compute(self, path, pieces, images, view):
        def prepared(rows):
            return self._pixels.prepared(rows, view)

        run = self._forward(prepared(images[:_TRIED]))
        started, new, found = time.perf_counter(), 0, []
        for start in range(0, len(images), _ROWS):
            piece = pieces / f"{start:08d}.npy"
            rows = images[start : start + _ROWS]
            if not piece.exists():
                parts = [rows[i : i + _ROWS_AT_ONCE] for i in range(0, len(rows), _ROWS_AT_ONCE)]
                features = np.concatenate([run(prepared(part)) for part in parts])
                _save(piece, features.astype(np.float32))
                new += len(rows)
                rate = new / (time.perf_counter() - started)
                done = f"{start + len(rows):,} of {len(images):,}"
                self._echo(f"  features, {view}: {done}, {rate:.0f} a s")
            found.append(piece)
        _save(path, np.concatenate([_load(piece) for piece in found]))

    def _forward(self, rows):
        shape = rows.shape[1:]
        if shape not in self._forwards:
            self._forwards[shape] = _forward(self._model, rows)
        return self._forwards[shape]


def image_features(
    model: keras.Model, images: np.ndarray | ImageFolder, **settings: Any
) -> np.ndarray:
    """Computes the features of images, by a `FeatureExtractor` that is used once.

    Args:
        model: See `FeatureExtractor`.
        images: [N, height, width, channels], float in [0, 1]; or the source of `image_folder`.
        **settings: Further arguments of `FeatureExtractor`: `pixels` and `folder`, such as that of
            the run.

    Returns:
        float32 [N, ...].

    Example::

        features = image_features(network, source, pixels=Pixels(96, 127.5, 127.5), folder="run")
    """
    return FeatureExtractor(model, **settings)(images)


def model_digest(model):
    """Returns twelve digits that the architecture and the weights of a model decide."""
    try:
        config = model.get_config()
    except NotImplementedError:  # A subclassed model without one.
        config = [type(model).__qualname__, [list(w.shape) for w in model.weights]]
    digest = hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode())
    for weight in model.get_weights():
        digest.update(np.ascontiguousarray(weight))
    return digest.hexdigest()[:12]


def _forward(model, rows):
    """Function from rows [N, ...] to outputs [N, ...], the faster of two that agree on `rows`.

    TFLite, row by row, is what is fast on processors; some models it cannot compute.
    """
    run = tf.function(lambda x: model(x, training=False), autograph=False)

    def one_by_one(given):
        return np.concatenate([run(given[i : i + 1]).numpy() for i in range(len(given))])

    try:
        expected = one_by_one(rows)
    except (ValueError, tf.errors.OpError) as error:
        why = str(error).rsplit("Error: ", 1)[-1]  # without TensorFlow's call stack
        raise ValueError(
            f"Model {model.name!r} does not accept rows of shape {list(rows.shape[1:])}. Its "
            f"layers report: {' '.join(why.split())[:200]}"
        ) from error
    together = _rows_together(run, rows.shape[1:])
    if together is not None:
        # The proof lets a row count for its position, and images keep none if one is taken away.
        everywhere = [np.resize(a, (_ROWS_AT_ONCE, *a.shape[1:])) for a in (rows, expected)]
        together = together if _agree(together(everywhere[0]), everywhere[1]) else None
    by_tensorflow = together or one_by_one
    if tf.config.list_physical_devices("GPU"):
        return by_tensorflow
    try:
        spec = tf.TensorSpec([1, *rows.shape[1:]], tf.float32)
        lite = TFLiteModel(of_function(lambda x: model(x, training=False), [spec], model))
        outputs = lite(rows)
    except Exception:  # Its converter and its kernels raise what they like.
        return by_tensorflow
    if not _agree(outputs, expected):
        return by_tensorflow

    def finite(given):
        """Without what its kernels divide by 0, such as the length of a patch of one colour."""
        found = lite(given)
        wrong = ~np.isfinite(found).reshape(len(found), -1).all(axis=1)
        if wrong.any():
            found[wrong] = by_tensorflow(given[wrong])
        return found

    return finite


def _agree(outputs, expected):
    return outputs.shape == expected.shape and (
        np.abs(outputs - expected).max() <= _TOLERANCE * np.abs(expected).max()
    )


def _rows_together(run, shape):
    """Function from rows to outputs that runs several at once, or None if one may change another.

    Raises ValueError for a model that keeps a value of earlier rows, so that rows that are run one
    by one change one another, too.
    """
    if rows_apart(run, np.empty((_ROWS_AT_ONCE, *shape), np.float32), _ROWS_AT_ONCE) == 1:
        return None

    def together(given):
        missing = _ROWS_AT_ONCE - len(given)
        padded = np.concatenate([given, np.zeros((missing, *shape), given.dtype)])
        return run(padded).numpy()[: len(given)]

    return together


def _load(path, rows=None):
    """The array of a file; `rows` is how many it must have."""
    try:
        found = np.load(path)
        damage = "" if rows in (None, len(found)) else f"{len(found)} rows instead of {rows}"
    except (ValueError, OSError, EOFError) as error:
        damage = files.reason(error)
    if damage:
        raise ValueError(
            f"The file of features {path} is damaged ({damage}). Remove it, and they are computed "
            "again."
        )
    return found


def _save(path, array):
    with files.scratch_file(path) as partial:
        np.save(partial, array)
        os.replace(partial, path)


class Pixels:
    """How images in [0, 1] become what a model takes: resized, and (255 x - mean) / scale.

    Args:
        image_size: Height and width, in pixels; None for those of the images.
        mean: Subtracted from values of 0 to 255.
        scale: What these are then divided by; 255 with mean 0 leaves images in [0, 1].
        channels: Channels that the model takes, 3 for grey images that are repeated to colour; None
            for those of the images.
    """

    def __init__(
        self,
        image_size: int | None = None,
        mean: float = 0.0,
        scale: float = 255.0,
        channels: int | None = None,
    ) -> None:
        if image_size is not None:
            image_size = arguments.integer("image_size", image_size, at_least=1)
        self.image_size = image_size
        self.mean = arguments.finite("mean", mean)
        self.scale = arguments.positive("scale", scale)
        self.channels = channels

    @property
    def name(self) -> str:
        """For names of files, such as "128px-mean127-scale128"."""
        return f"{self.image_size or 'own'}px-mean{self.mean:g}-scale{self.scale:g}"

    def prepared(self, images: np.ndarray, view: str = VIEWS[0]) -> tf.Tensor:
        """[rows, height, width, channels] in [0, 1] to float32 of the model's size and values."""
        height, width, channels = images.shape[1:]
        if self.image_size is not None:
            height = width = self.image_size
        images = match_images(images, (height, width, self.channels or channels))
        if view == VIEWS[1]:
            images = images[:, :, ::-1]
        return np.asarray((255.0 * images - self.mean) / self.scale, np.float32)

    def __call__(self, x: Any) -> tf.Tensor:
        """The same within a model, for a Keras tensor; shrinking does not smooth there."""
        if self.image_size is not None:
            x = keras.layers.Resizing(self.image_size, self.image_size, name="resizing")(x)
        given = x.shape[-1]
        if given == 1 and self.channels not in (None, 1):
            x = keras.layers.Concatenate(name="colour")([x] * self.channels)
        elif self.channels == 1 != given:
            x = tf.reduce_mean(x, axis=-1, keepdims=True)
        elif self.channels not in (None, given):
            raise ValueError(f"Expected images of {self.channels} channels, got {given}.")
        factor, offset = 255.0 / self.scale, -self.mean / self.scale
        return keras.layers.Rescaling(factor, offset=offset, name="rescaling")(x)
