# %% [markdown]
"""# Several images of each patient

A network is fine-tuned. Each patient is protected with all images.
"""

# %%
import numpy as np
from tensorflow import keras

import tfdpnorm
from tfdpnorm import PrivacyBudget

# %% [markdown]
# ## Data
#
# Your data: images, class numbers, and the patient of each image.

# %%
rng = np.random.default_rng(0)
patient = rng.integers(0, 80, 300)
y = (patient % 2).astype("int32")
x = (rng.random((300, 32, 32, 3)) + 0.2 * y[:, None, None, None]).astype("float32")
patients = len(np.unique(patient))

# %% [markdown]
# ## An imported network
#
# Here without its weights: `keras.applications.MobileNetV2(weights="imagenet")`. Its features are
# fixed. With public weights that costs no privacy.

# %%
base = keras.applications.MobileNetV2(
    include_top=False, weights=None, input_shape=(32, 32, 3), alpha=0.35, pooling="avg"
)
base.trainable = False
model = keras.Sequential([base, keras.layers.LayerNormalization(), keras.layers.Dense(2)])
model.build((None, 32, 32, 3))

# %% [markdown]
# ## Training
#
# Patients are counted, drawn and protected, not images.

# %%
settings = tfdpnorm.suggest(
    model,
    budget=PrivacyBudget(4.0, 1e-4),
    num_examples=patients,
    most_per_person=4,
    steps=30,
)
private = tfdpnorm.make_private(model, **settings.arguments)
private.compile(
    settings.optimizer("sgd"), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
)
private.fit(x, y, person=patient, verbose=0)

# %%
print(private.privacy_statement())
