# %% [markdown]
"""# First run: images in arrays

A small network learns scikit-learn's handwritten digits under a budget: the settings, the training,
the privacy statement, saving and loading. It takes half a minute.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import ConfusionMatrixDisplay
from tensorflow import keras

import tfdpnorm
from tfdpnorm import PrivacyBudget

# %% [markdown]
# ## Data
#
# Your data: images [N, height, width, channels] and class numbers [N]. Scale them by constants that
# are known beforehand, not by statistics of the data.

# %%
x, y = load_digits(return_X_y=True)
x = (x.reshape(-1, 8, 8, 1) / 16).astype("float32")
x, test_x, y, test_y = x[:1500], x[1500:], y[:1500], y[1500:]

# %% [markdown]
# ## A model
#
# Layer normalisation needs no public data. `PublicBatchNormalization` takes public images, or uses
# synthetic ones.

# %%
model = keras.Sequential(
    [
        keras.Input((8, 8, 1)),
        keras.layers.Conv2D(16, 3, padding="same"),
        keras.layers.LayerNormalization(axis=(1, 2, 3)),
        keras.layers.Activation("tanh"),
        keras.layers.AveragePooling2D(2),
        keras.layers.Flatten(),
        keras.layers.Dense(32, "tanh"),
        keras.layers.Dense(10),
    ]
)

# %% [markdown]
# ## A budget, and the settings that follow from it
#
# Nothing is spent yet. The last line forecasts what these data allow.

# %%
budget = PrivacyBudget(epsilon=3.0, delta=1e-5)  # delta well below 1 / 1500
private = tfdpnorm.make_private(model, budget=budget, num_examples=len(x))
print(private.suggestion)

# %% [markdown]
# ## Training
#
# As in Keras. `"sgd"` gets the suggested rate. The progress lines show no training loss, which no
# epsilon covers.

# %%
private.compile(
    "sgd",
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
history = private.fit(x, y, verbose=0, callbacks=[tfdpnorm.training.Progress(every_seconds=5)])

# %% [markdown]
# ## What was learnt
#
# These figures are of held-out images. The epsilon does not protect those images.

# %%
scores = private.predict(test_x, verbose=0)
print(f"test accuracy: {np.mean(scores.argmax(1) == test_y):.2f}")
ConfusionMatrixDisplay.from_predictions(test_y, scores.argmax(1), cmap="Blues", colorbar=False)
plt.savefig("confusion.png")

# %% [markdown]
# ## What may be said about privacy
#
# The summary is for you, the full statement is the text to sign.

# %%
print(private.privacy_summary())

# %% tags=["hide-output"]
print(private.privacy_statement())

# %% [markdown]
# ## The file
#
# It is an ordinary Keras model. In another process, `import tfdpnorm` comes first.

# %%
private.save("digits.keras")
loaded = keras.models.load_model("digits.keras")
assert np.array_equal(loaded.predict(test_x, verbose=0), model.predict(test_x, verbose=0))
