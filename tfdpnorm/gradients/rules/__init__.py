"""How each type of layer gives the norms and the weighted sum of its per-example gradients."""

from tfdpnorm.gradients.rules import convolution, dense, normalization
from tfdpnorm.gradients.rules.contributions import Instantiated, OuterSum
from tfdpnorm.gradients.rules.registry import Rule, register_rule, rule_for

__all__ = ["Instantiated", "OuterSum", "Rule", "register_rule", "rule_for"]

del convolution, dense, normalization  # imported to register themselves
