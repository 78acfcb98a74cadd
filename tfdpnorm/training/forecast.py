"""What to expect of a private training, from public numbers alone, before anything is spent.

In T updates with batches of B of N examples and noise multiplier z, the examples of one of K
classes move the weights together by up to

    A = sqrt(T) B / (z K),    about N mu / K with mu from epsilon and delta,

in units of the noise along that direction. The number of weights does not count by itself: noise
along directions that no input has changes no output. What counts is how much of that way tells one
class from another. In a fresh network that is the contrast of its gradients, kappa: 1 minus the
mean cosine of the gradients of an output at two inputs, here synthetic ones. The signal-to-noise
ratio S = kappa A divides runs that learn from runs that do not; docs/expectations.md has the
records. It says nothing of inputs that are not scaled, or of classes that the model cannot learn.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import tensorflow as tf
from scipy import linalg
from tensorflow import keras

from tfdpnorm.errors import PrivacyWarning, level_of_caller
from tfdpnorm.independence.examples import input_specs, integer_bound, synthetic_examples
from tfdpnorm.independence.undisturbed import undisturbed
from tfdpnorm.keras_compat.models import graph_inputs, sublayers, tensors_before
from tfdpnorm.keras_compat.variables import trainable_variables
from tfdpnorm.layers import ScaleToBounds
from tfdpnorm.layers.pulled_back_noise import squared_norm
from tfdpnorm.privacy.suggested_plan import epsilon_of_mu

if TYPE_CHECKING:
    from tfdpnorm.privacy.plan import PrivacyPlan

LITTLE, ENOUGH = 3.0, 10.0
_LARGEST_MU = 10.0  # an epsilon of about 90
_ROWS = 8

TRAIN = """\
private = tfdpnorm.make_private(model, **suggestion.arguments)
private.compile("sgd", loss)
private.fit(x, y)"""
RELEASE = """\
head = tfdpnorm.private_least_squares(
    public_network.predict(x), y, num_classes={classes}, budget=budget
)  # with one row per person, or person= and most_per_person=; bounds= for columns of a table"""


class Forecast(NamedTuple):
    """What to expect of a training, and of other ways to spend the same budget.

    Attributes:
        signal: S of this model; infinite without noise.
        of_head: S of its last layer, with the others frozen: for layers with public weights.
        of_release: The most that S can be, for inputs or features of contrast 1: of one release on
            features of a public network, or on a table's columns.
        expectation: What to expect of this model.
        advice: Sentences: the one or two changes that would help most, each with its S; none if
            none is needed.
        code: Code to copy, of the way to take.
    """

    signal: float
    of_head: float
    of_release: float
    expectation: str
    advice: tuple[str, ...]
    code: str

    def warn(self) -> None:
        """Warns if noise hides a part of what there is to learn."""
        if self.advice:
            words = " ".join([self.expectation, *self.advice])
            warnings.warn(words, PrivacyWarning, stacklevel=level_of_caller())


def forecast(model: keras.Model, plan: PrivacyPlan) -> Forecast | None:
    """Forecasts a training of a built model by a plan; None if its outputs are no scores [rows, K].

    None also for a model that does not run on synthetic rows.

    Example::

        print(tfdpnorm.suggest(model, budget=budget, num_examples=len(x)).forecast.expectation)
    """
    try:
        found = _contrasts(model)
    except Exception:  # of the user's code, on sizes that are not known: training may have others
        return None
    if found is None or not np.isfinite(found).all():
        return None
    classes, *kappas = found
    noise = plan.gradient_noise_multiplier * classes
    way = math.sqrt(plan.steps) * plan.expected_batch_size
    signal, of_head, most = (kappa * way / noise if noise else math.inf for kappa in (*kappas, 1.0))
    if signal < LITTLE:
        words = "little more than a constant"
    elif signal < ENOUGH:
        words = "a part of what this model learns without noise"
    else:
        words = "most of what this model learns without noise"
    words = f"Expect {words}: the signal-to-noise ratio S is {signal:.2g}."
    is_better_released = signal < ENOUGH and signal < most / 2
    code = RELEASE.format(classes=classes) if is_better_released else TRAIN
    advice = () if signal >= ENOUGH else tuple(_advice(plan, signal, of_head, most))
    return Forecast(signal, of_head, most, words, advice, code)


def _advice(plan, signal, of_head, most):
    """Yields one or two sentences for a signal-to-noise ratio that is too small."""
    times = ENOUGH / max(signal, 1e-6)
    if signal < most / 2:
        yield (
            f"The fresh network hardly tells inputs apart (contrast {signal / most:.2g}). One "
            f"release on features of a public network has S up to {most:.2g}, the last layer alone "
            f"{of_head:.2g}."
        )
    else:
        yield f"With {math.ceil(times * plan.num_examples):,} {plan.unit}s, S is {ENOUGH:g}."
    growth = math.expm1(min(plan.noise_multiplier**-2, 100.0))
    mu = plan.sampling_rate * math.sqrt(plan.steps * growth)
    if plan.delta is not None and times * mu < _LARGEST_MU:
        epsilon = epsilon_of_mu(times * mu, plan.delta)
        yield f"With epsilon about {epsilon:.2g}, S is {ENOUGH:g}."


def _contrasts(model):
    """K, and kappa of a model at its weights and of its last layer; None if it has no scores.

    The mean cosine follows from the gradients of as many sums as there are rows, with the signs of
    a Hadamard matrix: the squares of all but the first, of equal signs, have the mean of what is
    not common to the rows.
    """
    specs, variables, rng = input_specs(model), trainable_variables(model), np.random.default_rng(0)
    if specs is None or not variables:
        return None
    rows, along = _rows(model, specs), None

    @tf.function  # of which a recurrent layer's loop is one operation
    def squares(signs):
        nonlocal along
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            outputs = tf.nest.flatten(model(rows, training=False))[0]
            if outputs.shape.rank != 2:
                return None
            along = rng.normal(size=outputs.shape[1])
            along -= along.mean() if len(along) > 1 else 0.0
            outputs = tf.linalg.matvec(tf.cast(outputs, tf.float32), along.astype(np.float32))
            value = tf.tensordot(signs, outputs, 1)
        gradients = tape.gradient(value, variables)
        return [tf.zeros([]) if g is None else squared_norm(g) for g in gradients]

    with undisturbed(model):
        found = [squares(tf.constant(signs, tf.float32)) for signs in linalg.hadamard(_ROWS)]
    if along is None:
        return None
    together, *halves = np.array(found, np.float64)
    apart = np.mean(halves, axis=0)
    return max(len(along), 2), _contrast(apart, together), _contrast(apart[-2:], together[-2:])


def _rows(model, specs):
    """Synthetic rows like `specs`, which have about the size 1 behind layers that scale them."""
    rows = tf.nest.flatten(synthetic_examples(specs, _ROWS, integer_bound(model)))
    places = {id(tensor): place for place, tensor in enumerate(graph_inputs(model))}
    for layer in sublayers(model):
        for place in {places.get(id(tensor)) for tensor in tensors_before(layer)} - {None}:
            low, high = _scaled_from(layer)
            if rows[place].dtype.kind == "f":
                rows[place] = (low + high) / 2 + (high - low) / 2 * rows[place]
    return tf.nest.pack_sequence_as(specs, [np.asarray(row, row.dtype) for row in rows])


def _scaled_from(layer):
    """The pair of what a layer makes of -1 and 1 there: numbers, or one for each column."""
    if isinstance(layer, ScaleToBounds):
        return np.float32(layer.low), np.float32(layer.high)
    if isinstance(layer, keras.layers.Rescaling):
        return ((sign - np.float32(layer.offset)) / np.float32(layer.scale) for sign in (-1, 1))
    if isinstance(layer, keras.layers.Normalization):
        mean, spread = (np.asarray(t, np.float32) for t in (layer.mean, layer.variance))
        return mean - np.sqrt(spread), mean + np.sqrt(spread)
    return -1.0, 1.0


def _contrast(apart, together):
    """kappa of squared gradients by variable: (1 - cosine) / (1 + (rows - 1) cosine) is known."""
    ratio = apart.sum() / together.sum() if together.any() else 1.0
    return float(np.clip(_ROWS * ratio / (1 + (_ROWS - 1) * ratio), 0.0, 1.0))
