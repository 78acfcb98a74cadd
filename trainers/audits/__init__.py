"""Audits and attacks: programs that try to refute what this library claims, and their reports."""
