"""The records of runs: their fields, files, software and devices, and older versions."""
