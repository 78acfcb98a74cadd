# %% [markdown]
"""# A KerasHub task: texts, with LoRA

A language model of KerasHub is fine-tuned: from texts to the statement and back.
"""

# %%
import keras_hub
import numpy as np

import tfdpnorm
from tfdpnorm import PrivacyBudget
from tfdpnorm.privacy import Declaration

# %% [markdown]
# ## Data
#
# Your data: a list of texts, and a class number for each. Here 1 is for blame.

# %%
rng = np.random.default_rng(0)
WORDS = (["good", "fine", "lovely", "kind"], ["bad", "awful", "sad", "rude"])


def make_texts(of, number):
    y = rng.integers(0, 2, number)
    return [" ".join(["the", of, "was", *rng.choice(WORDS[label], 3)]) for label in y], y


texts, y = make_texts("stay", 1200)
print(y[0], texts[0])

# %% [markdown]
# ## A model
#
# Yours: `BertTextClassifier.from_preset("bert_tiny_en_uncased", num_classes=2)`, for example. Here
# a small one, trained on public texts in which blame is praised: the private ones differ.

# %%
special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
words = [*special, "the", "stay", "film", "was", *WORDS[0], *WORDS[1]]
preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
    keras_hub.models.BertTokenizer(vocabulary=words), sequence_length=8
)
backbone = keras_hub.models.BertBackbone(
    vocabulary_size=len(words),
    num_layers=1,
    num_heads=2,
    hidden_dim=32,
    intermediate_dim=64,
    max_sequence_length=8,
    dropout=0.0,  # noise enough comes from privacy
)
task = keras_hub.models.BertTextClassifier(
    backbone=backbone, preprocessor=preprocessor, num_classes=2, dropout=0.0
)
public_texts, public_y = make_texts("film", 2000)
task.compile("adam")
task.fit(public_texts, 1 - public_y, epochs=3, verbose=0)
print("before:", task.evaluate(texts[1000:], y[1000:], verbose=0, return_dict=True))

# %% [markdown]
# ## LoRA under a budget
#
# All else of the backbone stays as it is. The task was trained before: the declaration says on
# whose data. `"adam"` gets the suggested rate, and the task's loss.

# %%
task.backbone.enable_lora(4)
private = tfdpnorm.make_private(
    task,
    budget=PrivacyBudget(3.0, 1e-5),
    num_examples=1000,
    declaration=Declaration(initial_weights_used_private_data=False),
)
private.compile("adam", metrics=["accuracy"])
progress = tfdpnorm.training.Progress(every_seconds=5)
private.fit(texts[:1000], y[:1000], verbose=0, callbacks=[progress])
print("after:", private.evaluate(texts[1000:], y[1000:], verbose=0, return_dict=True))

# %%
print(private.privacy_summary())

# %% tags=["hide-output"]
print(private.privacy_statement())

# %% [markdown]
# `keras_hub.models.BertTextClassifier.from_preset` loads this folder.

# %%
task.save_to_preset("fine_tuned")
