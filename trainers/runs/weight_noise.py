"""Runs without privacy, with noise in the weights.

Davody et al. (2020), Section 2. Ordinary training by Keras: shuffled batches, Adam, no clipping.
"""

from trainers.runs.non_private import NonPrivateRun
from trainers.spec import WeightNoiseSpec

NOT_PRIVATE = "trained without differential privacy; the noise in the weights protects nobody"


class WeightNoiseRun(NonPrivateRun):
    """A run of a `WeightNoiseSpec`."""

    spec_class = WeightNoiseSpec
    reason = NOT_PRIVATE

    def network_options(self):
        """As `NonPrivateRun`."""
        return {"weight_noise_stddev": self.spec.weight_noise_stddev}

    def noise(self):
        """As `NonPrivateRun`."""
        return f", weights drawn with standard deviation {self.spec.weight_noise_stddev:g}"

    def measured(self):
        """As `NonPrivateRun`."""
        return {**super().measured(), "weight_noise_stddev": self.spec.weight_noise_stddev}
