"""The conformance table: what is trained both by Keras and privately, without clip and noise."""

from tests.keras_conformance.callbacks import CALLBACKS
from tests.keras_conformance.losses import LOSSES
from tests.keras_conformance.networks import NETWORKS
from tests.keras_conformance.optimizers import OPTIMIZERS
from tests.keras_conformance.weights import WEIGHTS

# By the title that they have on the page.
GROUPS = {
    "Models": NETWORKS,
    "Losses": LOSSES,
    "Weights of examples": WEIGHTS,
    "Optimizers": OPTIMIZERS,
    "Callbacks": CALLBACKS,
}
CASES = [case for cases in GROUPS.values() for case in cases]
