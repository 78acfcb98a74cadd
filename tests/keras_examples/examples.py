"""Six examples, each with sequences of as many steps as the physical batch has examples."""

import functools

from tests.keras_examples.case import WORDS, Case, P, ids, spec
from tests.keras_examples.miniature_gpt import miniature_gpt
from tests.keras_examples.sequence_to_sequence import sequence_to_sequence
from tests.keras_examples.text_transformer import text_transformer
from tests.keras_examples.unet import unet
from tests.keras_examples.variational_autoencoder import (
    as_it_is,
    of_the_mean,
    reconstruction,
    variational_autoencoder,
)
from tests.keras_examples.vision_transformer import vision_transformer

EXAMPLES = {
    "text_transformer": Case(text_transformer, ids(P), ids()),
    "vision_transformer": Case(vision_transformer, spec(8, P // 2, 1), ids()),
    "miniature_gpt": Case(miniature_gpt, ids(P), ids(P), most=WORDS),
    "unet": Case(unet, spec(P, P, 2), ids(P, P)),
    "sequence_to_sequence": Case(
        sequence_to_sequence, (spec(P, WORDS), spec(P, WORDS)), ids(P), most=WORDS
    ),
    "convolutional_vae": Case(
        variational_autoencoder,
        spec(P, P, 1),
        (spec(P, P, 1), spec(1)),
        [reconstruction, as_it_is],
    ),
}
# Their embeddings of positions read no example, and give [P, D] where each step is one row.
WITH_POSITIONS = ("text_transformer", "vision_transformer", "miniature_gpt")


def without_dropout(name):
    """The case of a name, of which two runs are the same."""
    case = EXAMPLES[name]
    if name == "convolutional_vae":
        return case._replace(build=functools.partial(case.build, draw=of_the_mean))
    if name not in WITH_POSITIONS:
        return case
    return case._replace(build=functools.partial(case.build, rate=0.0))
