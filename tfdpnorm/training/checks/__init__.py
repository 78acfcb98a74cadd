"""Checks of private training: every rejection comes with its remedy."""
