"""What is released with Gaussian noise, for the accountants: sampling, noise, how often.

A batch of at most S examples is a Poisson sample of which S take part where more are drawn. Its
price follows from a lemma (docs/guarantee.md, *Truncation*): with the probability that the others
fill the batch, an *overflow*, an example also displaces another one, as if the noise were half.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from tfdpnorm import arguments


class Mechanism(NamedTuple):
    """`count` noisy sums over samples of the same examples.

    Attributes:
        sampling_rate: Probability q of each example to be drawn, in (0, 1].
        noise_multiplier: Standard deviation of the noise over the most that one example adds.
        count: How many sums, >= 0.
        most_per_batch: The most examples S that take part in one, >= 1; None for all drawn ones.
        num_examples: N, from which they are drawn; with S only.
    """

    sampling_rate: float
    noise_multiplier: float
    count: int
    most_per_batch: int | None = None
    num_examples: int | None = None

    @classmethod
    def of(cls, fields):
        """Returns the `Mechanism` of a sequence of its fields, checked.

        Raises:
            ValueError: for a value out of its range.
        """
        made = cls(*fields)
        arguments.sampling_rate("sampling rate", made.sampling_rate)
        arguments.noise_multiplier("noise multiplier", made.noise_multiplier)
        arguments.whole("count", made.count, at_least=0)
        if made.most_per_batch is not None:
            arguments.whole("most per batch", made.most_per_batch, at_least=1)
            arguments.whole("number of examples", made.num_examples, at_least=1)
        return made

    @property
    def overflowed(self) -> Mechanism:
        """What an update releases if the others fill its batch: a displaced example counts, too."""
        return Mechanism(self.sampling_rate, self.noise_multiplier / 2, 1)

    def overflow(self, rows: int = 1) -> float:
        """Returns the probability that others leave fewer than `rows` places in a batch."""
        if self.most_per_batch is None:
            return 0.0
        return exceeds(self.num_examples, self.sampling_rate, self.most_per_batch - rows)


def overflows(mechanisms, rows=1):
    """Returns the expected number of overflows in all of these `Mechanism`s, a float."""
    return sum(each.count * each.overflow(rows) for each in mechanisms)


@functools.lru_cache(maxsize=1024)
def exceeds(count, probability, number):
    """Returns P[Binomial(count, probability) > number]."""
    from scipy.stats import binom  # takes long to load

    return float(binom.sf(number, count, probability))
