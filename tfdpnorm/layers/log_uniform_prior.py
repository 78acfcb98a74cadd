"""The divergence of a normal posterior of a weight from the log-uniform prior."""

import tensorflow as tf

# Molchanov et al. (2017), equation 14.
_K1, _K2, _K3 = 0.63576, 1.87320, 1.48695


def kl_to_log_uniform(log_alpha):
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
