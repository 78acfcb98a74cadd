"""Searches for settings of cells: what they try, how trials are chosen and trained."""
