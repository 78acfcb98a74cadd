"""Private training of Keras models."""

from tfdpnorm.training.engines import ENGINES
from tfdpnorm.training.make_private import make_private
from tfdpnorm.training.private_model import PrivateModel
from tfdpnorm.training.weight_average import WeightAverage

__all__ = ["ENGINES", "PrivateModel", "WeightAverage", "make_private"]
