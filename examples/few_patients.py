"""Images of few patients: one noisy release on public features, protected per patient."""

import pathlib
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow import keras

import tfdpnorm
from tfdpnorm import PrivacyBudget

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
images = keras.utils.image_dataset_from_directory(
    folder, image_size=(SIZE, SIZE), color_mode="grayscale", shuffle=False, verbose=False
).map(lambda x, y: x)

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
features = public_network.predict(images, verbose=0)

# Patients are held out, not images.
patient = source.persons()
names = np.random.default_rng(1).permutation(np.unique(patient))
test = np.isin(patient, names[:60])

head = tfdpnorm.private_least_squares(
    features[~test],
    source.labels[~test],
    num_classes=len(source.class_names),
    person=patient[~test],
    most_per_person=6,
    budget=PrivacyBudget(3.0, 1e-4),
)
print(head.privacy_statement())
accuracy = np.mean(head.model.predict(features[test], verbose=0).argmax(1) == source.labels[test])
print(f"{accuracy:.1%} of the images of 60 other patients; no epsilon covers this figure.")

whole = head.behind(public_network).servable()  # from images to scores
converter = tf.lite.TFLiteConverter.from_keras_model(whole)
pathlib.Path("few_patients.tflite").write_bytes(converter.convert())
