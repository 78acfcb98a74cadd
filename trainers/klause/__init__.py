"""Klause et al. (2022): cells, settings and published figures."""
