"""A table with numbers and categories."""

import numpy as np
from tensorflow import keras

import tfdpnorm
from tfdpnorm import PrivacyBudget

# Your data. Ranges and lists of categories must be known beforehand: no epsilon covers values that
# are looked up in the table.
JOBS = ["none", "clerk", "nurse", "smith"]
rng = np.random.default_rng(0)
age = rng.integers(18, 90, 2000)
job = rng.choice(JOBS, 2000)
ill = (age + 15 * (job == "smith") + rng.normal(0, 10, 2000) > 60).astype("float32")

number_of = {name: number for number, name in enumerate(JOBS)}
x = {
    "age": age[:, None].astype("float32"),
    "job": np.array([[number_of[name]] for name in job], "int32"),
}
train, test = (
    {name: column[part] for name, column in x.items()} for part in (np.s_[:1600], np.s_[1600:])
)

inputs = {"age": keras.Input((1,), name="age"), "job": keras.Input((1,), dtype="int32", name="job")}
job_vector = keras.layers.Flatten()(keras.layers.Embedding(len(JOBS), 4)(inputs["job"]))
age_scaled = tfdpnorm.layers.ScaleToBounds(18, 90)(inputs["age"])
hidden = keras.layers.Concatenate()([age_scaled, job_vector])
hidden = keras.layers.Dense(16, "tanh")(hidden)
model = keras.Model(inputs, keras.layers.Dense(1)(hidden))

private = tfdpnorm.make_private(model, budget=PrivacyBudget(2.0, 1e-5), num_examples=1600)
private.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True), metrics=["AUC"])
private.fit(train, ill[:1600], verbose=0)
print(private.privacy_statement())
print(private.evaluate(test, ill[1600:], verbose=0, return_dict=True))
