"""The engines that are compared, by name, and what each needs to run.

Nothing is imported here: `benchmarks.worker` imports the module of the one engine it runs. Such a
module has a function `prepare(engine, model_name, x, y) -> Prepared`.
"""

from collections.abc import Callable
from typing import NamedTuple

# Of every private engine.
L2_NORM_CLIP = 1.0
NOISE_MULTIPLIER = 1.0
LEARNING_RATE = 0.01


class Engine(NamedTuple):
    """Where an engine is, and what it needs.

    Attributes:
        module: Module with `prepare`.
        plain: The engine that makes the ordinary step of the same framework.
        peer: Whether it runs under --peer_python.
        replaces_norm: Whether it can replace the normalisation of a model by a private one.
    """

    module: str
    plain: str
    peer: bool = False
    replaces_norm: bool = False


class Prepared(NamedTuple):
    """A training step, ready to run.

    Attributes:
        run: Function of nothing that makes `updates` updates of the weights and returns when they
            are done.
        parameters: Number of trained numbers.
        versions: Dict of the frameworks' versions.
        trace: Function of nothing that traces or compiles `run` without running it; called before
            the first `run`.
        updates: How many updates a `run` makes.
    """

    run: Callable
    parameters: int
    versions: dict
    trace: Callable = lambda: None
    updates: int = 1


class UnsupportedError(Exception):
    """An engine cannot train a model; the message says why."""


def _engines():
    for name in ("keras", "book_keeping", "per_example", "tfp_vectorized", "tfp_model"):
        yield name, Engine("benchmarks.keras_engines", "keras", replaces_norm=True)
    for name in ("keras_fit", "book_keeping_fit"):
        yield name, Engine("benchmarks.fit_engines", "keras_fit", replaces_norm=True)
    for name in (
        "tfp_native_optimizer",
        "tfp_native_model",
        "tfp_native_model_no_xla",
        "tfp_native_fast_clipping",
    ):
        yield name, Engine("benchmarks.tfp_engines", "keras")
    for name in ("torch", "opacus_hooks", "opacus_ghost"):
        yield name, Engine("benchmarks.peers.opacus_engines", "torch", peer=True)
    for name in ("jax", "jax_vmap"):
        yield name, Engine("benchmarks.peers.jax_engines", "jax", peer=True)


ENGINES = dict(_engines())
