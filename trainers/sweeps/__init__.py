"""Trains the runs of a table whose records are missing."""
