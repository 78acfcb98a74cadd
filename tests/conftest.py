"""What holds for all tests: one thread an operation; a clean Keras; which cases are slow.

Several processes test side by side, each of them would start a thread for every core; and sums that
threads share come out in another order now and then, where some tests compare runs to the last bit.
"""

import fnmatch
import functools
import gc
import importlib.metadata
import os
import shutil
import sys
import tempfile

import pytest

from tests.clean_keras import reset_keras, reset_policy

# Before TensorFlow is loaded, here and in the programs that tests start.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
# TensorFlow switches oneDNN on by processor, and has no dilated transposed convolutions without it.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

# Ledgers and checkpoints wait for the disk at each entry: in memory, half the time of their tests.
_IN_MEMORY = "/dev/shm"
if "TMPDIR" not in os.environ and os.access(_IN_MEMORY, os.W_OK | os.X_OK):
    if shutil.disk_usage(_IN_MEMORY).free > 2**30:
        os.environ["TMPDIR"] = tempfile.tempdir = _IN_MEMORY


TFP_ENGINES = ("tfp_model", "tfp_vectorized")
_KERASES = {"keras_2_only": 3, "keras_3_only": 2}  # marks, and the Keras that skips them


@pytest.fixture(autouse=True)
def clean_keras():
    """No test sees the graph, the seed or the policy of another, nor knows its weights again."""
    reset_keras()
    forget_weights()
    yield
    reset_policy()


def forget_weights():
    """Equal seeds train equal weights: those of another test are not to be known again."""
    metadata = sys.modules.get("tfdpnorm.privacy.metadata")
    if metadata is not None:
        metadata._origins.clear()


@pytest.fixture(autouse=True, scope="module")
def what_stays_is_not_searched_again():
    """Imports and what Keras keeps: the garbage collector need not go through them each time.

    Late in a run, a collection took three seconds, and each trial of a search asks for one.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture
def set_policy():
    """Function that sets the global dtype policy; `clean_keras` puts it back."""
    from tfdpnorm.keras_compat.devices_and_precision import set_global_policy

    return set_global_policy


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "needs_tensorflow_privacy: skipped where tensorflow-privacy cannot be imported, as are the "
        "cases of its engines",
    )
    for own, other in _KERASES.items():
        config.addinivalue_line(
            "markers", f"{own}(reason): of what Keras {other} does not have or do; skipped with it"
        )
    config.addinivalue_line(
        "markers",
        "slow_cases(*ids): of a parametrized test, these cases are slow; shell-style patterns",
    )
    config.addinivalue_line(
        "markers", "quick_cases(*ids): of a parametrized test, all cases but these are slow"
    )


def needs_tensorflow_privacy(item):
    if item.get_closest_marker("needs_tensorflow_privacy"):
        return True
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    settings = [v.get("engine") if isinstance(v, dict) else v for v in values]
    return any(setting in TFP_ENGINES for setting in settings if isinstance(setting, str))


@functools.cache
def has_tensorflow_privacy():
    # Without loading TensorFlow: the collection of tests that do not need it is quick.
    try:
        importlib.metadata.version("tensorflow-privacy")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def version_of_keras():
    """The Keras of TensorFlow, 2 or 3; loads it."""
    from tfdpnorm.keras_compat.variables import KERAS_3

    return 3 if KERAS_3 else 2


@pytest.hookimpl(tryfirst=True)  # before -m looks at the marks
def pytest_collection_modifyitems(config, items):
    named, matched = set(), set()
    for item in items:
        if needs_tensorflow_privacy(item) and not has_tensorflow_privacy():
            item.add_marker(
                pytest.mark.skip(reason="tensorflow-privacy does not work with this TensorFlow")
            )
        for name, other in _KERASES.items():
            for mark in item.iter_markers(name):
                if version_of_keras() == other:
                    item.add_marker(pytest.mark.skip(reason=f"Keras {other}: {mark.args[0]}"))
        for mark in (*item.iter_markers("slow_cases"), *item.iter_markers("quick_cases")):
            fits = [p for p in mark.args if fnmatch.fnmatchcase(item.callspec.id, p)]
            named.update((item.function, pattern) for pattern in mark.args)
            matched.update((item.function, pattern) for pattern in fits)
            if bool(fits) == (mark.name == "slow_cases"):
                item.add_marker("slow")
    one_asked_for = any("[" in argument for argument in config.args)
    if named != matched and not one_asked_for:
        names = sorted(f"{pattern!r} of {test.__name__}" for test, pattern in named - matched)
        raise pytest.UsageError(
            f"Expected slow_cases and quick_cases to match cases, got {', '.join(names)}."
        )
