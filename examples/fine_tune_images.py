# %% [markdown]
"""# A KerasHub task: images, with LoRA

An image model of KerasHub is fine-tuned: from a folder of images to the statement.
"""

# %%
import pathlib
import tempfile

import keras_hub
import numpy as np
from tensorflow import keras

import tfdpnorm
from tfdpnorm import PrivacyBudget
from tfdpnorm.privacy import Declaration

# %% [markdown]
# ## Data
#
# Your data: `folder/<class>/*.png` or `*.jpg`. Here discs and rings are drawn.

# %%
SIZE, rng = 16, np.random.default_rng(0)


def make_images(folder, kinds=("disc", "ring"), number=300):
    radius = np.hypot(*(np.mgrid[:SIZE, :SIZE] - SIZE / 2 + 0.5))
    for hole, kind in enumerate(kinds):
        (folder / kind).mkdir(parents=True)
        for i in range(number):
            shape = (radius < rng.uniform(5, 8)) & (radius > 3 * hole)
            image = np.where(shape, rng.uniform(150, 220), 50) + rng.normal(0, 20, shape.shape)
            image = np.repeat(image[..., None], 3, axis=-1).clip(0, 255)
            keras.utils.save_img(folder / kind / f"{i}.png", image, scale=False)
    return tfdpnorm.data.image_folder(folder, (SIZE, SIZE))


def in_memory(source):
    return np.stack([source[i][0] for i in range(len(source))]), source.labels


# %% [markdown]
# ## A model
#
# Yours: `ViTImageClassifier.from_preset("vit_base_patch16_224_imagenet", num_classes=2)`, for
# example. Here a small one, trained on public images that look alike: no download is needed.

# %%
folder = pathlib.Path(tempfile.mkdtemp())
preprocessor = keras_hub.models.ViTImageClassifierPreprocessor(
    keras_hub.layers.ViTImageConverter(image_size=(SIZE, SIZE), scale=1 / 127.5, offset=-1.0)
)
backbone = keras_hub.models.ViTBackbone(
    (SIZE, SIZE, 3), 4, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=64
)
task = keras_hub.models.ViTImageClassifier(backbone, 2, preprocessor=preprocessor)
task.compile("adam")
task.fit(*in_memory(make_images(folder / "public", ("plate", "wheel"))), epochs=10, verbose=0)

# %% [markdown]
# ## LoRA under a budget
#
# All else of the backbone stays as it is. The task was trained before: the declaration says on
# whose data.

# %%
task.backbone.enable_lora(4)
x, y = in_memory(make_images(folder / "private"))
test = rng.permutation(len(x)) < 100
private = tfdpnorm.make_private(
    task,
    budget=PrivacyBudget(3.0, 1e-5),
    num_examples=int(np.sum(~test)),
    declaration=Declaration(initial_weights_used_private_data=False),
)
private.compile("adam", metrics=["accuracy"])  # with the task's loss
private.fit(x[~test], y[~test], verbose=0)

# %%
print(private.privacy_statement())
print(private.evaluate(x[test], y[test], verbose=0, return_dict=True))
