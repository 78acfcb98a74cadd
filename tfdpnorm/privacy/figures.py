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
        added_in_all: Their sum.
    """

    def __init__(self, ledger, rows=None):
        self._state, self._rows = ledger.state, rows
        self.delta = ledger.plan.delta
        epsilon = ledger.epsilon if rows is None else ledger.person_epsilon
        self.epsilon, self.whole_plan_epsilon = epsilon(), epsilon(whole_plan=True)
        computed = self.epsilon if rows is None else epsilons.person_epsilon(self._state, rows)
        self.added = added_to_delta(ledger, computed)
        self.added_in_all, self.is_finite = total(self.added), math.isfinite(self.epsilon)

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

    @property
    def best_at_1_percent(self):
        """The highest true-positive rate at that false-positive rate."""
        return self.true_positive_rates[0.01]

    @property
    def best_at_1_permille(self):
        """The highest true-positive rate at that false-positive rate."""
        return self.true_positive_rates[0.001]

    @property
    def mu_is_close(self):
        """Whether attacks with few false positives are about as good as mu says.

        What bounds a search is far from a Gaussian mechanism: its mu would look like another
        guarantee.
        """
        return self.rate_by_mu(0.01) <= 2 * self.best_at_1_percent

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
        return profiles.plus(found, self.added_in_all)
