"""The engines by name: what each of them can do, and how it is called.

All engines give the same clipped sum. They differ in time, memory, and what they can take.
"""

import dataclasses
import functools
import importlib.util
from collections.abc import Callable

import tensorflow as tf

from tfdpnorm import arguments
from tfdpnorm.gradients.engines.book_keeping import book_keeping
from tfdpnorm.gradients.engines.per_example import per_example
from tfdpnorm.gradients.engines.tfp import check_optimizer, tfp_model, tfp_vectorized


@dataclasses.dataclass(frozen=True)
class Engine:
    """A way to compute clipped sums.

    Attributes:
        name: The word for it in flags, records and statements.
        bind: Function `(model, optimizer, rows_mix, rows_per_example) -> clipped_sum`, where
            `clipped_sum(loss_fn, rows, variables, clipping)` takes and returns what
            `tfdpnorm.gradients.per_example` does. It rejects an optimizer that it cannot work for.
        one_pass: Whether it runs all rows in one pass, through which verification can follow each
            of them: its clipped_sum takes `observe` and `broadcast` (see
            `tfdpnorm.gradients.book_keeping`).
        of_tensorflow_privacy: Whether tensorflow-privacy computes its sums. Those have plain
            `Clipping` and no bound on what rounding adds to the sensitivity (see
            `row_sums.rounded_sums`). Only other engines take `unreached`; these reject variables
            that the loss does not reach.
    """

    name: str
    bind: Callable
    one_pass: bool = False
    of_tensorflow_privacy: bool = False

    @property
    def is_available(self):
        """Whether what it needs is there."""
        return not self.of_tensorflow_privacy or _has_tensorflow_privacy()

    @property
    def runs_rows_apart(self):
        """Whether it runs each row by itself, so that rows affect others through state alone.

        It holds one gradient per row, and little else, and alone takes rows that mix on purpose.
        """
        return not (self.one_pass or self.of_tensorflow_privacy)

    def check(self, *, rows_mix, public_rows_per_example, clipping):
        """Rejects what the engine cannot do, before anything is trained, and names others that can.

        `rows_mix` says whether the loss of a row depends on the other private rows (statistics mode
        "lot" with the full gradient), `public_rows_per_example` whether each example is run
        together with the public rows (mode "example").
        """
        ours = " or ".join(f'"{e.name}"' for e in ENGINES.values() if not e.of_tensorflow_privacy)
        if not self.is_available:
            raise ValueError(
                f"engine={self.name!r} needs tensorflow-privacy and TensorFlow 2.15; this is "
                f"TensorFlow {tf.__version__}. Use engine={ours}; or, with Python 3.10 or 3.11 and "
                "in an environment of its own, pip install 'tfdpnorm[tensorflow-privacy]'."
            )
        if rows_mix and not self.runs_rows_apart:
            raise ValueError(
                f'Expected engine="per_example" with statistics="lot", got {self.name!r}, which '
                "assumes that no example changes the gradient of another. Or use "
                'statistics_gradient="stop".'
            )
        if public_rows_per_example and self.one_pass:
            raise ValueError(
                'Expected engine="per_example" with statistics="example", which runs the public '
                f"rows once per example, got {self.name!r}."
            )
        if self.of_tensorflow_privacy and not clipping.is_plain:
            raise ValueError(
                'Expected Clipping(grouping="flat", function="abadi") with '
                f"engine={self.name!r}, which clips as tensorflow-privacy does, got "
                f"{clipping.grouping!r} and {clipping.function!r}. Use engine={ours}."
            )


@functools.cache
def _has_tensorflow_privacy():
    # With later releases it cannot be imported, though it may be installed.
    release = tuple(int(part) for part in tf.__version__.split(".")[:2])
    return release < (2, 16) and importlib.util.find_spec("tensorflow_privacy") is not None


_ENGINES = (
    Engine(
        "book_keeping",
        lambda model, optimizer, rows_mix, rows_per_example: functools.partial(
            book_keeping, model, rows_per_example=rows_per_example
        ),
        one_pass=True,
    ),
    Engine(
        "per_example",
        lambda model, optimizer, rows_mix, rows_per_example: functools.partial(
            per_example, rows_mix=rows_mix
        ),
    ),
    Engine(
        "tfp_vectorized",
        lambda model, optimizer, *_: functools.partial(tfp_vectorized, check_optimizer(optimizer)),
        of_tensorflow_privacy=True,
    ),
    Engine("tfp_model", lambda *_: tfp_model, of_tensorflow_privacy=True),
)
ENGINES = {engine.name: engine for engine in _ENGINES}


def engine_named(name):
    """Returns the `Engine` of a name, or raises a ValueError that lists the names."""
    return ENGINES[arguments.choice("engine", name, tuple(ENGINES))]


def available_engines():
    """Returns the list of `Engine`s that run here."""
    return [engine for engine in ENGINES.values() if engine.is_available]
