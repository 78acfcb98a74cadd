"""Translation letter by letter with two LSTMs, after Keras' example of sequence to sequence.

The last states of the encoder are the first ones of the decoder.
"""

from tensorflow import keras

from tests.keras_examples.case import WORDS, P

layers = keras.layers
UNITS = 4


def sequence_to_sequence(kind=layers.LSTM):
    """Two sequences [rows, P, letters] to logits [rows, P, letters] of the second one's next."""
    source, target = keras.Input((P, WORDS)), keras.Input((P, WORDS))
    _, *states = kind(UNITS, return_state=True)(source)
    decoder = kind(UNITS, return_sequences=True, return_state=True)
    decoded, *_ = decoder(target, initial_state=states)
    return keras.Model([source, target], layers.Dense(WORDS)(decoded))
