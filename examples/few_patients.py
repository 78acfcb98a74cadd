# %% [markdown]
"""# Images of few patients

One noisy release on public features, which protects each patient with all images.
"""

# %%
import pathlib
import tempfile

import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from tensorflow import keras

import tfdpnorm
from tfdpnorm import PrivacyBudget
from tfdpnorm.convert import Pixels, image_features

# %% [markdown]
# ## Data
#
# Your data: `folder/<class>/<patient>/*.png` or `*.jpg`. Here discs and rings are drawn, one to six
# for each of 300 patients.

# %%
SIZE = 32


def make_images(folder, patients=300):
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

# %%
for i, axes in enumerate(plt.subplots(1, 6, figsize=(8, 1.6))[1]):
    image, label = source[i * (len(source) - 1) // 5]
    axes.imshow(image[..., 0], cmap="gray")
    axes.set_title(source.class_names[label], fontsize=9)
    axes.axis("off")
plt.savefig("images.png")

# %% [markdown]
# ## Features that no private image has touched
#
# Random ones here. Those of an imported network, such as
# `keras.applications.MobileNetV2(weights="imagenet", include_top=False)`, tell more.

# %%
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

# %% [markdown]
# Patients are held out, not images. Features are computed once, and kept in a folder.

# %% tags=["remove-output"]
train, test = source.split(source.persons(), 0.2)
of_train, of_test = (
    image_features(public_network, images, pixels=Pixels(scale=1.0), folder="features")
    for images in (train, test)
)

# %% [markdown]
# ## One release

# %%
head = tfdpnorm.private_least_squares(
    of_train,
    train.labels,
    num_classes=len(source.class_names),
    person=train.persons(),
    most_per_person=6,
    budget=PrivacyBudget(3.0, 1e-4),
)
found = head.model.predict(of_test, verbose=0).argmax(1)
print(f"right for {np.mean(found == test.labels):.1%} of the images of other patients")

# %% [markdown]
# No epsilon covers this figure.

# %% tags=["hide-output"]
print(head.privacy_statement())

# %% [markdown]
# ## A TFLite file, from images to scores

# %% tags=["remove-output"]
whole = head.behind(public_network).servable()
converter = tf.lite.TFLiteConverter.from_keras_model(whole)
pathlib.Path("few_patients.tflite").write_bytes(converter.convert())
