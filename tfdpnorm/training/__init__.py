"""Private training of Keras models."""

from tfdpnorm.choices import ENGINES
from tfdpnorm.training.callbacks.privacy_noise_as_dropout import PrivacyNoiseAsDropout
from tfdpnorm.training.callbacks.private_validation import PrivateValidation
from tfdpnorm.training.callbacks.weight_average import WeightAverage
from tfdpnorm.training.make_private import make_private
from tfdpnorm.training.nadam import NAdam
from tfdpnorm.training.private_model import PrivateModel
from tfdpnorm.training.public_rows import PublicBatch
from tfdpnorm.training.resume.run_folder import RunDir
from tfdpnorm.training.sensitivity_of_layers import total_l2_norm_clip
from tfdpnorm.training.views import Views

__all__ = [
    "ENGINES",
    "NAdam",
    "PrivacyNoiseAsDropout",
    "PrivateModel",
    "PrivateValidation",
    "PublicBatch",
    "RunDir",
    "Views",
    "WeightAverage",
    "make_private",
    "total_l2_norm_clip",
]
