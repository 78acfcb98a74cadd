# %% [markdown]
"""# Segmentation

A small U-Net finds a class for each pixel.
"""

# %%
import numpy as np
from tensorflow import keras

import tfdpnorm
from tfdpnorm import PrivacyBudget

# %% [markdown]
# ## Data
#
# Your data: images [N, height, width, channels], and a class number for each pixel.

# %%
rng = np.random.default_rng(0)
x = rng.normal(0, 0.2, (300, 16, 16, 1)).astype("float32")
y = np.zeros((300, 16, 16), "int32")
for image, mask, (top, left) in zip(x, y, rng.integers(0, 10, (300, 2)), strict=True):
    image[top : top + 6, left : left + 6] += 1
    mask[top : top + 6, left : left + 6] = 1

# %% [markdown]
# ## A model, trained under a budget


# %%
def block(inputs, filters):
    hidden = keras.layers.Conv2D(filters, 3, padding="same")(inputs)
    return keras.layers.Activation("relu")(keras.layers.GroupNormalization(4)(hidden))


inputs = keras.Input((16, 16, 1))
fine = block(inputs, 8)
coarse = block(keras.layers.MaxPooling2D(2)(fine), 16)
up = keras.layers.UpSampling2D()(coarse)
hidden = block(keras.layers.Concatenate()([up, fine]), 8)
model = keras.Model(inputs, keras.layers.Conv2D(2, 1)(hidden))

private = tfdpnorm.make_private(
    model, budget=PrivacyBudget(8.0, 1e-5), num_examples=len(x), epochs=8
)
private.compile(
    "sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"]
)
private.fit(x, y, verbose=0)

# %%
print(private.privacy_statement())
