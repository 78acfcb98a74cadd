"""The privacy noise: secret words, normal numbers from them, and the grid that it lies on."""
