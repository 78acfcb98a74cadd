"""What all fuzzed targets share: how many inputs they get, their count, and what a refusal is."""

import collections
import functools
import os
import re
import traceback

from hypothesis import HealthCheck, Phase, given, settings

from tfdpnorm.keras_compat.graphs import cause_of

EXAMPLES = "TFDPNORM_FUZZ_EXAMPLES"
_COMMON = dict(
    deadline=None,
    database=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
)
settings.register_profile("quick", derandomize=True, **_COMMON)
settings.register_profile("fuzz", derandomize=False, print_blob=True, **_COMMON)

# By target, how often each outcome was met.
TRIED = collections.defaultdict(collections.Counter)


def examples_asked():
    """The number in the environment, which chooses the profile "fuzz"; None for "quick".

    Raises:
        ValueError: if it is no number of examples.
    """
    text = os.environ.get(EXAMPLES, "")
    if text and not (text.isascii() and text.isdigit() and int(text)):
        raise ValueError(f"Expected {EXAMPLES} to be a number of examples, got {text!r}.")
    return int(text) if text else None


def fuzz(*strategies, quick, share=1.0, **named):
    """Makes a test a fuzzed target.

    The test returns a word for what became of the input ("refused", "read", ...), by which inputs
    are counted.

    Args:
        *strategies: As for `hypothesis.given`.
        quick: Inputs in the profile "quick", whose sequence is always the same.
        share: Inputs for each example asked for in the profile "fuzz". Below 1 for targets that
            train or load, of which a failing input is shown as it was met, not shrunk for minutes.
        **named: As for `hypothesis.given`.
    """
    asked = examples_asked()
    profile = settings.get_profile("quick" if asked is None else "fuzz")
    count = quick if asked is None else max(1, round(share * asked))
    phases = [Phase.explicit, Phase.generate, *([Phase.shrink] if share >= 1 else [])]

    def decorate(test):
        @functools.wraps(test)
        def counted(*args, **kwargs):
            outcomes = TRIED[test.__name__.removeprefix("test_")]
            try:
                outcomes[test(*args, **kwargs)] += 1
            except Exception:  # Not what ends an input that Hypothesis gave up drawing.
                outcomes["failed"] += 1
                raise

        chosen = settings(profile, max_examples=count, phases=phases)
        return chosen(given(*strategies, **named)(counted))

    return decorate


class Refusal:
    """What `attempt` returns where the input was rejected.

    Attributes:
        error: The exception.
    """

    def __init__(self, error):
        self.error = error


def attempt(call, errors=(ValueError, TypeError)):
    """Returns what `call()` does, or a `Refusal` if it raised one of `errors` in clear words.

    Every other exception, and one that does not say what was expected, is a failure.
    """
    try:
        return call()
    except errors as error:
        check_clear(error)
        return Refusal(error)


def _is_of_a_state(error, told):
    """Whether this library says in one line what happened, and then what to do."""
    frames = list(traceback.walk_tb(cause_of(error).__traceback__))
    is_ours = frames[-1][0].f_globals["__name__"].startswith("tfdpnorm.")
    return is_ours and re.fullmatch(r"[A-Za-z].*[.:] [A-Z].*\.", told) is not None


def check_clear(error):
    """Asserts that an exception is clear: what was expected, or what happened and what to do."""
    # The text of an OSError has no full stop, since the path follows.
    told = f"{error.strerror}." if isinstance(error, OSError) and error.errno else str(error)
    if told.startswith("in user code:"):  # AutoGraph writes the call stack into the message.
        told = told.rsplit("Error: ", 1)[-1]
    if not told.startswith("Expected ") and not _is_of_a_state(error, told):
        raise AssertionError(f"{type(error).__name__}: {told}") from error
