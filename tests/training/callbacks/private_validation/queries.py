"""What the tests of PrivateValidation compute by themselves."""

import dp_accounting

from tfdpnorm.privacy import RDP_ORDERS

NAME = "private_val_accuracy"


def count(callback, model):
    """The un-noised count of a callback for a model."""
    callback.set_model(model)
    return int(callback._judge(callback.x, callback.y).sum())


def gaussian_rdp_epsilon(noise_multiplier, queries, delta):
    """Epsilon of Gaussian queries by dp_accounting's own Renyi orders and ours above them."""
    event = dp_accounting.SelfComposedDpEvent(
        dp_accounting.GaussianDpEvent(noise_multiplier), queries
    )
    accountant = dp_accounting.rdp.RdpAccountant(orders=RDP_ORDERS).compose(event)
    return accountant.get_epsilon(delta)
