"""Errors for models that one engine cannot train; another engine may, or may not."""

from tfdpnorm.errors import PrivacyError


def refusal_of_engine(what, remedy='Use engine="per_example" for this model.', kind=ValueError):
    """Returns the error for a model that only engine="per_example" supports.

    Its attributes `what`, without a full stop at its end, and `remedy`, a sentence that names that
    engine, are the two parts of its message. `kind` is `PrivacyError` if the verification failed.
    """
    error = kind(f"{what}. {remedy}")
    error.what, error.remedy = what, remedy
    return error


def is_of_engine(error):
    """Whether an error came from `refusal_of_engine`."""
    return hasattr(error, "remedy")


def refusal_of_coupling(message):
    """Returns the PrivacyError for a model in which examples meet, which no other engine mends.

    The engine "per_example" could train it, and each example would be alone in its batch: another
    model than the one that was written. So only a user can choose that.
    """
    error = PrivacyError(message)
    error.couples = True
    return error


def is_of_coupling(error):
    """Whether an error came from `refusal_of_coupling`."""
    return hasattr(error, "couples")
