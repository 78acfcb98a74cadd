"""Properties of a trained model: curvature of its loss, scale of its activations. Not private.

It reads whatever data it is given, and its results depend on them.
"""
