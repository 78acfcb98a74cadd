"""Persons who own several examples, where examples are sampled."""

import numpy as np

from tfdpnorm import arguments
from tfdpnorm.errors import PrivacyError


def check_rows_per_person(owners, most):
    """Checks that no person owns more examples than a statement will say.

    Args:
        owners: [N] whose each example is: integers or strings.
        most: The `most_rows_per_person` of the run, >= 1.

    Raises:
        ValueError: if a person owns more, and for owners of another form. The message tells neither
            who it is nor how many there are.
    """
    most = arguments.whole("most_rows_per_person", most, at_least=1)
    try:
        known = np.asarray(owners)
    except ValueError:  # whose message may show them
        known = np.zeros(())
    if known.ndim != 1 or known.dtype.kind not in "iuSU" or known.size == 0:
        raise ValueError(
            "Owners must be integers or strings, one for each example. Number the persons from 0, "
            "and give each example without a known owner its own number."
        ) from None
    if np.unique(known, return_counts=True)[1].max() > most:
        raise PrivacyError(
            f"Expected at most most_rows_per_person={most} examples of each person, got a person "
            "with more. Leave examples out by a rule that does not depend on them, or give a "
            "larger number."
        )
