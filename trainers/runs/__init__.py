"""Runs: a spec goes in, a record comes out."""
