"""Keras Tuner's distributed mode: a chief hands out the trials of one search, workers train them.

The chief alone opens the folder of the search, with its ledger and its secret, and ends the search.
Workers train trials in the same folder, which all of them see, and report scores to the chief.
"""

import os

_CHIEF = "chief"
_ADDRESS, _PORT, _ID = (f"KERASTUNER_{name}" for name in ("ORACLE_IP", "ORACLE_PORT", "TUNER_ID"))


def is_distributed():
    """Whether several processes are on one search."""
    return _ADDRESS in os.environ


def is_worker():
    """Whether this process trains trials that another hands out."""
    return is_distributed() and _CHIEF not in os.environ.get(_ID, "")


def check_distributed_mode():
    """Rejects a part of the environment variables of Keras Tuner's distributed mode.

    Raises:
        ValueError: naming what is missing.
    """
    missing = [name for name in (_PORT, _ID) if name not in os.environ]
    if is_distributed() and missing:
        raise ValueError(
            f"{_ADDRESS}, {_PORT} and {_ID} go together, for several processes on one search, but "
            f"there is no {' and no '.join(missing)}. Set all of them, or none."
        )


def tuner_file(folder, tuner_id):
    """Path of a tuner's own state, the same for a chief and for the only process of a search."""
    return os.path.join(folder, f"{tuner_id if is_worker() else 'tuner0'}.json")
