"""What the code blocks of the pages use without making it: small data and small models.

A page says so in a comment, `<!-- setup: x, y = digits(300) -->`, which readers do not see.
"""

import pathlib

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from tensorflow import keras

import tfdpnorm


def digits(count, start=0):
    """Returns x [count, 64] in [0, 1] and y [count] of scikit-learn's digits."""
    x, y = load_digits(return_X_y=True)
    part = slice(start, start + count)
    return (x[part] / 16).astype("float32"), y[part]


def dense():
    return keras.Sequential([keras.Input((64,)), keras.layers.Dense(10)])


def with_hidden():
    """A model with a layer before the last."""
    hidden = keras.layers.Dense(8, "relu")
    return keras.Sequential([keras.Input((64,)), hidden, keras.layers.Dense(20)])


def with_public_norm():
    """A model for images of 28 x 28 with public-batch normalisation."""
    layers = [keras.layers.Flatten(), keras.layers.Dense(8), tfdpnorm.PublicBatchNormalization()]
    return keras.Sequential([keras.Input((28, 28, 1)), *layers, keras.layers.Dense(10)])


def with_batch_norm():
    """The same for vectors, with ordinary batch normalisation."""
    layers = [keras.layers.Dense(8), keras.layers.BatchNormalization(), keras.layers.Dense(10)]
    return keras.Sequential([keras.Input((64,)), *layers])


def cross_entropy():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def plan(num_examples, **settings):
    """A plan of five updates."""
    given = {"expected_batch_size": num_examples // 4, "steps": 5, "l2_norm_clip": 1.0}
    budget = tfdpnorm.PrivacyBudget(3.0, 1e-5)
    return tfdpnorm.make_plan(num_examples=num_examples, budget=budget, **{**given, **settings})


def folder_of_images(path, persons=False):
    """Writes 16 images into path/class/[person/]."""
    for i in range(16):
        name = f"{path}/{'ab'[i % 2]}" + (f"/patient_{i // 4}" if persons else "")
        pathlib.Path(name).mkdir(parents=True, exist_ok=True)
        pixels = np.full((8, 8, 3), 15 * i, np.uint8)
        tf.io.write_file(f"{name}/{i}.png", tf.io.encode_png(pixels))


def save_arrays(x, y):
    np.save("x.npy", x)
    np.save("y.npy", y)


def private_model(shape, num_examples, **settings):
    """A compiled private model for inputs of that shape and ten classes."""
    layers = [keras.layers.Flatten(), keras.layers.Dense(10)]
    model = keras.Sequential([keras.Input(shape), *layers])
    private = tfdpnorm.make_private(model, plan(num_examples, **settings))
    private.compile("sgd", cross_entropy())
    return private


def save_as_tflite(model, path):
    pathlib.Path(path).parent.mkdir(parents=True)
    folded = tfdpnorm.fold_public_statistics(model)
    pathlib.Path(path).write_bytes(tf.lite.TFLiteConverter.from_keras_model(folded).convert())
