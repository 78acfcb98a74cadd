"""The engines: ways to compute the sum of clipped per-example gradients."""
