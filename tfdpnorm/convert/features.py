"""What a model that is not trained gives for images: computed once, and kept in a file.

Privacy: the features of an image depend on that image and on the model. If private data have not
touched the model, a guarantee for the features is one for the images. The file is as private as
these.
"""

import hashlib
import json
import os
import shutil
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm import arguments, files
from tfdpnorm.convert.tflite import TFLiteModel, of_function
from tfdpnorm.data import match_images

VIEWS = ("as it is", "mirrored")
_ROWS = 2_000  # of a piece: what an interruption costs at most
_ROWS_AT_ONCE = 50
_TRIED = 8  # rows
_TOLERANCE = 1e-3  # of the largest output


def image_features(model, images, *, pixels, folder, views=1, echo=print):
    """Returns the features of images, averaged over views of each, from a file if they are there.

    What is computed is kept piece by piece: a process that ends early costs a piece.

    Args:
        model: A Keras model from images [rows, height, width, channels] to features [rows, ...],
            such as [rows, F], or activations with height and width.
        images: [N, height, width, channels], float in [0, 1].
        pixels: `Pixels`: how images become what the model takes.
        folder: Folder of the files, made if absent. A file's name has the name and a digest of
            the model, the size and a digest of the images.
        views: How many of `VIEWS` are averaged: 1, or 2 with the mirror image.
        echo: Function that shows a line.

    Returns:
        float32 [N, ...].

    Raises:
        ValueError: for other views, or a file in the folder that holds no features of these images.
        OSError: if the folder cannot be written to.
    """
    arguments.choice("views", views, (1, 2))
    folder = files.make_folder(folder, "cache_dir")
    data = hashlib.sha256(np.ascontiguousarray(images)).hexdigest()[:12]
    stem = f"{model.name}-{model_digest(model)}-{pixels.name}-{data}"
    total = 0.0
    for view in VIEWS[:views]:
        path = folder / f"{stem}-{view.replace(' ', '_')}.npy"
        total = total + _kept(path, model, images, pixels, view, echo)
    return np.asarray(total / views, np.float32)


def model_digest(model):
    """Returns twelve digits that the architecture and the weights of a model decide."""
    digest = hashlib.sha256(json.dumps(_config(model), sort_keys=True, default=str).encode())
    for weight in model.get_weights():
        digest.update(np.ascontiguousarray(weight))
    return digest.hexdigest()[:12]


def _config(model):
    try:
        return model.get_config()
    except NotImplementedError:  # A subclassed model without one.
        return [type(model).__qualname__, [list(w.shape) for w in model.weights]]


def _kept(path, model, images, pixels, view, echo):
    """The features of one view: read, or computed in pieces that are kept until all are there."""
    while not path.exists():
        pieces = path.with_suffix(".pieces")
        pieces.mkdir(exist_ok=True)
        try:
            with files.locked_folder(pieces, echo):
                if not path.exists():
                    _compute(path, pieces, model, images, pixels, view, echo)
                shutil.rmtree(pieces)
        except FileNotFoundError:  # Another process has finished, and removed them meanwhile.
            if not path.exists():
                raise
    return _load(path, len(images))


def _compute(path, pieces, model, images, pixels, view, echo):
    run = _forward(model, pixels.prepared(images[:_TRIED], view))
    started, new, found = time.perf_counter(), 0, []
    for start in range(0, len(images), _ROWS):
        piece = pieces / f"{start:08d}.npy"
        rows = images[start : start + _ROWS]
        if not piece.exists():
            features = np.concatenate(
                [
                    run(pixels.prepared(rows[i : i + _ROWS_AT_ONCE], view))
                    for i in range(0, len(rows), _ROWS_AT_ONCE)
                ]
            )
            _save(piece, features.astype(np.float32))
            new += len(rows)
            rate = new / (time.perf_counter() - started)
            echo(f"  features, {view}: {start + len(rows):,} of {len(images):,}, {rate:.0f} a s")
        found.append(piece)
    _save(path, np.concatenate([_load(piece) for piece in found]))


def _forward(model, rows):
    """Function from rows [N, ...] to outputs [N, ...], the faster of two that agree on `rows`.

    TFLite, row by row, is what is fast on processors; some models it cannot compute.
    """
    run = tf.function(lambda x: model(x, training=False), autograph=False)

    def by_tensorflow(given):
        return run(given).numpy()

    if tf.config.list_physical_devices("GPU"):
        return by_tensorflow
    try:
        expected = by_tensorflow(rows)
    except (ValueError, tf.errors.OpError) as error:
        raise ValueError(
            f"Expected images that model {model.name!r} takes, got rows of shape "
            f"{list(rows.shape[1:])}. Its layers say: {_in_a_line(error)}"
        ) from error
    try:
        spec = tf.TensorSpec([1, *rows.shape[1:]], tf.float32)
        lite = TFLiteModel(of_function(lambda x: model(x, training=False), spec, model))
        outputs = lite(rows)
    except Exception:  # Its converter and its kernels raise what they like.
        return by_tensorflow
    same = outputs.shape == expected.shape and (
        np.abs(outputs - expected).max() <= _TOLERANCE * np.abs(expected).max()
    )
    return lite if same else by_tensorflow


def _in_a_line(error):
    """What a layer said of its input, without the call stack that TensorFlow writes into it."""
    return " ".join(str(error).rsplit("Error: ", 1)[-1].split())[:200]


def _load(path, rows=None):
    """The array of a file; `rows` is how many it must have."""
    try:
        found = np.load(path)
        damage = "" if rows in (None, len(found)) else f"{len(found)} rows instead of {rows}"
    except (ValueError, OSError, EOFError) as error:
        damage = files.reason(error)
    if damage:
        raise ValueError(
            f"Expected features of images in {path}, got a damaged file ({damage}). Remove it: "
            "they are computed again."
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

    def __init__(self, image_size=None, mean=0.0, scale=255.0, channels=None):
        if image_size is not None:
            image_size = arguments.integer("image_size", image_size, at_least=1)
        self.image_size = image_size
        self.mean = arguments.finite("mean", mean)
        self.scale = arguments.positive("scale", scale)
        self.channels = channels

    @property
    def name(self):
        """For names of files, such as "128px-mean127-scale128"."""
        return f"{self.image_size or 'own'}px-mean{self.mean:g}-scale{self.scale:g}"

    def prepared(self, images, view=VIEWS[0]):
        """[rows, height, width, channels] in [0, 1] to float32 of the model's size and values."""
        height, width, channels = images.shape[1:]
        if self.image_size is not None:
            height = width = self.image_size
        images = match_images(images, (height, width, self.channels or channels))
        if view == VIEWS[1]:
            images = images[:, :, ::-1]
        return np.asarray((255.0 * images - self.mean) / self.scale, np.float32)

    def __call__(self, x):
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
