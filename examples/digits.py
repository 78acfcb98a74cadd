"""Images in arrays: a budget, training, the privacy statement, saving and loading."""

import numpy as np
from sklearn.datasets import load_digits
from tensorflow import keras

import tfdpnorm
from tfdpnorm import PrivacyBudget

# Your data: images [N, height, width, channels] and class numbers [N]. Scale them by constants that
# are known beforehand, not by statistics of the data.
x, y = load_digits(return_X_y=True)
x = (x.reshape(-1, 8, 8, 1) / 16).astype("float32")
x, test_x, y, test_y = x[:1500], x[1500:], y[:1500], y[1500:]

# Layer normalisation needs no public data. PublicBatchNormalization takes public images, or uses
# synthetic ones.
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

budget = PrivacyBudget(epsilon=3.0, delta=1e-5)  # delta well below 1 / 1500
private = tfdpnorm.make_private(model, budget=budget, num_examples=len(x))
print(private.suggestion)  # the suggested settings, with reasons

private.compile(
    "sgd",  # with the suggested rate
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
private.fit(x, y, verbose=0)

print(private.privacy_statement())
print("test accuracy:", private.evaluate(test_x, test_y, verbose=0, return_dict=True)["accuracy"])

private.save("digits.keras")
loaded = keras.models.load_model("digits.keras")  # in another process: import tfdpnorm first
assert np.array_equal(loaded.predict(test_x, verbose=0), model.predict(test_x, verbose=0))
