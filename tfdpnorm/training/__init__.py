"""Private training of Keras models."""

from tfdpnorm.choices import ENGINES
from tfdpnorm.training.callbacks.private_validation import PrivateValidation
from tfdpnorm.training.callbacks.weight_average import WeightAverage
from tfdpnorm.training.make_private import make_private
from tfdpnorm.training.private_model import PrivateModel

__all__ = ["ENGINES", "PrivateModel", "PrivateValidation", "WeightAverage", "make_private"]
