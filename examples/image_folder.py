# %% [markdown]
"""# Images in folders

There is a folder for each class. Images are read when they are drawn.
"""

# %%
import pathlib
import tempfile

import numpy as np
from tensorflow import keras

import tfdpnorm
from tfdpnorm import PrivacyBudget

# %% [markdown]
# ## Data
#
# Your data: `folder/<class>/*.png` or `*.jpg`. Here bright and dark images are made.


# %%
def make_images(folder):
    rng = np.random.default_rng(0)
    for name, level in (("bright", 200), ("dark", 60)):
        (folder / name).mkdir(parents=True)
        for i in range(60):
            image = rng.normal(level, 40, (32, 32, 3)).clip(0, 255)
            keras.utils.save_img(folder / name / f"{i}.png", image, scale=False)
    return folder


source = tfdpnorm.data.image_folder(
    make_images(pathlib.Path(tempfile.mkdtemp()) / "photos"), image_size=(32, 32)
)
print(len(source), "images of the classes", source.class_names)

# %% [markdown]
# ## A model, trained under a budget

# %%
model = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        keras.layers.Rescaling(1 / 255),
        keras.layers.Conv2D(8, 3, strides=2),
        keras.layers.GroupNormalization(4),
        keras.layers.Activation("relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(len(source.class_names)),
    ]
)
private = tfdpnorm.make_private(
    model, budget=PrivacyBudget(8.0, 1e-4), num_examples=len(source), epochs=10
)
private.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
private.fit(source, verbose=0)

# %%
print(private.privacy_statement())
