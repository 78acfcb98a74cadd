# %% [markdown]
"""# A table: a CSV file with numbers and categories"""

# %%
import csv
import pathlib

import matplotlib.pyplot as plt
import numpy as np
from tensorflow import keras

import tfdpnorm
from tfdpnorm import PrivacyBudget

# %% [markdown]
# ## Data
#
# Your data: a file with a line of column names. Here one is drawn: who is ill depends on the age,
# and smiths fall ill 15 years earlier.


# %%
def write_table(path, rows=2000):
    rng = np.random.default_rng(0)
    age, job = rng.integers(18, 90, rows), rng.choice(["", "clerk", "nurse", "smith"], rows)
    ill = age + 15 * (job == "smith") + rng.normal(0, 10, rows) > 60
    lines = [f"{a},{j},{int(i)}" for a, j, i in zip(age, job, ill, strict=True)]
    path.write_text("\n".join(["age,job,ill", *lines]))
    return path


print(write_table(pathlib.Path("table.csv")).read_text()[:60])

# %% [markdown]
# Ranges and lists of categories must be known beforehand: no epsilon covers values that are looked
# up in the table.

# %%
AGES, JOBS = (18, 90), ["", "clerk", "nurse", "smith"]

with open("table.csv", newline="", encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
x = {
    "age": np.array([[float(row["age"])] for row in rows], "float32"),
    "job": np.array([[JOBS.index(row["job"])] for row in rows], "int32"),
}
ill = np.array([float(row["ill"]) for row in rows], "float32")
train, test = (
    {name: column[part] for name, column in x.items()} for part in (np.s_[:1600], np.s_[1600:])
)

# %% [markdown]
# ## A model
#
# `ScaleToBounds` takes the public range to [-1, 1]. An embedding learns a vector for each job.

# %%
inputs = {"age": keras.Input((1,), name="age"), "job": keras.Input((1,), dtype="int32", name="job")}
job_vector = keras.layers.Flatten()(keras.layers.Embedding(len(JOBS), 4)(inputs["job"]))
age_scaled = tfdpnorm.layers.ScaleToBounds(*AGES)(inputs["age"])
hidden = keras.layers.Concatenate()([age_scaled, job_vector])
hidden = keras.layers.Dense(16, "tanh")(hidden)
model = keras.Model(inputs, keras.layers.Dense(1)(hidden))

# %% [markdown]
# ## Training under a budget

# %%
private = tfdpnorm.make_private(model, budget=PrivacyBudget(2.0, 1e-5), num_examples=1600)
private.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True), metrics=["AUC"])
private.fit(train, ill[:1600], verbose=0, callbacks=[tfdpnorm.training.Progress(every_seconds=5)])
print(private.evaluate(test, ill[1600:], verbose=0, return_dict=True))

# %% [markdown]
# ## What was learnt
#
# The curve of smiths lies to the left, as it should.

# %%
ages = np.arange(*AGES, dtype="float32")[:, None]
for number, job in enumerate(JOBS):
    scores = model.predict({"age": ages, "job": np.full((len(ages), 1), number)}, verbose=0)
    plt.plot(ages, 1 / (1 + np.exp(-scores)), label=job or "not given")
plt.xlabel("age")
plt.ylabel("probability of being ill")
plt.legend()
plt.savefig("table.png")

# %%
print(private.privacy_summary())

# %% tags=["hide-output"]
print(private.privacy_statement())
