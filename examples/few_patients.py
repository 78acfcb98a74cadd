"""Images of few patients: one noisy release on public features, protected per patient."""

import pathlib
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow import keras

import tfdpnorm
from tfdpnorm import PrivacyBudget
from tfdpnorm.convert import Pixels, image_features

SIZE = 32


def make_images(folder, patients=300):
    """Drawn discs and rings; use your own: folder/<class>/<patient>/*.png or *.jpg."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:SIZE, :SIZE]
    for patient in range(patients):
        kind = ("disc", "ring")[patient % 2]
        place = folder / kind / f"patient{patient}"
        place.mkdir(parents=True)
        for i in range(rng.integers(1, 7)):
            y, x, edge = rng.uniform([13, 13, 8], [19, 19, 12])
            radius = np.hypot(rows - y, columns - x)
            shape = (radius < edge) & ((kind == "disc") | (radius > 0.6 * edge))
            image = np.where(shape, 180, 50) + rng.normal(0, 15, (SIZE, SIZE))
            keras.utils.save_img(place / f"{i}.png", image[..., None].clip(0, 255), scale=False)
    return folder


folder = make_images(pathlib.Path(tempfile.mkdtemp()) / "scans")
source = tfdpnorm.data.image_folder(folder, image_size=(SIZE, SIZE), channels=1)

# Features that no private image has touched: random ones here. Those of an imported network, such
# as keras.applications.MobileNetV2(weights="imagenet", include_top=False), tell more.
keras.utils.set_random_seed(0)
public_network = keras.Sequential(
    [
        keras.Input((SIZE, SIZE, 1)),
        keras.layers.Rescaling(1 / 127.5, offset=-1),
        tfdpnorm.layers.RandomPatchFeatures(64),
        keras.layers.AveragePooling2D(8),
        keras.layers.Flatten(),
        keras.layers.UnitNormalization(),
    ]
)

# Patients are held out, not images. Features are computed once, and kept in a folder.
train, test = source.split(source.persons(), 0.2)
of_train, of_test = (
    image_features(public_network, images, pixels=Pixels(scale=1.0), folder="features")
    for images in (train, test)
)

head = tfdpnorm.private_least_squares(
    of_train,
    train.labels,
    num_classes=len(source.class_names),
    person=train.persons(),
    most_per_person=6,
    budget=PrivacyBudget(3.0, 1e-4),
)
print(head.privacy_statement())
accuracy = np.mean(head.model.predict(of_test, verbose=0).argmax(1) == test.labels)
print(f"{accuracy:.1%} of the images of other patients; no epsilon covers this figure.")

whole = head.behind(public_network).servable()  # from images to scores
converter = tf.lite.TFLiteConverter.from_keras_model(whole)
pathlib.Path("few_patients.tflite").write_bytes(converter.convert())
