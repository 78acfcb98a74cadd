"""Ermis & Cemgil (2017): cells, settings, published figures, and readings of its accounting."""
