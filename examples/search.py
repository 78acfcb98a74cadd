# %% [markdown]
"""# A private search for settings

It is charged to the privacy budget.
"""

# %%
import tempfile

import numpy as np
from sklearn.datasets import load_digits
from tensorflow import keras

from tfdpnorm import PrivacyBudget
from tfdpnorm.tuning import PrivateRandomSearch

# %% [markdown]
# ## Data
#
# Your data: those that score the trials are public, or have an epsilon of their own.

# %%
x, y = load_digits(return_X_y=True)
x = (x / 16).astype("float32")
train, scores = (x[:1400], y[:1400]), (x[1400:], y[1400:])

# %% [markdown]
# ## The model of a trial
#
# `settings` has arguments of `make_plan` and `make_private`. The search finds the noise.


# %%
def build(hp):
    units, rate = hp.Choice("units", [16, 32]), hp.Float("rate", 0.2, 5, sampling="log")
    model = keras.Sequential(
        [keras.Input((64,)), keras.layers.Dense(units, "tanh"), keras.layers.Dense(10)]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(rate, momentum=0.9), loss)
    return model


def settings(hp):
    return dict(num_examples=1400, expected_batch_size=280, steps=40, l2_norm_clip=1.0)


# %% [markdown]
# ## The search
#
# The budget is that of the whole search.

# %%
tuner = PrivateRandomSearch(
    build,
    settings=settings,
    budget=PrivacyBudget(epsilon=4.0, delta=1e-5),
    expected_trials=4,
    directory=tempfile.mkdtemp(),
    project_name="digits",
)
tuner.search(*train, validation_data=scores)
best = tuner.get_best_models()[0]
print(best.privacy_statement())
print("accuracy:", np.mean(best.predict(scores[0], verbose=0).argmax(1) == scores[1]))
