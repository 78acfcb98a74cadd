"""Measurements of time and memory; none of them is a test."""
