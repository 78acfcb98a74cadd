"""Public rows in training: synthetic rows, and the public and private streams of a network."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm import arguments
from tfdpnorm.choices import AUTO, PULL_BACKS
from tfdpnorm.data import SyntheticRows
from tfdpnorm.data.arrays import map_leaves
from tfdpnorm.errors import PrivacyWarning, level_of_caller
from tfdpnorm.gradients.clipping import float32_factor
from tfdpnorm.gradients.map_rows import map_rows
from tfdpnorm.independence.examples import input_specs, integer_bound
from tfdpnorm.keras_compat.inputs import input_names, rows_by_input, rows_in_structure_of
from tfdpnorm.keras_compat.models import sublayers, symbolic_inputs
from tfdpnorm.keras_compat.variables import raw
from tfdpnorm.layers import PublicMomentsLayer, PublicStatistics, joint_pass, record_pass, use_pass
from tfdpnorm.layers.public_batch_normalization import called_with_public_moments
from tfdpnorm.training.metrics import Shown
from tfdpnorm.training.pull_back_weight import automatic_weight

if TYPE_CHECKING:
    from collections.abc import Sequence

_LITTLE_SIGNAL = 7.0  # below it shrinkage helped, above it did harm: docs/which_normalisation.md
_LARGEST_DRAWING = 64  # pixels of a side; MNIST and its like have 28
_REMEDY = "Make the rows with tfdpnorm.data.synthetic_rows, and pass them as public_batch."


@dataclasses.dataclass(frozen=True, eq=False)
class PublicBatch:
    """The public rows of a private training, and how gradients go back through their statistics.

    The guarantee is the same for any `pull_back` and `pull_back_weight`.

    Attributes:
        rows: [M, ...] rows that are not private, a structure like the model's inputs. They must be
            chosen without looking at the private data, and not be part of it. Or "synthetic",
            "synthetic:fractal" and the like, or `tfdpnorm.data.SyntheticRows`: rows that are
            generated for the model's inputs (see `tfdpnorm.data.synthetic_rows`), images in [0, 1],
            token ids, or numbers of mean 0 and variance 1.
        pull_back: "shrunk": the noisy gradients with respect to gamma and beta are shrunk before
            they are pulled back through the public statistics, each layer's by its own ratio of
            signal to noise (see `tfdpnorm.training.post_processing.shrunk`). "whole": they are
            not. "auto": shrunk if the whole training has little signal, by the plan and the number
            of weights (see `tfdpnorm.training.suggested_rate`). Shrinkage acts on one update. Over
            many updates noise averages out, and what shrinkage takes away does not.
        pull_back_weight: Factor > 0 on the gradients with respect to gamma and beta of public-batch
            layers before clipping, undone after the noise. They are small compared with those of
            the kernels, and the pull-back multiplies their noise: a factor above 1 gives them less
            noise for a share of the clipping norm. "auto" computes it from
            public numbers at the initial weights (see `tfdpnorm.training.pull_back_weight`).

    Raises:
        ValueError: for a value out of its range.

    Example::

        public_batch = tfdpnorm.PublicBatch(public_rows, pull_back_weight=1.0)
        private = tfdpnorm.make_private(model, plan, public_batch=public_batch)
    """

    rows: Any
    pull_back: str = AUTO
    pull_back_weight: float | str = AUTO

    def __post_init__(self):
        arguments.choice("pull_back", self.pull_back, (AUTO, *PULL_BACKS))
        if self.pull_back_weight != AUTO:
            weight = float32_factor("pull_back_weight", self.pull_back_weight)
            object.__setattr__(self, "pull_back_weight", weight)

    @classmethod
    def of(cls, rows: Any) -> PublicBatch | None:
        """Returns a `PublicBatch` unchanged; wraps rows in one; None for None."""
        return rows if rows is None or isinstance(rows, cls) else cls(rows)

    @property
    def is_synthetic(self) -> bool:
        """Whether the rows are to be generated for a model."""
        return isinstance(self.rows, (str, SyntheticRows))

    def for_model(self, model: keras.Model) -> tuple[PublicBatch, str | None]:
        """Checks the rows against the inputs of a model; generates them if they are synthetic.

        Args:
            model: The Keras model whose inputs they are.

        Returns:
            Pair (`PublicBatch` of arrays, their kinds in words if generated).

        Raises:
            ValueError: for rows of unequal shapes, fewer than 2, or values that are not finite; and
                as `synthetic_batch` does.
        """
        kinds, rows = None, self.rows
        if self.is_synthetic:
            rows, kinds = synthetic_batch(model, rows)
        rows = _arrays(rows, model)
        tf.nest.map_structure(_check_has_moments, rows)
        _check_fits(rows, model)
        return dataclasses.replace(self, rows=rows), kinds


def _arrays(rows, model):
    """Rows as arrays [M, ...] in dicts and tuples.

    A list holds the rows of one array; or arrays, for a model of as many inputs.
    """

    def array(value, name):
        try:
            return np.asarray(value)
        except ValueError:
            raise ValueError(
                f"Expected {name} with rows of one shape, got a {type(value).__name__} of rows of "
                "several shapes. Several inputs go in a tuple or a dict of arrays."
            ) from None

    if isinstance(rows, list) and len(tf.nest.flatten(symbolic_inputs(model))) == len(rows) > 1:
        rows = tuple(rows)
    return map_leaves(array, rows, "public_batch")


def _check_has_moments(rows):
    """Rejects an array [M, ...] of public rows that has no moments, whatever the private data."""
    count = len(rows) if rows.ndim else 0
    if count < 2:
        raise ValueError(
            f"Expected a public_batch of at least 2 rows, got {count}: one row alone has variance "
            "0 in every channel of a dense layer. Pass some 128 rows or more."
        )
    if rows.dtype.kind not in "biuf":
        raise ValueError(
            f"Expected a public_batch of booleans, integers or floats, got dtype {rows.dtype}."
        )
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        count = int((~np.isfinite(rows)).sum())
        raise ValueError(
            f"Expected finite values in public_batch, got {count} that are NaN or infinite. Remove "
            "the rows that hold them."
        )


def _check_fits(rows, model):
    """Refuses rows of as many axes as an input of the model, but of other sizes."""
    inputs = symbolic_inputs(model)
    if inputs is None:
        return
    names = input_names(model)
    parts = zip(names, tf.nest.flatten(inputs), rows_by_input(model, rows), strict=False)
    for name, tensor, array in parts:
        wanted = tf.TensorShape(tensor.shape)[1:]
        if wanted.rank == array.ndim - 1 and not wanted.is_compatible_with(array.shape[1:]):
            of_input = f" for input {name!r}" if len(names) > 1 else ""
            raise ValueError(
                f"Expected public rows of shape {tuple(wanted)}, as the model takes, got "
                f"{array.shape[1:]}{of_input}. Prepare them like the private ones."
            )


def synthetic_batch(model: keras.Model, asked: SyntheticRows | str) -> tuple[Any, str]:
    """Makes the synthetic rows that fit the inputs of a model. No data are looked at.

    Inputs of rank 4 are treated as images; whole numbers, and the inputs of a first embedding
    in a Sequential model, as token ids; all others as numbers of mean 0 and variance 1.

    Returns a structure of arrays [M, ...] like the inputs, and words for the kinds of rows.
    Raises ValueError if the shapes of the inputs are not known, or no rows can be made for them.
    """
    specs, inputs, settled = _settled(model, asked)
    for each, (shape, _) in zip(settled, inputs, strict=True):
        if each.kind == "ink" and not _names_kind(asked) and max(shape[:2]) > _LARGEST_DRAWING:
            warnings.warn(
                f'The synthetic rows are of kind "ink", like drawings on an empty ground, and '
                f"images of {shape[0]} x {shape[1]} pixels seldom are: scans and X-rays fill the "
                'frame. Pass public_batch="synthetic:fractal", or "synthetic:ink" to keep them.',
                PrivacyWarning,
                stacklevel=level_of_caller(),
            )
    rows = [each.rows(*of) for each, of in zip(settled, inputs, strict=True)]
    return tf.nest.pack_sequence_as(specs, rows), ", ".join(dict.fromkeys(map(str, settled)))


def _names_kind(asked):
    return ":" in asked if isinstance(asked, str) else asked.kind is not None


def kinds_of_synthetic(model: keras.Model, asked: SyntheticRows | str = "synthetic") -> str:
    """Returns words for the kinds of rows of `synthetic_batch`, or raises as it does."""
    return ", ".join(dict.fromkeys(map(str, _settled(model, asked)[2])))


def _settled(model, asked):
    """The specs of the inputs; their shapes and numbers of ids; and the `SyntheticRows` of each."""
    asked = SyntheticRows.named(asked) if isinstance(asked, str) else asked
    specs = input_specs(model)
    if specs is None:
        raise ValueError(
            "The inputs of the model are unknown, and a synthetic public_batch needs them. Call "
            f"the model on a batch first. Or: {_REMEDY}"
        )
    inputs = [(tuple(s.shape[1:]), _num_tokens(model, s)) for s in tf.nest.flatten(specs)]
    return specs, inputs, [asked.settled(*of) for of in inputs]


def _num_tokens(model, spec):
    """The number of ids of an input of token ids; None for one of numbers."""
    if spec.shape.rank is None or None in spec.shape[1:]:
        raise ValueError(
            f"Expected an input of known shape for a synthetic public_batch, got {spec.shape}. "
            f"{_REMEDY}"
        )
    if not (spec.dtype.is_integer or spec.dtype.is_floating):
        raise ValueError(
            f"Expected an input of numbers for a synthetic public_batch, got {spec.dtype.name}. "
            f"{_REMEDY}"
        )
    # Floats may be token ids: Keras declares the inputs of a Sequential model as such.
    layers = model.layers if isinstance(model, keras.Sequential) else []
    if not (spec.dtype.is_integer or (layers and isinstance(layers[0], keras.layers.Embedding))):
        return None
    count = integer_bound(model, default=None)
    if count is None:
        raise ValueError(
            "Synthetic rows cannot be made: the input is of whole numbers, and no embedding says "
            f"how many there are. {_REMEDY}"
        )
    return count


class Streams:
    """Runs a model's private rows with the statistics that its layers ask for.

    Args:
        model: A Keras model, with or without layers that have public moments.
        public: `PublicBatch` of arrays or tensors; None without such layers.
        signal: S of the training, see `tfdpnorm.training.suggested_rate`.
        rows_are_generated: Whether the public rows were made without any data.

    Attributes:
        shrinks: Whether gradients are shrunk before the pull-back.
        pull_back_weight: The weight of gammas and betas in the clip; of "auto", 1 until `settle`.
        mode: "none", "public" (which includes "blend": both use recorded public moments),
            "example" or "lot".
        statistics: The layers' own name of the mode, for records and statements.
    """

    def __init__(
        self,
        model: keras.Model,
        public: PublicBatch | None = None,
        signal: float = math.inf,
        *,
        rows_are_generated: bool = False,
    ) -> None:
        self.model, self.rows_are_generated = model, rows_are_generated
        asked = 1.0 if public is None else public.pull_back_weight
        self._is_auto = asked == AUTO
        self.pull_back_weight = 1.0 if self._is_auto else asked
        pull_back = "whole" if public is None else public.pull_back
        shrinks = pull_back == AUTO and signal < _LITTLE_SIGNAL
        self.shrinks = pull_back == "shrunk" or shrinks
        self.layers = [x for x in sublayers(model) if isinstance(x, PublicMomentsLayer)]
        named = sorted({layer.statistics for layer in self.layers})
        self.statistics = "+".join(named) if named else "none"
        if not named:
            self.mode = "none"
        elif set(named) <= {"public", "blend"}:
            self.mode = "public"
        elif len(named) == 1:
            self.mode = named[0]
        else:
            raise ValueError(
                'Expected all layers with public moments to be "public" or "blend", or all '
                f'"example", or all "lot", got {named} in one model.'
            )
        self.full_gradient = any(layer.statistics_gradient == "full" for layer in self.layers)
        if self.layers and public is None:
            raise ValueError(
                f"Expected a public_batch: the model holds {len(self.layers)} layer(s) with public "
                f"moments, such as {self.layers[0].name!r}, got None. Pass rows that are not "
                'private, or public_batch="synthetic".'
            )
        self.public_batch = None
        if self.layers:
            self.public_batch = tf.nest.map_structure(tf.convert_to_tensor, public.rows)

    @property
    def rows_mix(self):
        """Whether a row's gradient depends on the other private rows through the Jacobian."""
        return self.mode == "lot" and self.full_gradient

    @property
    def pulls_back(self):
        """Whether part of the gradient comes through the public pass."""
        return self.mode == "public" and self.full_gradient

    def check_unchanged(self):
        """Raises ValueError if the model has other public-batch layers than it had at first."""
        now = [x for x in sublayers(self.model) if isinstance(x, PublicMomentsLayer)]
        if {id(layer) for layer in now} != {id(layer) for layer in self.layers}:
            raise ValueError(
                f"Expected the {len(self.layers)} layer(s) with public moments that the model had "
                f"in make_private(), got {len(now)}. Make the layers in the model's constructor, "
                "or call the model on a batch before make_private()."
            )

    def tap_variables(self):
        """Untrained gammas and betas whose gradients the pull-back needs all the same."""
        if not self.pulls_back:
            return []
        variables = []
        for layer in self._pulled_back_layers:
            frozen = not layer.trainable
            variables += [layer.gamma] if frozen or not layer.scale else []
            variables += [layer.beta] if frozen or not layer.center else []
        return raw(variables)

    def clip_weights(self, variables: Sequence[Any]) -> list[float] | None:
        """Weights in the clip of the trained `variables`; None if all are 1.

        They are `pull_back_weight` for those that the pull-back reads, and 1 for the others.
        """
        if not self.pulls_back or self.pull_back_weight == 1.0:
            return None
        read = {
            raw(variable).ref()
            for layer in self._pulled_back_layers
            for variable in (layer.gamma, layer.beta)
        }
        return [self.pull_back_weight if raw(v).ref() in read else 1.0 for v in variables]

    @property
    def _pulled_back_layers(self):
        return [layer for layer in self.layers if layer.statistics_gradient == "full"]

    def settle(self):
        """Computes the weight for "auto" from the present weights; 1 for a model not yet built."""
        layers = self._pulled_back_layers
        if self._is_auto and self.pulls_back and all(layer.built for layer in layers):
            self.pull_back_weight = automatic_weight(self.model, layers, self.public_batch)

    def public_pass(self, training):
        """Runs the public rows alone; returns their `PublicStatistics`, or None if not needed."""
        if self.mode != "public":
            return None
        return self.recorded(self.public_batch, training)

    def lot_pass(self, x, mask):
        """Statistics of all rows in mode "lot" with stopped gradient; else None. NOT private."""
        if self.mode != "lot" or self.full_gradient:
            return None
        return self.recorded(self._with_public_rows(x), True, self._row_weights(mask))

    def forward(self, x, statistics, training, mask=None):
        """Predictions for private rows x, a structure of [rows, ...]; also [rows, ...].

        In mode "lot" with the full gradient all rows share their statistics, but for those whose
        `mask` is 0 (padding); in every other mode row i of the result depends on row i and on
        public data only (and on `statistics`).
        """
        if self.mode == "none":
            return self.model(x, training=training)
        if statistics is not None:
            with use_pass(statistics):
                return called_with_public_moments(self.model, x, training)
        if self.mode == "lot" and training:
            return self._joint(x, training, self._row_weights(mask))
        # The paper's test phase: {x_i} and all public rows, and row 0 of the outputs.
        if tf.nest.flatten(x)[0].shape[0] == 1:
            return self._joint(x, training)

        def one(row):
            single = tf.nest.map_structure(lambda t: t[tf.newaxis], row[0])
            shown = Shown.of(self._joint(single, training), [])
            return tf.nest.map_structure(lambda t: t[0], shown)

        count = tf.shape(tf.nest.flatten(x)[0])[0]
        return map_rows(one, (x, tf.zeros([count]))).masked_predictions()

    def recorded(self, rows, training, row_weights=None):
        """Returns the `PublicStatistics` of rows that are run together."""
        statistics = PublicStatistics()
        with record_pass(statistics, row_weights):
            called_with_public_moments(self.model, rows, training)
        return statistics

    def public_rows_like(self, x):
        """Returns the public rows in the structure of private rows x, matched by input."""
        return rows_in_structure_of(self.model, self.public_batch, x)

    def _with_public_rows(self, x):
        return tf.nest.map_structure(
            lambda private, public: tf.concat([private, tf.cast(public, private.dtype)], 0),
            x,
            self.public_rows_like(x),
        )

    def _row_weights(self, mask):
        """[rows + M] weights that keep padding out of joint moments; None if there is none."""
        if mask is None:
            return None
        public_rows = tf.shape(tf.nest.flatten(self.public_batch)[0])[0]
        return tf.concat([tf.cast(mask, tf.float32), tf.ones([public_rows])], 0)

    def _joint(self, x, training, row_weights=None):
        count = tf.shape(tf.nest.flatten(x)[0])[0]
        with joint_pass(row_weights):
            rows = self._with_public_rows(x)
            predictions = called_with_public_moments(self.model, rows, training)
        shown = Shown.of(predictions, [])
        return tf.nest.map_structure(lambda t: t[:count], shown).masked_predictions()
