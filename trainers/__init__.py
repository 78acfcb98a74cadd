"""Flag-driven training programs, one per experiment: `python -m trainers.davody_dp --help`."""
