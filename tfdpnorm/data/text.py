"""Texts as rows of token ids."""

from __future__ import annotations

import collections
import hashlib
import re
from typing import TYPE_CHECKING

import numpy as np

from tfdpnorm import arguments

if TYPE_CHECKING:
    from collections.abc import Sequence


PADDING_ID = 0
UNKNOWN_ID = 1
# Letters and digits of any script; the underscore separates, as every other sign does.
_TOKEN = re.compile(r"[^\W_]+")


def hash_tokens(
    texts: Sequence[str] | np.ndarray, vocabulary_size: int, sequence_length: int
) -> np.ndarray:
    """Turns texts into ids by hashing each token.

    A text is put in lower case and split at everything that is not a letter or a digit; token w
    becomes 1 + hash(w) mod (vocabulary_size - 1), with a 64-bit BLAKE2b, the same on every machine
    and in every process. Texts are cut after, and padded at the end to, `sequence_length` tokens.

    Privacy: every row depends on its own text alone. A vocabulary counted from private texts does
    not: one text can add a word or push one out, and so change other rows. Besides, the list of
    words is itself a release. Hashing costs collisions instead: two words get the same id with
    probability 1 / (vocabulary_size - 1).

    Args:
        texts: sequence or array of N `str`.
        vocabulary_size: number of ids, padding included; at least 2.
        sequence_length: tokens kept, at least 1.

    Returns:
        int32 [N, sequence_length], each id in [0, vocabulary_size); 0 is padding.

    Raises:
        TypeError: if `texts` is one string or holds anything but `str`, or a size is no integer.
        ValueError: if a size is too small or too large for int32.
    """
    vocabulary_size = _checked_size(vocabulary_size, 2)

    def hashed(token):
        # Lone surrogates occur in badly decoded texts, and must not stop a run.
        digest = hashlib.blake2b(token.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return 1 + int.from_bytes(digest, "little") % (vocabulary_size - 1)

    return _rows(texts, sequence_length, hashed)


def common_words(texts: Sequence[str] | np.ndarray, vocabulary_size: int) -> tuple[str, ...]:
    """Returns the commonest words of *public* texts, for `word_ids`.

    Privacy: the list is a function of all texts, without noise. For private texts, it is a release
    that no epsilon covers.

    Args:
        texts: sequence of `str`.
        vocabulary_size: number of ids that `word_ids` is to have, padding and unknown included; at
            least 3.

    Returns:
        Tuple of at most vocabulary_size - 2 words, the commonest first; equally common ones in
        alphabetical order.

    Raises:
        TypeError, ValueError: as in `hash_tokens`; or if the texts hold no word.
    """
    vocabulary_size = _checked_size(vocabulary_size, 3)
    counts = collections.Counter()
    for row, text in enumerate(_checked_texts(texts)):
        counts.update(_tokens(text, row))
    if not counts:
        raise ValueError(f"There are no words in the {len(texts)} text(s). Pass texts with words.")
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return tuple(ranked[: vocabulary_size - 2])


def word_ids(
    texts: Sequence[str] | np.ndarray, words: Sequence[str], sequence_length: int
) -> np.ndarray:
    """Turns texts into ids by a list of words.

    Texts are split, cut and padded as by `hash_tokens`. Privacy: every row depends on its own text
    and on `words`, which must be public.

    Args:
        texts: sequence or array of N `str`.
        words: the words with an id of their own, without repetition, in lower case.
        sequence_length: tokens kept, at least 1.

    Returns:
        int32 [N, sequence_length]: 0 is padding, 1 any other word, 2 + i is words[i].

    Raises:
        TypeError, ValueError: as in `hash_tokens`; or if a word is listed twice.
    """
    ids = {word: index for index, word in enumerate(words, start=UNKNOWN_ID + 1)}
    if len(ids) != len(words):
        raise ValueError(
            f"Expected distinct words, got {len(words)}, of which {len(ids)} are distinct."
        )
    return _rows(texts, sequence_length, lambda token: ids.get(token, UNKNOWN_ID))


def _rows(texts, sequence_length, id_of):
    sequence_length = arguments.integer("sequence_length", sequence_length, at_least=1)
    rows = np.full((len(_checked_texts(texts)), sequence_length), PADDING_ID, dtype=np.int32)
    known = {}  # A text repeats words; each is looked up once.
    for row, text in enumerate(texts):
        for column, token in enumerate(_tokens(text, row)[:sequence_length]):
            if token not in known:
                known[token] = id_of(token)
            rows[row, column] = known[token]
    return rows


def _tokens(text, row):
    if not isinstance(text, str):
        raise TypeError(
            f"Expected every text to be a str, got {type(text).__name__} in "
            f"row {row}. Decode bytes with `.decode('utf-8')`."
        )
    return _TOKEN.findall(text.lower())


def _checked_texts(texts):
    if isinstance(texts, (str, bytes)):
        raise TypeError(
            f"Expected a sequence of texts, got a single {type(texts).__name__}. Put it in a list."
        )
    return texts


def _checked_size(vocabulary_size, least):
    vocabulary_size = arguments.integer("vocabulary_size", vocabulary_size, at_least=least)
    if vocabulary_size > 2**31:
        raise ValueError(
            f"Expected vocabulary_size <= 2**31, so that ids fit in int32, got "
            f"vocabulary_size={vocabulary_size}."
        )
    return vocabulary_size
