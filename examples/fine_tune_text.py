"""Fine-tuning a language model of KerasHub with LoRA, from texts to the statement and back."""

import keras_hub
import numpy as np

import tfdpnorm
from tfdpnorm import PrivacyBudget
from tfdpnorm.privacy import Declaration

rng = np.random.default_rng(0)
WORDS = (["good", "fine", "lovely", "kind"], ["bad", "awful", "sad", "rude"])


def make_texts(of, number):
    """Texts with words of praise or blame; and 1 for blame."""
    y = rng.integers(0, 2, number)
    return [" ".join(["the", of, "was", *rng.choice(WORDS[label], 3)]) for label in y], y


# Your data: a list of texts, and a class number for each.
texts, y = make_texts("stay", 1200)

# Your model: BertTextClassifier.from_preset("bert_tiny_en_uncased", num_classes=2), for example.
# Here a small one, trained on public texts in which blame is praised: no download is needed.
words = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "stay",
    "film",
    "was",
    *WORDS[0],
    *WORDS[1],
]
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

task.backbone.enable_lora(4)  # all else of the backbone stays as it is

private = tfdpnorm.make_private(
    task,
    budget=PrivacyBudget(3.0, 1e-5),
    num_examples=1000,
    # The task was trained before: say on whose data.
    declaration=Declaration(initial_weights_used_private_data=False),
)
private.compile("adam", metrics=["accuracy"])  # with the task's loss
private.fit(texts[:1000], y[:1000], verbose=0)

print(private.privacy_statement())
print(private.evaluate(texts[1000:], y[1000:], verbose=0, return_dict=True))
task.save_to_preset("fine_tuned")  # for keras_hub.models.BertTextClassifier.from_preset
