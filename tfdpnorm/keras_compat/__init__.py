"""All that leans on private or version-bound parts of Keras."""
