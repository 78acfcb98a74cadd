"""The records of runs: their fields, files, what they were made with, and older versions."""
