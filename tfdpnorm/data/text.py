"""Texts as rows of token ids, without a vocabulary taken from the texts."""

import hashlib
import re

import numpy as np

from tfdpnorm.data import _arrays

PADDING_ID = 0
# Letters and digits of any script; the underscore separates, as every other sign does.
_TOKEN = re.compile(r"[^\W_]+")


def hash_tokens(texts, vocabulary_size, sequence_length):
    """Turns texts into ids by hashing each token.

    A text is put in lower case and split at everything that is not a letter or a digit; token w
    becomes 1 + hash(w) mod (vocabulary_size - 1), with a 64-bit BLAKE2b, the same on every machine
    and in every process. Texts are cut after, and padded at the end to, `sequence_length` tokens.

    Privacy: every row depends on its own text alone. A vocabulary counted from private texts does
    not: one text can bring a word in or push one out, and so change other rows, and the list of
    words is itself a release. Hashing costs collisions instead: of two words, a share of
    1 / (vocabulary_size - 1) meet in one id.

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
    vocabulary_size = _arrays.integer_at_least(vocabulary_size, 2, "vocabulary_size")
    sequence_length = _arrays.integer_at_least(sequence_length, 1, "sequence_length")
    if vocabulary_size > 2**31:
        raise ValueError(f"Expected vocabulary_size <= 2**31, so that ids fit in int32, received "
                         f"vocabulary_size={vocabulary_size}.")
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"Expected a sequence of texts, received one {type(texts).__name__}. "
                        f"Put it in a list.")
    ids = np.full((len(texts), sequence_length), PADDING_ID, dtype=np.int32)
    known = {}  # A text repeats words; each is hashed once.
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"Expected every text to be a str, received {type(text).__name__} in "
                            f"row {row}. Decode bytes with `.decode('utf-8')`.")
        for column, token in enumerate(_TOKEN.findall(text.lower())[:sequence_length]):
            if token not in known:
                known[token] = _token_id(token, vocabulary_size)
            ids[row, column] = known[token]
    return ids


def _token_id(token, vocabulary_size):
    # Lone surrogates occur in badly decoded texts, and must not stop a run.
    digest = hashlib.blake2b(token.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return 1 + int.from_bytes(digest, "little") % (vocabulary_size - 1)
