"""What a training that is interrupted by hand has spent."""

import contextlib
import warnings

from tfdpnorm.errors import PrivacyWarning
from tfdpnorm.privacy.rounding import ceil_text


@contextlib.contextmanager
def spent_is_told(private, path):
    """Context in which a KeyboardInterrupt causes a warning that says what has been spent.

    Args:
        private: `PrivateModel` that is trained in it.
        path: Its run folder, or None.
    """
    try:
        yield
    except KeyboardInterrupt:
        if private.ledger.updates:
            warnings.warn(_told(private.ledger, path), PrivacyWarning, stacklevel=4)
        raise


def _told(ledger, path):
    spent = "What they released is"
    if ledger.guarantee_holds:
        spent = f"Epsilon {ceil_text(ledger.epsilon())} is"
    goes_on = "fit() continues in this process alone; with run_dir= a new one could resume the run."
    if path is not None:
        folder = f"RunDir({str(path)!r}, resume=True)"
        goes_on = f"fit() continues, and so does a new process with {folder}."
    return (
        f"Interrupted after {ledger.updates} of {ledger.plan.steps} updates. {spent} spent, "
        "whether you use the weights or not: another run on the same data adds to it. "
        f"{goes_on}"
    )
