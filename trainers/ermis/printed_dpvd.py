"""Algorithm 1 of Ermis and Cemgil as it is printed. It guarantees no privacy."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfdpnorm import arguments
from tfdpnorm.gradients import Clipping, book_keeping
from tfdpnorm.keras_compat.models import layer_numbers, sublayers
from tfdpnorm.layers import VariationalDropout
from tfdpnorm.training import total_l2_norm_clip
from tfdpnorm.training.post_processing import added_gradients, regularization_gradients

_STATEMENT = (
    "NO GUARANTEE: no differential privacy is guaranteed for this training run, and no epsilon may "
    "be stated for it. It is Algorithm 1 of Ermis and Cemgil (2017) as printed, with sigma = "
    "{sigma:g}{claim}. The means are updated without noise and each noisy copy of them shows all "
    "the gradients so far; batches have a fixed size; and with {layers} layers that are clipped to "
    "C = {clip:g} each, the gradient may be up to C sqrt({layers}) long, not C."
)


class PrintedTraining(NamedTuple):
    """The result of `train_as_printed`: `statement` says why no guarantee holds.

    `means`, phi^(T) by the model's trainable variables, are arrays that training computes with,
    before the last noise: not what the algorithm gives out.
    """

    steps: int
    means: list
    statement: str


def train_as_printed(
    model,
    loss,
    x,
    y,
    *,
    batch_size,
    epochs,
    l2_norm_clip,
    sigma,
    initial_rate,
    decay=1.0,
    claimed_epsilon=None,
    seed=0,
    after_epoch=None,
):
    """Trains a model by Algorithm 1 (DPVD) as it is printed, to see what it comes to.

    **No privacy is guaranteed, whatever sigma is.** With zeta = 2 C sigma, each step t of T is

        lot: S of the N examples, drawn without replacement
        g_i: gradient of example i, drawn pre-activations of N(a phi, a^2 zeta^2), each layer's
            part clipped to C
        g = (sum of g_i) / S + the gradient of the regularisation
        theta <- phi - eta_t g + zeta N(0, 1),  phi <- phi - eta_t g,  eta_t = eta_0 / t^decay

    and theta^(T) is the result, in the model's weights. That the noise does not take part in what
    follows, and is not multiplied by eta_t, is how equations 11 and 12 and line 8 read.

    Args:
        model: Its layers with variational dropout of noise="public" get zeta; other layers are
            trained as they are. The divergence is in their losses, over the N that they were given.
        loss: Function (y, predictions) -> [rows].
        batch_size: S, 1 to N.
        epochs: E; T is E N / S, rounded.
        l2_norm_clip: C, of each layer.
        initial_rate: eta_0.
        claimed_epsilon: What the paper says that sigma gives; only repeated.
        after_epoch: Function that is called with the number of epochs done while the model holds
            theta; None for none.
    """
    rows = len(x)
    batch_size = arguments.whole("batch_size", batch_size, at_least=1)
    if batch_size > rows:
        raise ValueError(f"Expected batch_size <= {rows} examples, got {batch_size}.")
    steps = max(round(arguments.whole("epochs", epochs, at_least=1) * rows / batch_size), 1)
    sigma = arguments.nonnegative("sigma", sigma)
    zeta = 2 * arguments.positive("l2_norm_clip", l2_norm_clip) * sigma
    variables = model.trainable_variables
    layers = layer_numbers(model, variables)
    clip = Clipping(total_l2_norm_clip(model, l2_norm_clip), "per_layer")
    clip = clip.of_variables(layers=layers)
    for layer in sublayers(model):
        if isinstance(layer, VariationalDropout) and layer.noise == "public":
            layer.noise_stddev.assign(zeta)

    def loss_fn(x, y, sample_weight):
        predictions = model(x, training=True)
        return loss(y, predictions) * sample_weight, predictions

    @tf.function(autograph=False)
    def step(x, y, rate):
        ones = tf.ones([batch_size])
        summed = book_keeping(model, loss_fn, (x, y, ones, ones), variables, clip).gradients
        gradients = [g / batch_size for g in summed]
        penalties = regularization_gradients(model, variables)
        if penalties is not None:
            gradients = added_gradients(gradients, penalties)
        for variable, gradient in zip(variables, gradients, strict=True):
            variable.assign_sub(tf.cast(rate * gradient, variable.dtype))

    rng, epoch = np.random.default_rng(seed), 0
    for t in range(1, steps + 1):
        lot = rng.choice(rows, batch_size, replace=False)
        step(tf.constant(x[lot]), tf.constant(y[lot]), tf.constant(initial_rate / t**decay))
        ended = t * batch_size // rows
        if t == steps or (after_epoch is not None and ended > epoch):
            epoch = ended
            means = [variable.numpy() for variable in variables]
            for variable, mean in zip(variables, means, strict=True):
                variable.assign(mean + zeta * rng.normal(size=mean.shape))
            if after_epoch is not None:
                after_epoch(epoch)
            if t < steps:
                for variable, mean in zip(variables, means, strict=True):
                    variable.assign(mean)
    claim = "" if claimed_epsilon is None else f", for which it claims epsilon = {claimed_epsilon}"
    count = len(set(layers))
    statement = _STATEMENT.format(sigma=sigma, claim=claim, clip=l2_norm_clip, layers=count)
    return PrintedTraining(steps, means, statement)
