"""Texts as experiments see them: whose words count, and what that does to the guarantee."""

import numpy as np
import pytest

from tfdpnorm.data import Examples, hash_tokens, word_ids
from trainers.davody import cells as davody
from trainers.runs import data as datasets
from trainers.runs.data import load_experiment_data

TEXTS = [f"word{i} story number {i % 3}" for i in range(40)]
SIZES = dict(vocabulary_size=30, sequence_length=6)


@pytest.fixture
def texts(monkeypatch):
    """Puts 40 texts of four classes in the place of AG News."""

    def load(name, split, data_dir=None):
        x = np.array(TEXTS if split == "train" else TEXTS[:10], dtype=object)
        y = (np.arange(len(x)) % 4).astype(np.int32)
        return Examples(name, split, x, y, num_classes=4, is_complete=False)

    monkeypatch.setattr(datasets, "load_examples", load)


def test_hashed_rows_depend_on_their_own_text(texts):
    data = load_experiment_data(
        davody.weight_noise_spec("ag_news", "none", 0.0, validation_examples=5, **SIZES)
    )
    all_rows = np.concatenate([data.train_x, data.validation_x])
    expected = hash_tokens(TEXTS, 30, 6)
    assert sorted(map(tuple, all_rows)) == sorted(map(tuple, expected))
    assert len(data.validation_x) == 5 and data.num_examples == 35
    assert data.model_options == {"vocabulary_size": 30} and data.no_guarantee_because == ()
    assert data.scale == (
        "40 training examples at hand; epochs 4 for 25; validation examples 5 for 24000"
    )


def test_public_words_come_from_the_file_alone(texts, tmp_path):
    path = tmp_path / "public.txt"
    path.write_text("story story number\nnumber story\n")
    data = load_experiment_data(
        davody.spec(
            "ag_news",
            "layer",
            3.0,
            vocabulary="public",
            vocabulary_file=str(path),
            public_dataset="ag_news_subset",
            **SIZES,
        )
    )
    np.testing.assert_array_equal(data.train_x, word_ids(TEXTS, ("story", "number"), 6))
    assert data.no_guarantee_because == ()


def test_a_file_that_is_not_there_is_named(texts, tmp_path):
    path = tmp_path / "nowhere.txt"
    with pytest.raises(OSError, match="nowhere.txt"):
        load_experiment_data(
            davody.spec("ag_news", "layer", 3.0, vocabulary="public", vocabulary_file=str(path))
        )


@pytest.mark.parametrize(
    "dataset, fields, message",
    [
        ("ag_news", dict(model="lenet5"), "network of words .bilstm, transformer. .*'lenet5'"),
        ("digits", dict(model="bilstm"), "network of images for dataset digits, got .*'bilstm'"),
        ("digits", dict(vocabulary="private"), "vocabulary for texts only"),
        ("digits", dict(pretraining_dataset="kmnist"), "parts to freeze .*'lenet5'"),
    ],
    ids=["no words", "no image", "no text", "no parts"],
)
def test_networks_and_settings_of_another_kind_are_rejected(monkeypatch, dataset, fields, message):
    if dataset == "ag_news":
        monkeypatch.setattr(
            datasets,
            "load_examples",
            lambda name, split, data_dir: Examples(
                name, split, np.array(TEXTS, object), np.zeros(40, np.int32), 4, False
            ),
        )
    with pytest.raises(ValueError, match=message):
        load_experiment_data(davody.spec(dataset, "layer", 3.0, **fields))
