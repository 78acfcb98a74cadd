"""The records of runs: their fields, files, provenance, and what older versions wrote."""
