"""Variational dropout: layers, their divergence from the log-uniform prior, dropout rates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import tensorflow as tf
from tensorflow import keras

from tfdpnorm import arguments
from tfdpnorm.keras_compat.devices_and_precision import as_stored
from tfdpnorm.keras_compat.layers import LossOfWeights, SavesAllVariables, said_or_by_default
from tfdpnorm.layers.own_generator import checked_seed, new_generator, normal_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


# Molchanov et al. (2017), equation 14.
_K1, _K2, _K3 = 0.63576, 1.87320, 1.48695


def kl_to_log_uniform(log_alpha: tf.Tensor) -> tf.Tensor:
    """KL(N(phi, alpha phi^2) || p(theta) ~ 1 / |theta|) of each weight, up to one constant.

    It depends on alpha alone. The prior has no integral, so that the divergence is only known up to
    a constant; it is chosen so that the result is 0 for alpha -> infinity. The approximation is
    within 0.01 of the integral for all alpha.

    Args:
        log_alpha: log alpha, a tensor.

    Returns:
        A tensor like `log_alpha`, >= 0.

    Reference:
        Molchanov, Ashukha, Vetrov (2017), "Variational dropout sparsifies deep neural networks",
        equation 14; the prior of Kingma, Salimans and Welling (2015).
    """
    # log(1 + 1 / alpha), also where 1 / alpha has no float32.
    low = 0.5 * tf.math.softplus(-log_alpha)
    return _K1 * tf.math.sigmoid(-(_K2 + _K3 * log_alpha)) + low


def alpha_of_rate(rate: float) -> float:
    """Returns alpha = p / (1 - p) of Gaussian noise with the variance of dropout at the rate p.

    Dropout multiplies inputs by 0 with probability p and by 1 / (1 - p) otherwise, Gaussian dropout
    by N(1, alpha): both have mean 1 and variance alpha. So has a weight theta of N(phi, alpha
    phi^2) relative to phi, as in `VariationalDropoutDense`. `keras.layers.Dropout(p)` and
    `keras.layers.GaussianDropout(p)` take the rate.

    Args:
        rate: p, at least 0 and below 1.

    Returns:
        alpha, a float from 0; 1 for p = 0.5.

    Raises:
        ValueError: for another rate.

    Example:
        ::

            layer = VariationalDropoutDense(
                10, noise="fixed", initial_log_alpha=math.log(alpha_of_rate(0.2))
            )

    Reference:
        Srivastava et al. (2014), "Dropout: a simple way to prevent neural networks from
        overfitting", Section 10; Ermis and Cemgil (2017), equation 7.
    """
    rate = arguments.nonnegative("rate", rate)
    if rate >= 1:
        raise arguments.refusal("rate", "at least 0 and below 1", rate)
    return rate / (1 - rate)


def rate_of_alpha(alpha: float) -> float:
    """Returns the dropout rate p = alpha / (1 + alpha): the inverse of `alpha_of_rate`.

    Args:
        alpha: Variance of the noise that multiplies, >= 0.

    Returns:
        p, a float from 0 to below 1.

    Raises:
        ValueError: for another alpha.
    """
    alpha = arguments.nonnegative("alpha", alpha)
    return alpha / (1 + alpha)


NOISES = ("learnt", "fixed", "public")
ALPHA_PER = ("weight", "neuron", "layer")
TEST_WEIGHTS = ("mean", "sampled")
SPARSE_LOG_ALPHA = 3.0

# Added to phi^2 where its logarithm is taken: alpha of a weight that is exactly 0 is 1e20 zeta^2.
_LEAST_SQUARE = 1e-20


class VariationalDropout(LossOfWeights, SavesAllVariables):
    """Common base of dense layers and convolutions with variational dropout.

    A class to inherit from in addition to the Keras layer, which owns `kernel`, the means phi.
    """

    def __init__(
        self,
        *args: Any,
        noise: str = "learnt",
        alpha_per: str = "weight",
        initial_log_alpha: float = -3.0,
        max_alpha: float | None = None,
        num_examples: int | None = None,
        kl_weight: float = 1.0,
        test_weights: str = "mean",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.noise = arguments.choice("noise", noise, NOISES)
        self.alpha_per = arguments.choice("alpha_per", alpha_per, ALPHA_PER)
        if noise == "public" and alpha_per != "weight":
            raise ValueError(
                f"Expected alpha_per='weight' with noise='public', got {alpha_per!r}: with a "
                "single zeta, alpha = zeta^2 / phi^2 differs from weight to weight. Leave "
                "alpha_per out."
            )
        self.initial_log_alpha = arguments.finite("initial_log_alpha", initial_log_alpha)
        if max_alpha is not None:
            max_alpha = arguments.positive("max_alpha", max_alpha)
            if noise != "public" and initial_log_alpha > math.log(max_alpha):
                raise ValueError(
                    f"Expected initial_log_alpha of at most log(max_alpha) = "
                    f"{math.log(max_alpha):.4g}, got {initial_log_alpha:.4g}. Begin with less "
                    "noise."
                )
        self.max_alpha = max_alpha
        if num_examples is not None:
            num_examples = arguments.whole("num_examples", num_examples, at_least=1)
        self.num_examples = num_examples
        self.kl_weight = arguments.nonnegative("kl_weight", kl_weight)
        self.test_weights = arguments.choice("test_weights", test_weights, TEST_WEIGHTS)
        self.seed = checked_seed(seed)

    @property
    def noise_is_tied(self) -> bool:
        """Whether zeta is sqrt(alpha) |phi|, so that phi moves it; else it has its own variable."""
        return self.noise == "fixed" or (self.noise == "learnt" and self.alpha_per != "weight")

    def build(self, input_shape: Sequence[int | None]) -> None:
        super().build(input_shape)
        if self.noise == "public":
            self.noise_stddev = self.add_weight(
                name="noise_stddev", shape=(), initializer="zeros", trainable=False
            )
        elif self.noise_is_tied:
            self.noise_log_alpha = self.add_weight(
                name="noise_log_alpha",
                shape={
                    "weight": self.kernel.shape,
                    "neuron": self.kernel.shape[-1:],
                    "layer": [1],
                }[self.alpha_per],
                initializer=keras.initializers.Constant(self.initial_log_alpha),
                trainable=self.noise == "learnt",
            )
        else:
            kernel = tf.convert_to_tensor(as_stored(self.kernel))
            mean_square = tf.reduce_mean(tf.square(kernel)) + _LEAST_SQUARE
            first = self.initial_log_alpha + float(tf.math.log(mean_square))
            self.noise_log_variance = self.add_weight(
                name="noise_log_variance",
                shape=self.kernel.shape,
                initializer=keras.initializers.Constant(first),
                trainable=True,
            )
        self._generator = new_generator(self.seed)
        if self.num_examples is not None and self.kl_weight:
            # As Keras' regularisers are: a function of the weights, whenever it is asked for. Not a
            # loss of a call, which private training rejects.
            self.add_loss_of_weights(self.kl_loss)

    def noise_variance(self) -> tf.Tensor:
        """zeta^2 of the weights, float32 (float64 for such a layer): broadcasts to `kernel`."""
        square = tf.square(_stored(self.kernel))
        if self.noise == "public":
            variance = tf.square(_stored(self.noise_stddev))
            if self.max_alpha is None:
                return variance
            return tf.minimum(variance, tf.stop_gradient(self.max_alpha * square))
        if self.noise_is_tied:
            return tf.exp(self._bounded(_stored(self.noise_log_alpha))) * square
        return tf.exp(self._bounded(_stored(self.noise_log_variance), _log(square)))

    def _bounded(self, log_noise, log_square=0.0):
        """log alpha, or log zeta^2 beside log phi^2, with alpha up to `max_alpha`.

        Its gradient is that without the bound, taken at the bound: phi has none through it, and
        noise at the bound can grow less again. What a row contributes stays linear in what comes
        back to it, as the rule of the clipped sums has it.
        """
        if self.max_alpha is None:
            return log_noise
        most = math.log(self.max_alpha) + log_square
        return log_noise + tf.stop_gradient(tf.minimum(log_noise, most) - log_noise)

    def log_alpha(self) -> tf.Tensor:
        """Returns log alpha = log(zeta^2 / phi^2) of each weight, a tensor of `kernel`'s shape."""
        kernel = _stored(self.kernel)
        if self.noise_is_tied:
            return tf.broadcast_to(self._bounded(_stored(self.noise_log_alpha)), kernel.shape)
        if self.noise == "public":
            return self._log_alpha_of(2 * tf.math.log(_stored(self.noise_stddev)), kernel)
        return self._log_alpha_of(_stored(self.noise_log_variance), kernel)

    def _log_alpha_of(self, log_variance, kernel):
        """log alpha for a zeta^2 of its own; phi has no gradient where it is at its bound.

        There the divergence depends on phi no more. A gradient as without the bound would draw all
        small weights to 0.
        """
        log_alpha = log_variance - _log(tf.square(kernel))
        if self.max_alpha is None:
            return log_alpha
        at_bound = self._bounded(log_variance - tf.stop_gradient(log_variance - log_alpha))
        return tf.where(log_alpha > math.log(self.max_alpha), at_bound, log_alpha)

    def kl_loss(self) -> tf.Tensor:
        """`kl_weight` / N times the divergence of all weights from the log-uniform prior, a scalar.

        0 while a public zeta is 0: weights without noise have no density.
        """
        scale = self.kl_weight / (self.num_examples or 1)
        if self.noise != "public":
            return scale * tf.reduce_sum(kl_to_log_uniform(self.log_alpha()))
        stddev, kernel = _stored(self.noise_stddev), _stored(self.kernel)
        has_noise = stddev > 0
        log_variance = 2 * tf.math.log(tf.where(has_noise, stddev, tf.ones_like(stddev)))
        total = tf.reduce_sum(kl_to_log_uniform(self._log_alpha_of(log_variance, kernel)))
        return tf.where(has_noise, scale * total, tf.zeros_like(total))

    def moments(self, inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and variance of the pre-activations of inputs [rows, ...].

        Returns:
            Pair of tensors [rows, ..., units]: the mean, in the compute dtype, bias included, and
            the variance, in float32 (float64 for such a layer).
        """
        variance = tf.broadcast_to(self.noise_variance(), self.kernel.shape)
        wide = tf.cast(inputs, variance.dtype)
        return self._mean(inputs), self._linear(tf.square(wide), variance)

    def drawn(self, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
        """Outputs for pre-activations drawn with `moments`, before the activation."""
        noise = normal_numbers(self._generator, tf.shape(mean), variance.dtype)
        noise = tf.ensure_shape(noise, mean.shape)
        # The gradient of a root at 0, of a row of zeros, is no number.
        positive = variance > 0
        root = tf.sqrt(tf.where(positive, variance, tf.ones_like(variance)))
        stddev = tf.where(positive, root, tf.zeros_like(root))
        return tf.cast(tf.cast(mean, variance.dtype) + stddev * noise, mean.dtype)

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        training = said_or_by_default(training)
        if tf.is_tensor(training):
            outputs = tf.cond(
                tf.cast(training, tf.bool),
                lambda: self.drawn(*self.moments(inputs)),
                lambda: self._tested(inputs),
            )
        elif training:
            outputs = self.drawn(*self.moments(inputs))
        else:
            outputs = self._tested(inputs)
        return outputs if self.activation is None else self.activation(outputs)

    def _mean(self, inputs):
        return self._with_kernel(inputs, _stored(self.kernel))

    def _with_kernel(self, inputs, kernel):
        outputs = self._linear(inputs, tf.cast(kernel, inputs.dtype))
        if not self.use_bias:
            return outputs
        return tf.nn.bias_add(outputs, tf.cast(_stored(self.bias), outputs.dtype))

    def _tested(self, inputs):
        if self.test_weights == "mean":
            return self._mean(inputs)
        kernel = _stored(self.kernel)
        noise = normal_numbers(self._generator, kernel.shape, kernel.dtype)
        # A mean of exactly 0 is that of a weight that `prune` took out.
        noise = tf.where(kernel == 0, tf.zeros_like(noise), noise)
        return self._with_kernel(inputs, kernel + tf.sqrt(self.noise_variance()) * noise)

    def _linear(self, inputs, kernel):
        """The layer's product of inputs with a kernel, without bias and activation."""
        raise NotImplementedError

    def sparse_share(self, threshold: float = SPARSE_LOG_ALPHA) -> float:
        """Returns the share of weights with log alpha > `threshold`, a float from 0 to 1."""
        sparse = self.log_alpha() > threshold
        return float(tf.reduce_mean(tf.cast(sparse, tf.float64)))

    def prune(self, threshold: float = SPARSE_LOG_ALPHA) -> float:
        """Sets the means of weights with log alpha > `threshold` to 0, for testing.

        In training such a weight has its noise still and may grow again. Outside of training it is
        0, also with `test_weights="sampled"`.

        Privacy:
            Post-processing of the released weights: it costs nothing. The statement of a private
            model cannot tell pruned weights from those that are of unknown provenance, and says so;
            prune the model that its `save` wrote.

        Returns:
            The share of weights whose mean is 0 now.
        """
        kernel = as_stored(self.kernel)
        means = tf.convert_to_tensor(kernel)
        kernel.assign(tf.where(self.log_alpha() > threshold, tf.zeros_like(means), means))
        return float(tf.reduce_mean(tf.cast(tf.convert_to_tensor(kernel) == 0, tf.float64)))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "noise": self.noise,
            "alpha_per": self.alpha_per,
            "initial_log_alpha": self.initial_log_alpha,
            "max_alpha": self.max_alpha,
            "num_examples": self.num_examples,
            "kl_weight": self.kl_weight,
            "test_weights": self.test_weights,
            "seed": self.seed,
        }


@keras.utils.register_keras_serializable(package="tfdpnorm")
class VariationalDropoutDense(VariationalDropout, keras.layers.Dense):
    """Dense layer whose weights are theta = phi + zeta e, e from N(0, 1): variational dropout.

    phi is the kernel, and alpha = zeta^2 / phi^2 the dropout rate of a weight. In training the
    noise is drawn where the weights' noise arrives, at the pre-activations (local
    reparametrisation): for inputs a they have the mean a phi + bias and the variance a^2 zeta^2,
    and each row and unit gets a number of its own, which is as if each row had its own weights. The
    bias has no noise. In testing the weights are their means.

    | noise | zeta |
    |---|---|
    | "learnt", alpha_per="weight" | learnt, independent of phi (`noise_log_variance`) |
    | "learnt", "neuron" or "layer" | sqrt(alpha) phi, log alpha is learnt (`noise_log_alpha`) |
    | "fixed" | sqrt(alpha) phi, alpha is constant: Gaussian dropout |
    | "public" | one number for all weights (`noise_stddev`), 0 until it is set |

    The divergence from the log-uniform prior (`tfdpnorm.layers.kl_to_log_uniform`) times
    kl_weight / N is a loss of the layer, as a regulariser's is, in any Keras model.

    Privacy:
        Per-example: a row's output depends on that row, the weights and random numbers. The noise
        gives no guarantee by itself: only the noise on the clipped sum does. Its learnt parameters,
        log alpha or log zeta^2, are clipped and get noise with the other weights. The divergence is
        a function of weights and of the public number N; `make_private` adds its gradient after the
        noise, exactly and at no cost, with N = `num_examples` of the plan or any other number that
        was chosen without the data.

    Args:
        units: Size of the output.
        noise: "learnt", "fixed" or "public", see above.
        alpha_per: "weight", "neuron" (one log alpha for each unit) or "layer".
        initial_log_alpha: log alpha in the beginning. With a zeta for each weight, all zeta^2 begin
            at alpha times the mean square of the kernel.
        max_alpha: Bound on the alpha of each weight, > 0: 1 is that of Kingma et al., a dropout
            rate of 0.5 (`rate_of_alpha`). A zeta that is larger counts as sqrt(max_alpha) |phi|,
            in training, testing and the divergence. None for no bound.
        num_examples: N, the number of training examples, by which the divergence is divided: the
            loss is a mean over examples. None leaves the divergence out.
        kl_weight: Factor on the divergence, >= 0.
        test_weights: "mean", or "sampled": one draw of the weights at every call outside of
            training, for all rows of the batch.
        seed: None, or an int from 0 to 2**63 - 1 that makes the draws repeatable.
        **kwargs: Further arguments of `keras.layers.Dense`.

    Call arguments:
        inputs: [rows, ..., features].
        training: Whether the pre-activations are drawn.

    Raises:
        ValueError: for a value out of its range.

    Reference:
        Kingma, Salimans, Welling (2015), "Variational dropout and the local reparameterization
        trick"; Molchanov, Ashukha, Vetrov (2017), "Variational dropout sparsifies deep neural
        networks", for the noise of each weight as a variable of its own; Ermis and Cemgil (2017),
        "Differentially private variational dropout", for "public".
    """

    def _linear(self, inputs, kernel):
        if inputs.shape.rank == 2:
            return tf.matmul(inputs, kernel)
        return tf.tensordot(inputs, kernel, 1)


@keras.utils.register_keras_serializable(package="tfdpnorm")
class VariationalDropoutConv2D(VariationalDropout, keras.layers.Conv2D):
    """Convolution whose weights are theta = phi + zeta e: see `VariationalDropoutDense`.

    Mean and variance of the pre-activations are convolutions of the inputs with phi and of their
    squares with zeta^2. Each row, position and filter gets its own random number; with a single
    draw of the weights, positions that share inputs would be correlated (see Molchanov et al.,
    Section 4).

    Privacy:
        As `VariationalDropoutDense`.

    Args:
        filters: Number of output channels.
        kernel_size: Height and width of the kernel: a number or a pair.
        **kwargs: Further arguments of Conv2D, and those of `VariationalDropoutDense`; `groups`
            other than 1 and channels first are not supported. A neuron is a filter.

    Call arguments:
        inputs: [rows, height, width, channels].
        training: Whether noise is drawn; by default the mode of the call in Keras.

    Raises:
        ValueError: for unsupported settings, and as `VariationalDropoutDense`.
    """

    def __init__(self, filters: int, kernel_size: int | tuple[int, int], **kwargs: Any) -> None:
        super().__init__(filters, kernel_size, **kwargs)
        if self.groups != 1 or self.data_format != "channels_last":
            raise ValueError(
                "Expected groups=1 and data_format='channels_last', got "
                f"groups={self.groups} and {self.data_format!r}. Use a plain Conv2D."
            )

    def _linear(self, inputs, kernel):
        # Not conv2d: it has no gradient for dilated kernels on CPUs.
        return tf.nn.convolution(
            inputs,
            kernel,
            strides=self.strides,
            padding=self.padding.upper(),
            dilations=self.dilation_rate,
        )


def _log(square):
    """log phi^2, finite for a weight that is exactly 0."""
    return tf.math.log(square + _LEAST_SQUARE)


def _stored(variable):
    """The value of a variable as it is kept, not as a mixed policy casts it."""
    return tf.convert_to_tensor(as_stored(variable))
