"""From a trained model to other forms of it."""

from tfdpnorm.convert.fold import fold_public_statistics

__all__ = ["fold_public_statistics"]
