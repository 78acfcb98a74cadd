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
from tfdpnorm.gradients.engines.tfp_model import tfp_model
from tfdpnorm.gradients.engines.tfp_vectorized import check_optimizer, tfp_vectorized


@dataclasses.dataclass(frozen=True)
class Engine:
    """A way to compute clipped sums.

    Attributes:
        name: The word for it in flags, records and statements.
        bind: Function `(model, optimizer, rows_mix, rows_per_example) -> clipped_sum`, where
            `clipped_sum(loss_fn, rows, variables, clipping)` gives a `ClippedSum`; see
            `tfdpnorm.gradients.per_example` for its arguments. It refuses an optimizer that the
            engine cannot work for.
        takes_mixing_rows: Whether the loss of a row may depend on the other private rows.
        takes_public_rows: Whether each example may be run together with public rows of its own.
        takes_clipping_options: Whether it takes more than plain `Clipping`.
        holds_gradients: Whether it holds one gradient per row, rows x parameters numbers, and
            little else.
        runs_rows_apart: Whether it runs each row by itself, so that no row can change the gradient
            of another other than through state.
        bounds_rounding: Whether what rounding adds to the sensitivity has the bound of
            `tfdpnorm.gradients.rounded_sums`.
        takes_unreached: Whether its clipped_sum takes `unreached` (see
            `tfdpnorm.gradients.per_example`). Others refuse variables that the loss does not reach.
        can_be_proved: Whether its clipped_sum takes `observe` and `broadcast` (see
            `tfdpnorm.gradients.book_keeping`).
        needs_tensorflow_privacy: Whether tensorflow-privacy computes its sums.
    """

    name: str
    bind: Callable
    takes_mixing_rows: bool = False
    takes_public_rows: bool = True
    takes_clipping_options: bool = True
    holds_gradients: bool = True
    runs_rows_apart: bool = False
    bounds_rounding: bool = False
    can_be_proved: bool = False
    takes_unreached: bool = False
    needs_tensorflow_privacy: bool = False

    @property
    def is_available(self):
        """Whether what it needs is there."""
        return not self.needs_tensorflow_privacy or _has_tensorflow_privacy()

    def check(self, *, rows_mix, public_rows_per_example, clipping):
        """Refuses what the engine cannot do, before anything is trained.

        Args:
            rows_mix: Whether the loss of a row depends on the other private rows (statistics mode
                "lot" with the full gradient).
            public_rows_per_example: Whether each example is run together with the public rows
                (statistics mode "example").
            clipping: `Clipping`.

        Raises:
            ValueError: with the engines that can.
        """
        if not self.is_available:
            others = _quoted(e.name for e in _ENGINES if not e.needs_tensorflow_privacy)
            raise ValueError(
                f"Expected engine={others} without tensorflow-privacy, got {self.name!r}, whose "
                "sums tensorflow-privacy computes. It works with TensorFlow 2.15, up to Python "
                f"3.11, and this is TensorFlow {tf.__version__}."
            )
        if rows_mix and not self.takes_mixing_rows:
            others = _quoted(e.name for e in available_engines() if e.takes_mixing_rows)
            raise ValueError(
                f'Expected engine={others} with statistics="lot", got {self.name!r}, which '
                "presumes that no example changes the gradient of another. Or use "
                'statistics_gradient="stop".'
            )
        if public_rows_per_example and not self.takes_public_rows:
            raise ValueError(
                'Expected engine="per_example" with statistics="example", which runs the public '
                f"rows anew for each example, got {self.name!r}."
            )
        if not clipping.is_plain and not self.takes_clipping_options:
            others = _quoted(e.name for e in available_engines() if e.takes_clipping_options)
            raise ValueError(
                'Expected clipping="flat" and clip_function="abadi" with '
                f"engine={self.name!r}, which clips as tensorflow-privacy does, got "
                f"{clipping.grouping!r} and {clipping.function!r}. Use engine={others}."
            )


@functools.cache
def _has_tensorflow_privacy():
    # With later releases it cannot be imported, though it may be installed.
    release = tuple(int(part) for part in tf.__version__.split(".")[:2])
    return release < (2, 16) and importlib.util.find_spec("tensorflow_privacy") is not None


def _quoted(names):
    return " or ".join(f'"{name}"' for name in names)


_ENGINES = (
    Engine(
        "book_keeping",
        lambda model, optimizer, rows_mix, rows_per_example: functools.partial(
            book_keeping, model, rows_per_example=rows_per_example
        ),
        takes_public_rows=False,
        holds_gradients=False,
        bounds_rounding=True,
        can_be_proved=True,
        takes_unreached=True,
    ),
    Engine(
        "per_example",
        lambda model, optimizer, rows_mix, rows_per_example: functools.partial(
            per_example, rows_mix=rows_mix
        ),
        takes_mixing_rows=True,
        runs_rows_apart=True,
        bounds_rounding=True,
        takes_unreached=True,
    ),
    Engine(
        "tfp_vectorized",
        lambda model, optimizer, rows_mix, rows_per_example: functools.partial(
            tfp_vectorized, check_optimizer(optimizer), rows_mix=rows_mix
        ),
        takes_mixing_rows=True,
        takes_clipping_options=False,
        holds_gradients=False,
        needs_tensorflow_privacy=True,
    ),
    Engine(
        "tfp_model",
        lambda model, optimizer, rows_mix, rows_per_example: tfp_model,
        takes_clipping_options=False,
        needs_tensorflow_privacy=True,
    ),
)

ENGINES = {engine.name: engine for engine in _ENGINES}


def engine_named(name):
    """Returns the `Engine` of a name.

    Raises:
        ValueError: listing the names.
    """
    return ENGINES[arguments.choice("engine", name, tuple(ENGINES))]


def available_engines():
    """Returns the list of `Engine`s that run here."""
    return [engine for engine in _ENGINES if engine.is_available]


def default_engine(*, rows_mix, public_rows_per_example):
    """Returns the fastest engine that can do what a model's statistics ask for (see `check`)."""
    return next(
        engine
        for engine in _ENGINES
        if (engine.takes_mixing_rows or not rows_mix)
        and (engine.takes_public_rows or not public_rows_per_example)
    )
