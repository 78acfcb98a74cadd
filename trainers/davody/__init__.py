"""Davody et al. (2020): cells, settings and published figures."""
