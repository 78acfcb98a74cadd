"""Keras callbacks of private training."""
