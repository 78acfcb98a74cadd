"""Private training of Keras models."""

from tfdpnorm.training.engines import ENGINES
from tfdpnorm.training.make_private import make_private
from tfdpnorm.training.private_model import PrivateModel
from tfdpnorm.training.private_validation import PrivateValidation
from tfdpnorm.training.weight_average import WeightAverage

__all__ = ["ENGINES", "PrivateModel", "PrivateValidation", "WeightAverage", "make_private"]
