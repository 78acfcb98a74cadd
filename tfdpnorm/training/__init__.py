"""Private training of Keras models."""

from tfdpnorm.choices import ENGINES
from tfdpnorm.training.callbacks.privacy_noise_as_dropout import (
    PrivacyNoiseAsDropout,
    total_l2_norm_clip,
)
from tfdpnorm.training.callbacks.privacy_tensorboard import PrivacyTensorBoard
from tfdpnorm.training.callbacks.private_validation import PrivateValidation
from tfdpnorm.training.callbacks.progress import Progress
from tfdpnorm.training.callbacks.weight_average import WeightAverage
from tfdpnorm.training.make_private import make_private
from tfdpnorm.training.nadam import NAdam
from tfdpnorm.training.private_model import PrivateModel
from tfdpnorm.training.provenance import weights_digest
from tfdpnorm.training.public_rows import PublicBatch
from tfdpnorm.training.resume.run_folder import RunDir
from tfdpnorm.training.suggested_rate import suggested_optimizer
from tfdpnorm.training.suggestions import Suggestion, suggest
from tfdpnorm.training.views import Views

__all__ = [
    "ENGINES",
    "NAdam",
    "PrivacyNoiseAsDropout",
    "PrivacyTensorBoard",
    "PrivateModel",
    "PrivateValidation",
    "Progress",
    "PublicBatch",
    "RunDir",
    "Suggestion",
    "Views",
    "WeightAverage",
    "make_private",
    "suggest",
    "suggested_optimizer",
    "total_l2_norm_clip",
    "weights_digest",
]
