"""The figures of a statement, computed once for text and JSON."""

import functools
import math

from scipy import special

from tfdpnorm.privacy import epsilons, profiles
from tfdpnorm.privacy.added_delta import added_to_delta, total

FALSE_POSITIVE_RATES = (0.01, 0.001)
_LARGEST = 700.0  # exp of more overflows


class Figures:
    """The guarantee for an example, or for a person who owns some.

    Args:
        ledger: `PrivacyLedger` whose guarantee holds.
        rows: None for the sampled unit; for persons where examples are sampled, how many each has.

    Attributes:
        epsilon: So far, a float.
        whole_plan_epsilon: After the last update and answer planned.
        added: Dict of the additions to delta, by reason.
    """

    def __init__(self, ledger, rows=None):
        self._state, self._rows = ledger.state, rows
        self.delta = ledger.plan.delta
        if rows is None:
            self.epsilon = ledger.epsilon()
            self.whole_plan_epsilon = ledger.epsilon(whole_plan=True)
            computed = self.epsilon
        else:
            self.epsilon = ledger.person_epsilon()
            self.whole_plan_epsilon = ledger.person_epsilon(whole_plan=True)
            computed = epsilons.person_epsilon(self._state, rows)
        self.added = added_to_delta(ledger, computed)

    @functools.cached_property
    def odds(self):
        """The factor by which odds change at most, except with probability delta; maybe infinite.

        More than exp(epsilon): results beyond that may have a probability of more than delta.
        """
        loss = profiles.loss_at(self._profile, self.delta)
        return math.exp(loss) if loss < _LARGEST else math.inf

    @property
    def certainty(self):
        """How sure an attacker with even odds can become, except with that probability."""
        return 1 / (1 + 1 / self.odds)

    @functools.cached_property
    def true_positive_rates(self):
        """The highest true-positive rate of an attack by its false-positive rate, a dict."""
        return {
            rate: profiles.true_positive_rate(self._profile, rate) for rate in FALSE_POSITIVE_RATES
        }

    @functools.cached_property
    def mu(self):
        """See `profiles.gaussian_mu`."""
        return profiles.gaussian_mu(self._profile)

    def rate_by_mu(self, false_positive_rate):
        """The true-positive rate that mu alone would allow."""
        return float(special.ndtr(special.ndtri(false_positive_rate) + self.mu))

    @functools.cached_property
    def _profile(self):
        found = epsilons.profile(self._state, self._rows)
        return profiles.plus(found, total(self.added))


def person_figures(ledger):
    """The `Figures` of a person who owns examples; None where they are not stated."""
    rows = ledger.most_rows_per_person
    if rows is None or epsilons.persons_unavailable(ledger.state) is not None:
        return None
    return Figures(ledger, rows)
