"""NAdam with the momentum schedule of Dozat (2016), as PyTorch has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.variables import raw

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class _Kept:
    """The variables of each variable; `NAdam.variables` has them as well.

    Not a dict of the optimizer: Keras 2 would try to write that into its checkpoints, and fail.
    """

    def __init__(self) -> None:
        self.of = {}


@keras.utils.register_keras_serializable("tfdpnorm")
class NAdam(keras.optimizers.SGD):
    """Adam with Nesterov momentum, which grows from beta_1 / 2 to beta_1.

        private.compile(tfdpnorm.training.NAdam(1e-3), loss)

    Keras' own Nadam has another schedule, that of a `momentum_decay` of 1. In Keras 2.15 it also
    multiplies the product of momenta once for each variable, where once an update is right.

    Args:
        learning_rate: A number > 0, or a schedule.
        beta_1: Decay of the mean of gradients, in [0, 1).
        beta_2: Decay of the mean of their squares, in [0, 1).
        epsilon: Added to the root of the latter, > 0.
        momentum_decay: psi > 0: the momentum of update t is beta_1 (1 - 0.96^(t psi) / 2).
        name: As in Keras.
        **kwargs: As in Keras, such as `weight_decay`.

    Reference:
        Dozat (2016), "Incorporating Nesterov momentum into Adam"; torch.optim.NAdam, whose defaults
        these are.
    """

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule = 2e-3,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        momentum_decay: float = 4e-3,
        name: str = "nadam",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, name=name, **kwargs)  # SGD keeps nothing of its own
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.momentum_decay = momentum_decay
        self._kept = _Kept()

    def build(self, var_list: Sequence[tf.Variable]) -> None:
        """Makes the means of gradients and of their squares, and the product of momenta so far."""
        super().build(var_list)
        for variable in var_list:
            if raw(variable).ref() in self._kept.of:  # Keras 2 builds at each step
                continue
            # One product for each variable, since Keras steps them one by one, in any order.
            self._kept.of[raw(variable).ref()] = (
                self.add_variable_from_reference(variable, "mean"),
                self.add_variable_from_reference(variable, "square"),
                self.add_variable(shape=(), initializer="ones", name="momenta"),
            )

    def update_step(
        self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: Any = None
    ) -> None:
        """Makes the step of a variable."""
        variable = raw(variable)
        dtype = variable.dtype
        gradient = tf.cast(tf.convert_to_tensor(gradient), dtype)
        rate = tf.cast(self.learning_rate if learning_rate is None else learning_rate, dtype)
        mean, square, momenta = map(raw, self._kept.of[variable.ref()])
        step = tf.cast(self.iterations, dtype) + 1.0
        momentum, next_momentum = (
            self.beta_1 * (1 - 0.5 * 0.96 ** (t * self.momentum_decay)) for t in (step, step + 1)
        )
        product = tf.cast(momenta.assign(momenta * tf.cast(momentum, momenta.dtype)), dtype)
        mean = mean.assign(self.beta_1 * mean + (1 - self.beta_1) * gradient)
        square = square.assign(self.beta_2 * square + (1 - self.beta_2) * tf.square(gradient))
        size = tf.sqrt(square / (1 - self.beta_2**step)) + self.epsilon
        now = (1 - momentum) / (1 - product) * gradient
        ahead = next_momentum / (1 - product * next_momentum) * mean
        variable.assign_sub(rate * (now + ahead) / size)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments."""
        config = super().get_config()
        config.pop("momentum"), config.pop("nesterov")
        own = ("beta_1", "beta_2", "epsilon", "momentum_decay")
        return {**config, **{name: getattr(self, name) for name in own}}
