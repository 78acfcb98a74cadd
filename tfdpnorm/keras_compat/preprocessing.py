"""Whether a text layer's vocabulary was given or learnt from data.

Private parts of Keras 2: `_lookup_layer` of TextVectorization and `_has_input_vocabulary` of the
lookup layers. Publicly a vocabulary that was passed in looks like one that `adapt()` found.
"""


def inner_lookup(text_vectorization):
    """Returns the lookup layer that a TextVectorization holds."""
    return text_vectorization._lookup_layer


def has_given_vocabulary(lookup):
    """Whether a StringLookup or IntegerLookup got its vocabulary as an argument."""
    return lookup._has_input_vocabulary
