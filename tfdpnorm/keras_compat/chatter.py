"""What TensorFlow's native parts print past Python, whatever TF_CPP_MIN_LOG_LEVEL says."""

import contextlib
import os
import sys


@contextlib.contextmanager
def silent_stderr():
    """Context without what native code prints to the error output; errors are raised as ever."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)
