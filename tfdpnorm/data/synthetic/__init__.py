"""Public rows that are nobody's data: made from a shape, a range and a seed."""

from tfdpnorm.data.synthetic.rows import KINDS, SyntheticRows, is_synthetic, synthetic_rows

__all__ = ["KINDS", "SyntheticRows", "is_synthetic", "synthetic_rows"]
