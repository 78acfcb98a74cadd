"""Word lists of public texts, and rows of ids by them."""

import collections
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.each import each
from tfdpnorm.data import common_words, word_ids


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=8), st.integers(3, 9))
def test_ids_stay_in_the_vocabulary_and_rows_by_themselves(texts, size):
    """Independent counting with the public split of letters and digits."""
    split = [re.findall(r"[^\W_]+", text.lower()) for text in texts]
    counts = collections.Counter(word for words in split for word in words)
    if not counts:
        with pytest.raises(ValueError, match="There are no words in"):
            common_words(texts, size)
        return
    words = common_words(texts, size)
    assert len(words) == min(size - 2, len(counts))
    left_out = max((counts[w] for w in counts if w not in words), default=0)
    assert all(counts[word] >= left_out for word in words)
    ids = word_ids(texts, words, 5)
    assert ids.min() >= 0 and ids.max() < size
    for row, text in zip(ids, texts, strict=True):
        np.testing.assert_array_equal(row, word_ids([text], words, 5)[0])


@each(
    "call, error, message",
    [
        (lambda: common_words("one text", 5), TypeError, "a single str"),
        (lambda: common_words([b"x"], 5), TypeError, "bytes in row 0"),
        (lambda: common_words(["x"], 2), ValueError, "vocabulary_size"),
        (lambda: common_words(["..."], 5), ValueError, "no words"),
        (lambda: word_ids(["x"], ("a", "a"), 3), ValueError, "1 are distinct"),
        (lambda: word_ids(["x"], ("a",), 0), ValueError, "sequence_length"),
        (lambda: word_ids("x", ("a",), 3), TypeError, "a single str"),
    ],
)
def test_values_that_are_not_texts_are_rejected(call, error, message):
    with pytest.raises(error, match=message):
        call()
