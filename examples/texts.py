# %% [markdown]
"""# Texts

Words become numbers by a hash, so that no vocabulary reveals private texts.
"""

# %%
import numpy as np
from tensorflow import keras

import tfdpnorm
from tfdpnorm import PrivacyBudget
from tfdpnorm.data import hash_tokens

# %% [markdown]
# ## Data
#
# Your data: a list of texts, and a class number for each.

# %%
rng = np.random.default_rng(0)
WORDS = (["good", "fine", "lovely", "kind"], ["bad", "awful", "sad", "rude"])
y = rng.integers(0, 2, 600)
texts = [" ".join(["the", "stay", "was", *rng.choice(WORDS[label], 3)]) for label in y]

VOCABULARY, LENGTH = 1000, 12
x = hash_tokens(texts, VOCABULARY, LENGTH)
print(texts[0], "->", x[0])

# %% [markdown]
# ## A model, trained under a budget

# %%
model = keras.Sequential(
    [
        keras.Input((LENGTH,), dtype="int32"),
        keras.layers.Embedding(VOCABULARY, 16),
        keras.layers.LayerNormalization(),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(2),
    ]
)
private = tfdpnorm.make_private(model, budget=PrivacyBudget(3.0, 1e-5), num_examples=500)
private.compile(
    "sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"]
)
private.fit(x[:500], y[:500], verbose=0, callbacks=[tfdpnorm.training.Progress(every_seconds=5)])

# %% [markdown]
# ## What was learnt

# %%
print(private.evaluate(x[500:], y[500:], verbose=0, return_dict=True))
new = ["the room was lovely", "an awful night"]
scores = private.predict(hash_tokens(new, VOCABULARY, LENGTH), verbose=0)
for text, score in zip(new, scores.argmax(1), strict=True):
    print(f"{text}: {('praise', 'blame')[score]}")

# %%
print(private.privacy_summary())

# %% tags=["hide-output"]
print(private.privacy_statement())
