"""Models and tasks of KerasHub: verified, the sums of a loop, and usable as before."""

import warnings

import numpy as np
import pytest

pytest.importorskip("keras_hub", reason="it needs the extra hub, and Keras 3")

import keras_hub
from tensorflow import keras

from tests.each import each
from tests.hub_models.cases import _OF, model_of, rows_of
from tests.hub_models.table import error_of_sum, table, written
from tests.private_of import private_of
from tfdpnorm.keras_compat.saving import warn_unless_made_again
from tfdpnorm.training.tasks import preprocessed

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "good", "bad", "film", "is", "a"]
TEXTS = ["the film is good", "a bad film", "good", "the film is bad"]


@each("name", ["BERT with LoRA", "Gemma 3"])
def test_sums_are_those_of_a_loop(name):
    model = model_of(name)
    assert error_of_sum(model, rows_of(model, 3), ()) < 1e-5


@pytest.mark.slow
def test_the_page_has_the_table():
    assert written() == table(), "run: python -m tests.hub_models.table --write"


def classifier():
    preprocessor = _OF.BertTextClassifierPreprocessor(
        _OF.BertTokenizer(vocabulary=WORDS), sequence_length=6
    )
    backbone = _OF.BertBackbone(len(WORDS), 1, 2, 4, 8, max_sequence_length=6)
    return _OF.BertTextClassifier(backbone=backbone, preprocessor=preprocessor, num_classes=2)


def test_a_task_trains_lora_alone_on_texts_and_is_usable_as_before(tmp_path):
    task = classifier()
    task.backbone.enable_lora(2)
    frozen = {w.path: w.numpy() for w in task.non_trainable_weights}
    trained = [w.numpy() for w in task.trainable_weights]
    private = private_of(task, num_examples=len(TEXTS), expected_batch_size=2, steps=2)
    private.compile("sgd")  # with the task's own loss
    private.fit(TEXTS, np.arange(len(TEXTS)) % 2, verbose=0)
    assert private.engine == "book_keeping"
    (known,) = [c for c in private.ledger.state.caveats if c.code == "trained_in_part"]
    assert known.fields["trained"] == sum(w.size for w in trained)
    assert all((frozen[w.path] == w.numpy()).all() for w in task.non_trainable_weights)
    assert any((a != b.numpy()).any() for a, b in zip(trained, task.trainable_weights, strict=True))
    expected = task.predict(TEXTS, verbose=0)
    np.testing.assert_allclose(private.predict(TEXTS, verbose=0), expected, rtol=1e-5)
    private.save(tmp_path / "task.keras")
    loaded = keras.models.load_model(tmp_path / "task.keras")
    assert isinstance(loaded, _OF.BertTextClassifier)
    np.testing.assert_allclose(loaded.predict(TEXTS, verbose=0), expected, rtol=1e-5)
    task.save_to_preset(str(tmp_path / "preset"))
    assert (tmp_path / "preset" / "task.json").exists()


def test_a_file_that_keras_cannot_load_is_warned_of(tmp_path):
    model = model_of("ViT")
    private = private_of(model, num_examples=4, expected_batch_size=2, steps=1)
    with pytest.warns(UserWarning, match=r"cannot load the file.*private\.save_weights"):
        private.save(tmp_path / "model.keras")
    with pytest.raises(TypeError):
        keras.models.load_model(tmp_path / "model.keras")
    private.save_weights(tmp_path / "model.weights.h5")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_unless_made_again(model_of("GPT-2"))


def test_rows_are_preprocessed_by_themselves():
    """Without a length, a tokeniser pads each batch to its longest row."""
    task = classifier()
    made = preprocessed(task, TEXTS)[0]
    for i, text in enumerate(TEXTS):
        alone = task.preprocessor([text])
        assert all((np.asarray(alone[k])[0] == made[k][i]).all() for k in made)
    task.preprocessor = keras.layers.TextVectorization(vocabulary=WORDS[2:], standardize=None)
    with pytest.raises(ValueError, match="sequence_length"):
        preprocessed(task, TEXTS)


def test_a_task_that_was_trained_before_is_doubted():
    task = classifier()
    task.fit(TEXTS, np.arange(len(TEXTS)) % 2, verbose=0)
    private = private_of(task, num_examples=len(TEXTS), expected_batch_size=2, steps=2)
    assert "trained_before" in [c.code for c in private.ledger.state.caveats]


def test_training_texts_are_not_evaluated_while_they_train():
    private = private_of(classifier(), num_examples=len(TEXTS), expected_batch_size=2, steps=2)
    private.compile("sgd")
    y = np.arange(len(TEXTS)) % 2
    looks = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: private.evaluate(TEXTS[:2], y[:2], verbose=0)
    )
    with pytest.raises(ValueError, match="training example"):
        private.fit(TEXTS, y, callbacks=[looks], verbose=0)


def test_a_task_with_steps_of_its_own_is_rejected():
    class WithSteps(_OF.BertTextClassifier):
        def compute_loss(self, *args, **kwargs):
            return super().compute_loss(*args, **kwargs)

    task = classifier()
    task.__class__ = WithSteps
    with pytest.raises(ValueError, match="compute_loss"):
        private_of(task, steps=2)


assert keras_hub
