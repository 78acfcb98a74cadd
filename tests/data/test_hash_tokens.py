"""Token ids: stable, of one row's text alone, in range."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.each import each
from tfdpnorm.data import hash_tokens


def test_stays_what_it_is():
    """Trained embeddings depend on these ids."""
    ids = hash_tokens(["The cat's hat, THE hat!", "", "été_42"], 1000, 5)
    assert ids.dtype == np.int32
    assert ids.tolist() == GOLDEN


GOLDEN = [[925, 769, 152, 748, 925], [0, 0, 0, 0, 0], [818, 460, 0, 0, 0]]


@pytest.mark.slow
@settings(deadline=None)
@given(
    texts=st.lists(st.text(max_size=30), max_size=5),
    vocabulary=st.integers(2, 50),
    length=st.integers(1, 6),
)
def test_each_row_depends_on_its_own_text(texts, vocabulary, length):
    ids = hash_tokens(texts, vocabulary, length)
    assert ids.shape == (len(texts), length)
    assert ids.size == 0 or 0 <= ids.min() <= ids.max() < vocabulary
    for text, row in zip(texts, ids, strict=True):
        np.testing.assert_array_equal(hash_tokens([text], vocabulary, length)[0], row)
        tokens = np.count_nonzero(row)
        assert (row[:tokens] > 0).all()  # Padding at the end only.


def test_ids_are_spread_evenly():
    words = [str(number) for number in range(20_000)]
    counts = np.bincount(hash_tokens(words, 101, 1)[:, 0], minlength=101)
    assert counts[0] == 0
    # 100 ids, 200 words expected in each, sd 14: 7 sd.
    assert np.abs(counts[1:] - 200).max() < 100


def test_hostile_texts():
    assert hash_tokens(["\ud800 ok"], 10, 2).shape == (1, 2)
    for texts, match in [
        ("one text", "a single str"),
        ([b"bytes"], "bytes in row 0"),
        (["a", None], "NoneType in row 1"),
    ]:
        with pytest.raises(TypeError, match=match):
            hash_tokens(texts, 10, 2)


@each(
    "vocabulary,length,match",
    [
        (1, 5, "vocabulary_size to be an integer >= 2"),
        (5, 0, "sequence_length to be an integer >= 1"),
        (2**31 + 1, 5, "int32"),
    ],
)
def test_sizes_out_of_range(vocabulary, length, match):
    with pytest.raises(ValueError, match=match):
        hash_tokens(["a"], vocabulary, length)
