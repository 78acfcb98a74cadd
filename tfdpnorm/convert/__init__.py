"""Other forms of a trained model."""

from tfdpnorm.convert.fold import fold_public_statistics

__all__ = ["fold_public_statistics"]
