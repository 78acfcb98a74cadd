"""Variational dropout with as much noise in the weights as privacy puts there."""

from __future__ import annotations

import math

from tensorflow import keras

from tfdpnorm import arguments
from tfdpnorm.keras_compat.models import layer_numbers, sublayers
from tfdpnorm.keras_compat.training import next_learning_rate, steps_per_execution
from tfdpnorm.layers import VariationalDropout

# The last one has Keras write averages over the weights, every so many updates.
_CHANGES_THE_UPDATE = (
    "momentum",
    "clipnorm",
    "clipvalue",
    "global_clipnorm",
    "ema_overwrite_frequency",
)


def total_l2_norm_clip(model: keras.Model, clip_of_each_layer: float) -> float:
    """Returns C sqrt(K): how long the gradient of all K layers is if each is clipped to C.

    It is the `l2_norm_clip` of a plan for `Clipping(grouping="per_layer")`, which divides it
    among the layers again, and what the noise has to be in proportion to. A layer with its kernel,
    its bias and its noise is one; K = 2 for a network with one hidden layer. If each variable were
    clipped by itself, K would be the number of variables.

    Args:
        model: A built Keras model.
        clip_of_each_layer: C > 0.

    Returns:
        C sqrt(K), a float.

    Raises:
        ValueError: for a C that is not positive, and a model without trainable variables.

    Reference:
        McMahan et al. (2018), "Learning differentially private recurrent language models". Ermis
        and Cemgil (2017) clip each layer at C and count a sensitivity of 2 C.
    """
    clip = arguments.positive("clip_of_each_layer", clip_of_each_layer)
    layers = len(set(layer_numbers(model, model.trainable_variables)))
    if not layers:
        raise ValueError(
            f"Expected a built model with trainable variables, got {model.name!r} without any. "
            "Call model.build(input_shape) first."
        )
    return clip * math.sqrt(layers)


class PrivacyNoiseAsDropout(keras.callbacks.Callback):
    """Gives the layers of variational dropout the noise that each update puts into the weights.

    With plain SGD, update t of a private model is phi <- phi - eta_t (S + N(0, (z C)^2)) / L, for
    the clipped sum S and the expected batch size L. So it moves each weight by noise of the
    standard deviation

        zeta_t = eta_t z C / L,

    where C is the norm of the whole gradient: C_layer sqrt(K) if each of K layers is clipped to
    C_layer (`total_l2_norm_clip`). Before each update the callback writes zeta_t
    into `noise_stddev` of the model's `VariationalDropoutDense` and `VariationalDropoutConv2D`
    layers with noise="public". The pre-activations of the private rows are then drawn for weights
    with as much noise, and alpha = zeta_t^2 / phi^2 is what the layers report. What is drawn for
    the rows is not the noise of the update: that one is added once, to the clipped sum, and is what
    the guarantee rests on.

    This is the sound reading of DPVD: phi is what is released, with the guarantee of DP-SGD.

    Privacy:
        zeta_t follows from the plan and the learning rate, and from no example, as long as the
        learning rate does not: schedules and callbacks that look at public or released numbers are
        fine.

    Args:
        factor: zeta_t is multiplied by it; 1 for as much as privacy puts into the weights, 0 for no
            dropout.

    Raises:
        ValueError: when training begins, for a model that is not private or has no such layers, for
            an optimizer other than plain SGD, of which zeta_t is not the noise of an update, and
            for several steps per execution, between which no callback is called.

    Example:
        ::

            plan = make_plan(l2_norm_clip=total_l2_norm_clip(model, 2.0), ...)
            private = make_private(model, plan, clipping=Clipping(grouping="per_layer"))
            rate = keras.optimizers.schedules.InverseTimeDecay(0.1, 1, 1.0)  # eta_0 / t
            private.compile(keras.optimizers.SGD(rate), "sparse_categorical_crossentropy")
            private.fit(x, y, callbacks=[PrivacyNoiseAsDropout()])

    Reference:
        Ermis and Cemgil (2017), "Differentially private variational dropout", Algorithm 1, which
        adds the noise without the learning rate, and in another place.
    """

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = arguments.nonnegative("factor", factor)
        self._layers = []

    def on_train_begin(self, logs: dict | None = None) -> None:
        if getattr(self.model, "ledger", None) is None:
            raise ValueError(
                f"Expected a model from make_private(), got {type(self.model).__name__}. Outside "
                "of private training, set layer.noise_stddev yourself."
            )
        self._layers = [
            x
            for x in sublayers(self.model.model)
            if isinstance(x, VariationalDropout) and x.noise == "public"
        ]
        if not self._layers:
            raise ValueError(
                "The model has no layer that takes public noise. Use "
                'tfdpnorm.layers.VariationalDropoutDense(units, noise="public").'
            )
        optimizer = self.model.optimizer
        plain = type(optimizer) in (keras.optimizers.SGD, keras.optimizers.legacy.SGD)
        config = optimizer.get_config() if plain else {}
        changed = [name for name in _CHANGES_THE_UPDATE if config.get(name)]
        if not plain or changed:
            given = f"SGD with {changed}" if plain else type(optimizer).__name__
            raise ValueError(
                f"Expected plain SGD, got {given}: the noise of its updates is not eta z C / L. "
                "Use keras.optimizers.SGD(learning_rate)."
            )
        if steps_per_execution(self.model) > 1:
            raise ValueError(
                "Expected steps_per_execution=1, got "
                f"{steps_per_execution(self.model)}: the noise is set before each update."
            )

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        stddev = self.stddev_of_next_update()
        for layer in self._layers:
            layer.noise_stddev.assign(stddev)

    def stddev_of_next_update(self) -> float:
        """Returns `factor` times zeta_t of the update that comes next, a float."""
        plan = self.model.ledger.plan
        # What statistics are released with takes its share of the budget from the gradients.
        multiplier = plan.noise_multiplier / math.sqrt(1 - plan.statistics_budget_share)
        of_mean = multiplier * plan.l2_norm_clip / plan.expected_batch_size
        return self.factor * next_learning_rate(self.model.optimizer) * of_mean
