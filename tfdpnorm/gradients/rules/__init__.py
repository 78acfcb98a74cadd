"""How each type of layer gives the norms and the weighted sum of its per-example gradients."""

from tfdpnorm.gradients.contributions.contribution import Instantiated, OuterSum
from tfdpnorm.gradients.rules import (  # noqa: F401, imported to register themselves
    convolutions,
    dense,
    embedding,
    normalization,
    recurrent,
    variational_dropout,
    weight_standardized,
)
from tfdpnorm.gradients.rules.registry import Rule, register_rule, rule_for

__all__ = ["Instantiated", "OuterSum", "Rule", "register_rule", "rule_for"]
