"""Suggested settings, for users with a model, a budget and data, and no time for a search."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm import arguments
from tfdpnorm.choices import AUTO
from tfdpnorm.gradients import Clipping
from tfdpnorm.independence import check_known_layers
from tfdpnorm.independence.examples import input_specs
from tfdpnorm.keras_compat.models import complete_build, sublayers
from tfdpnorm.layers import PublicMomentsLayer, RandomCropAndFlip
from tfdpnorm.privacy import PrivacyPlan
from tfdpnorm.privacy.slots import slots_of_plan
from tfdpnorm.privacy.suggested_plan import suggest_plan
from tfdpnorm.training.forecast import Forecast, forecast
from tfdpnorm.training.public_rows import kinds_of_synthetic
from tfdpnorm.training.suggested_rate import OPTIMIZERS, optimizer_at, suggested_rate
from tfdpnorm.training.views import Views

if TYPE_CHECKING:
    from typing import Any

    from tfdpnorm.privacy.budget import PrivacyBudget


# Small images lose by being moved, and all by being moved far: docs/settings.md.
_SMALLEST_IMAGE, _LARGEST_SHIFT = 24, 0.04
# Rows at once: more make no update faster on a processor. What a layer gives is kept for the
# backward pass, and there are copies of it: some 16 bytes for each number.
_ROWS, _ROWS_OF_UNKNOWN = 512, 64
# Of linear models: as many updates of whole batches, of up to so many examples.
_FULL_BATCHES, _MOST_IN_FULL_BATCHES = 100, 20_000
_BYTES, _BYTES_OF_NUMBER = 2 * 2**30, 16


@dataclasses.dataclass(frozen=True)
class Suggestion:
    """Suggested settings of a private training.

        suggestion = tfdpnorm.suggest(model, budget=budget, num_examples=len(x))
        print(suggestion)
        private = tfdpnorm.make_private(model, **suggestion.arguments)
        private.compile(suggestion.optimizer("sgd"), loss)

    Attributes:
        plan: `PrivacyPlan`.
        clipping: `Clipping`.
        views: `Views`, or None for none.
        public_batch: "synthetic", or None for a model that takes no public rows.
        physical_batch_size: Rows that go through the model at once.
        learning_rates: Dict from names of optimizers to the rate that a cosine schedule begins
            with.
        forecast: `Forecast`, what to expect and which other way has more signal; or None for a
            model whose outputs are no scores of classes.
        reasons: Dict from names of settings to a sentence of reason each.
    """

    plan: PrivacyPlan
    clipping: Clipping
    views: Views | None
    public_batch: str | None
    physical_batch_size: int
    learning_rates: dict
    forecast: Forecast | None
    reasons: dict

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of `make_private`, a dict."""
        names = ("plan", "clipping", "views", "public_batch", "physical_batch_size")
        return {name: getattr(self, name) for name in names}

    @property
    def passes(self) -> int:
        """How many rows go forward and backward through the model in all: the work.

        Those of padding are among them: an update has a fixed number of slots.
        """
        views = 1 if self.views is None else self.views.multiplicity
        rows = self.physical_batch_size
        slots = slots_of_plan(self.plan, None if rows == AUTO else rows)
        of_slot = views * (self.plan.drawn_per_person or 1)
        return self.plan.steps * slots.batches * slots.rows * of_slot

    def optimizer(self, name: str = "sgd") -> keras.optimizers.Optimizer:
        """Makes an optimizer, "sgd", "adam", "adamw" or "rmsprop", with its suggested rate."""
        arguments.choice("optimizer", name, OPTIMIZERS)
        return optimizer_at(self.learning_rates[name], self.plan.steps, name)

    def beside(self, **given: Any) -> Suggestion:
        """Returns the suggestion with given settings in place of its own.

        Args:
            **given: Those of `arguments`, except the plan; None for settings not given.

        Returns:
            A `Suggestion`.
        """
        given = {name: value for name, value in given.items() if value is not None}
        reasons = {**self.reasons, **dict.fromkeys(given, "as given")}
        return dataclasses.replace(self, **given, reasons=reasons)

    def __str__(self):
        plan, expected, public = self.plan, self.forecast, self.public_batch
        if public is None or isinstance(public, str):
            public = str(public or "none")
        else:
            public = "given"
        values = {
            "steps": f"{plan.steps:,}",
            "expected_batch_size": f"{plan.expected_batch_size:,}",
            "noise_multiplier": f"{plan.noise_multiplier:.4g}",
            "accountant": plan.accountant,
            "clipping": f'"{self.clipping.function}"',
            "l2_norm_clip": f"{plan.l2_norm_clip:g}",
            "views": "none" if self.views is None else f"{self.views.multiplicity}",
            "public_batch": public,
            "learning_rate": ", ".join(
                f"{name} {self.learning_rates[name]:.3g}" for name in ("sgd", "adam")
            ),
            "physical_batch_size": f"{self.physical_batch_size}",
            "passes": f"{self.passes:,}",
            "signal_to_noise": f"{expected.signal:.3g}" if expected else "unknown",
        }
        rows = [(name, value, self.reasons[name]) for name, value in values.items()]
        width = max(len(name) for name, _, _ in rows)
        shown = max(len(value) for _, value, _ in rows)
        lines = [f"{n:{width}}  {v:{shown}}  {why}" for n, v, why in rows]
        if self.forecast is not None and self.forecast.advice:
            lines += [*self.forecast.advice, self.forecast.code]
        return "\n".join(lines)


def suggest(
    model: keras.Model,
    *,
    budget: PrivacyBudget,
    num_examples: int,
    epochs: float | None = None,
    steps: int | None = None,
    expected_batch_size: float | None = None,
    most_per_person: int | None = None,
    unit: str | None = None,
) -> Suggestion:
    """Suggests all settings of a private training, from public numbers alone.

    Args:
        model: A built Keras model.
        budget: `PrivacyBudget`.
        num_examples: N, the number of private examples; of persons, where they are the unit.
        epochs: How often an example is drawn on average; None for a suggested number.
        steps: Number of updates; None for a suggested one.
        expected_batch_size: Expected batch size; None for a suggested one.
        most_per_person: See `make_plan`.
        unit: See `make_plan`.

    Returns:
        A `Suggestion`.

    Raises:
        ValueError: for a model that is not built or has no kernels, and as `make_plan` does.
        PrivacyError: for layers that private training rejects, such as `BatchNormalization`.

    Example::

        suggestion = tfdpnorm.suggest(model, budget=budget, num_examples=len(x))
        print(suggestion)
        private = tfdpnorm.make_private(model, **suggestion.arguments)
    """
    complete_build(model)
    if not model.built:
        raise ValueError(
            "The model has no weights yet. Call it on a batch, or model.build(shape), first."
        )
    check_known_layers(model, will_be_proved=True)
    num_examples, reasons = arguments.whole("num_examples", num_examples, at_least=1), {}
    is_small = num_examples <= _MOST_IN_FULL_BATCHES
    if is_small and (epochs, steps, expected_batch_size) == (None,) * 3 and _is_linear(model):
        steps, expected_batch_size = _FULL_BATCHES, num_examples
        why = "a linear model: whole batches cost little, and are not sampled"
        reasons = {"steps": why, "expected_batch_size": why}
    suggested = suggest_plan(
        budget=budget,
        num_examples=num_examples,
        epochs=epochs,
        steps=steps,
        expected_batch_size=expected_batch_size,
        most_per_person=most_per_person,
        unit=unit,
    )
    plan = suggested.plan
    views, of_views = _views(model, plan)
    public_batch, of_public = _public_batch(model)
    rows, of_rows = _physical_batch_size(model, plan, views)
    expected = forecast(model, plan)
    per_example, of_passes = "views", ""
    if plan.unit == "person":
        per_example, k = "most_per_person", plan.most_per_person
        of_passes = f": {k} for each person, also of fewer; epsilon is the same for any number"
    return Suggestion(
        plan=plan,
        clipping=Clipping(),
        views=views,
        public_batch=public_batch,
        physical_batch_size=rows,
        learning_rates={name: suggested_rate(model, plan, name) for name in OPTIMIZERS},
        forecast=expected,
        reasons={
            **suggested.reasons,
            **reasons,
            "clipping": "examples that are learnt have small gradients, and count less",
            "l2_norm_clip": "below the gradient norms of fresh networks with cross-entropy losses",
            "views": of_views,
            "public_batch": of_public,
            "learning_rate": "from the noise and the sizes of the weights, with cosine decay to 0",
            "physical_batch_size": of_rows,
            "passes": f"updates x slots x {per_example}; divided by the rows a second, the time"
            + of_passes,
            "signal_to_noise": "the model has no scores of classes"
            if expected is None
            else expected.expectation,
        },
    )


def _is_linear(model):
    """Whether all weights of a model, frozen ones too, are those of one dense layer."""
    with_weights = [x for x in sublayers(model) if x.weights and not sublayers(x)]
    return [type(layer) for layer in with_weights] == [keras.layers.Dense]


def _views(model, plan):
    """The views, or None; and why."""
    specs = input_specs(model)
    if not isinstance(specs, tf.TensorSpec) or specs.shape.rank != 4:
        return None, "only images have any"
    if plan.unit == "person":
        return None, "a person has several rows"
    outputs = tf.nest.flatten(getattr(model, "outputs", None) or [None])
    if not all(output is not None and len(output.shape) <= 2 for output in outputs):
        return None, "outputs with positions, such as masks, would have to be moved with the image"
    size = min(side or 0 for side in specs.shape[1:3])
    if size < _SMALLEST_IMAGE:
        return None, f"only images of {_SMALLEST_IMAGE} pixels and more benefit"
    padding = round(_LARGEST_SHIFT * size)
    views = Views(RandomCropAndFlip(padding=padding, flip=False))
    return views, f"each image is shifted at random by up to {padding} pixel{'s' * (padding > 1)}"


def _public_batch(model):
    """The suggested public rows, or None, and the reason."""
    if any(isinstance(layer, PublicMomentsLayer) for layer in (model, *sublayers(model))):
        try:
            kinds = kinds_of_synthetic(model)
        except ValueError:  # which make_private() will raise
            kinds = "synthetic ones"
        return "synthetic", f'none were given: {kinds}; "synthetic:fractal" and the like for others'
    return None, "no layer takes any"


def _physical_batch_size(model, plan, views):
    """How many examples go through the model at once, and why."""
    per_example = (1 if views is None else views.multiplicity) * (plan.drawn_per_person or 1)
    outputs = sum(_numbers_in_output(layer) for layer in sublayers(model))
    if outputs:
        rows = min(_ROWS, _BYTES // (_BYTES_OF_NUMBER * outputs))
        why = f"at most {_ROWS} rows, views included, whose layers keep {_BYTES >> 30} GiB"
    else:
        rows, why = _ROWS_OF_UNKNOWN, "the sizes of the layers' outputs are unknown beforehand"
    if plan.unit == "person":
        why = f"persons, of {plan.most_per_person} rows each; {why}"
    return max(1, rows // per_example), why


def _numbers_in_output(layer):
    """How many numbers a layer gives for a row; 0 if that is not known."""
    try:
        tensors = tf.nest.flatten(layer.output)
    except (AttributeError, RuntimeError, ValueError):
        return 0  # No symbolic call, or several.
    shapes = [tuple(tensor.shape)[1:] for tensor in tensors]
    return sum(int(np.prod([size or 1 for size in shape])) for shape in shapes)
