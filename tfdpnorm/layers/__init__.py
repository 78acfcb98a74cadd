"""Keras layers for networks that are trained under differential privacy."""

from tfdpnorm.layers.batch_normalization import FrozenBatchNormalization, NoisedBatchNormalization
from tfdpnorm.layers.public_batch_normalization import (
    PublicBatchNormalization,
    PublicCentering,
    PublicMomentsLayer,
)
from tfdpnorm.layers.public_statistics import (
    PublicStatistics,
    joint_pass,
    pull_back,
    record_pass,
    use_pass,
)
from tfdpnorm.layers.random_crop_and_flip import RandomCropAndFlip
from tfdpnorm.layers.random_patch_features import RandomPatchFeatures
from tfdpnorm.layers.scale_norm import ScaleNorm
from tfdpnorm.layers.scale_to_bounds import ScaleToBounds
from tfdpnorm.layers.scattering_features import ScatteringFeatures
from tfdpnorm.layers.variational_dropout import (
    VariationalDropout,
    VariationalDropoutConv2D,
    VariationalDropoutDense,
    alpha_of_rate,
    kl_to_log_uniform,
    rate_of_alpha,
)
from tfdpnorm.layers.weight_noise import WeightNoise, with_weight_noise
from tfdpnorm.layers.weight_standardized_conv2d import WeightStandardizedConv2D
from tfdpnorm.layers.with_variational_dropout import (
    prune,
    sparsity_report,
    with_variational_dropout,
)

__all__ = [
    "FrozenBatchNormalization",
    "NoisedBatchNormalization",
    "PublicBatchNormalization",
    "PublicCentering",
    "PublicMomentsLayer",
    "PublicStatistics",
    "RandomCropAndFlip",
    "RandomPatchFeatures",
    "ScaleNorm",
    "ScaleToBounds",
    "ScatteringFeatures",
    "VariationalDropout",
    "VariationalDropoutConv2D",
    "VariationalDropoutDense",
    "WeightNoise",
    "WeightStandardizedConv2D",
    "alpha_of_rate",
    "joint_pass",
    "kl_to_log_uniform",
    "prune",
    "pull_back",
    "rate_of_alpha",
    "record_pass",
    "sparsity_report",
    "use_pass",
    "with_variational_dropout",
    "with_weight_noise",
]
