"""Token ids: stable, of one row's text alone, in range."""

import numpy as np
import pytest

from tests.each import each
from tfdpnorm.data import hash_tokens


def test_stays_what_it_is():
    """Trained embeddings depend on these ids."""
    ids = hash_tokens(["The cat's hat, THE hat!", "", "été_42"], 1000, 5)
    assert ids.dtype == np.int32
    assert ids.tolist() == GOLDEN


GOLDEN = [[925, 769, 152, 748, 925], [0, 0, 0, 0, 0], [818, 460, 0, 0, 0]]


def test_each_row_depends_on_its_own_text():
    texts = ["b a b", "", "\ud800 ok", "\u00e9t\u00e9 42 c d"]
    ids = hash_tokens(texts, 50, 3)
    for text, row in zip(texts, ids, strict=True):
        np.testing.assert_array_equal(hash_tokens([text], 50, 3)[0], row)
        tokens = np.count_nonzero(row)
        assert (row[:tokens] > 0).all()  # Padding at the end only.


@each(
    "texts,vocabulary,length,match",
    [
        ("one text", 10, 2, "a single str"),
        ([b"bytes"], 10, 2, "row 0"),
        (["a", None], 10, 2, "row 1"),
        (["a"], 1, 5, "vocabulary_size"),
        (["a"], 5, 0, "sequence_length"),
        (["a"], 2**31 + 1, 5, "int32"),
    ],
)
def test_hostile_texts_and_sizes(texts, vocabulary, length, match):
    with pytest.raises((TypeError, ValueError), match=match):
        hash_tokens(texts, vocabulary, length)
