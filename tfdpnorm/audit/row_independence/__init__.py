"""Before training: whether each example has a gradient of its own (per-example independence)."""
