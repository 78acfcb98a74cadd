"""Private batches, the sources that they are read from, and public batches."""

from tfdpnorm.data.examples import Examples
from tfdpnorm.data.image_folder import image_folder
from tfdpnorm.data.poisson import Lot, PoissonBatches, poisson_batches
from tfdpnorm.data.public import (
    check_public_batch,
    match_images,
    split_public,
    take_public_batch,
    take_public_examples,
    unlike_public,
)
from tfdpnorm.data.saved_examples import load_examples, save_examples
from tfdpnorm.data.sources import MappedSource
from tfdpnorm.data.synthetic import SyntheticRows, synthetic_rows
from tfdpnorm.data.text import common_words, hash_tokens, word_ids

__all__ = [
    "Examples",
    "Lot",
    "MappedSource",
    "PoissonBatches",
    "SyntheticRows",
    "check_public_batch",
    "common_words",
    "hash_tokens",
    "image_folder",
    "load_examples",
    "match_images",
    "poisson_batches",
    "save_examples",
    "split_public",
    "synthetic_rows",
    "take_public_batch",
    "take_public_examples",
    "unlike_public",
    "word_ids",
]
