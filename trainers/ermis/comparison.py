"""Four accountants compared, for two adjacencies: which epsilon each states, and whether it holds.

"rdp" and "pld" hold. "ac" and "zcdp" are those of Ermis & Cemgil (2017), in `claimed`: no plan of a
run takes them. What does not hold is a claim and no guarantee.

Noise multipliers are always over the clipping norm. Replacing an example moves the sum by up to two
norms, so that a noise multiplier z is there a noise ratio z / 2, which is the paper's sigma.
"""

import math
from dataclasses import dataclass

from tfdpnorm import arguments
from tfdpnorm.choices import ACCOUNTANTS
from tfdpnorm.privacy.accountants import dp_sgd_event, epsilon_of
from tfdpnorm.privacy.calibration import calibrate_noise_multiplier, noise_reaching
from trainers.ermis.claimed import claimed_epsilon, why_not
from trainers.ermis.replace_one import replace_one_epsilon
from trainers.specs.parts import CLAIMING_ACCOUNTANTS

ALL_ACCOUNTANTS = (*CLAIMING_ACCOUNTANTS, *ACCOUNTANTS)
# Which two data sets are neighbours: one lacks an example of the other, or has another one for it.
ADJACENCIES = ("add_or_remove_one", "replace_one")
_SENSITIVITY = {"add_or_remove_one": 1, "replace_one": 2}  # In clipping norms.


@dataclass(frozen=True)
class Stated:
    """An accountant's epsilon, perhaps infinite, for T updates on Poisson-sampled batches.

    It `holds` if its derivation is sound here and it is finite; `because` says in a sentence why
    not.
    """

    accountant: str
    adjacency: str
    epsilon: float
    holds: bool
    because: str


def stated(
    accountant, sampling_rate, noise_multiplier, updates, delta, adjacency="add_or_remove_one"
):
    """The result of one accountant, "ac", "zcdp", "rdp" or "pld", a `Stated`.

    The noise multiplier is over the clipping norm; the adjacency is "add_or_remove_one" or
    "replace_one".
    """
    accountant = arguments.choice("accountant", accountant, ALL_ACCOUNTANTS)
    adjacency = arguments.choice("adjacency", adjacency, ADJACENCIES)
    noise = arguments.noise_multiplier("noise_multiplier", noise_multiplier)
    updates = arguments.updates("updates", updates, at_least=1)
    because = ""
    if accountant in ACCOUNTANTS:
        if adjacency == "replace_one":
            epsilon = replace_one_epsilon(sampling_rate, noise, updates, delta, accountant)
        else:
            epsilon = epsilon_of(dp_sgd_event(sampling_rate, noise, updates), delta, accountant)
    else:
        settings = (accountant, noise / _SENSITIVITY[adjacency], sampling_rate, updates, delta)
        epsilon, because = claimed_epsilon(*settings), why_not(*settings)
    if math.isinf(epsilon):
        because = because or "no epsilon is finite"
    return Stated(accountant, adjacency, epsilon, not because, because)


def noise_stated(accountant, budget, sampling_rate, updates, adjacency="add_or_remove_one"):
    """The noise multiplier with which `stated`, by "rdp" or "pld", reaches a budget.

    It is over the clipping norm, with at most seven digits, rounded towards more noise. 0.0 for an
    infinite epsilon.
    """
    adjacency = arguments.choice("adjacency", adjacency, ADJACENCIES)
    noise = calibrate_noise_multiplier(budget, sampling_rate, updates, accountant)
    if adjacency == "add_or_remove_one" or noise == 0:
        return noise

    def reached(noise_multiplier):
        return replace_one_epsilon(
            sampling_rate, noise_multiplier, updates, budget.delta, accountant
        )

    return noise_reaching(reached, budget, sampling_rate, updates, accountant, guess=2 * noise)
