"""Trainings with suggested settings alone: the runs of `trainers.defaults`, without TensorFlow."""

import dataclasses

DELTA = 1e-5
EPSILONS = (1.0, 3.0, 7.0)
# By data set: the network. KMNIST has no searched cells, since no rule was derived from it.
NETWORKS = {
    "digits": "LeNet-5",
    "mnist": "LeNet-5",
    "kmnist": "LeNet-5",
    "ag_news": "BiLSTM",
    "cifar10_features": "a layer on frozen features",
}
DATASETS = tuple(NETWORKS)
NORMS = ("none", "layer", "public_batch")


@dataclasses.dataclass(frozen=True)
class DefaultsRun:
    """One training with the settings that `make_private` suggests.

    `optimizer` is the name that `compile` gets; the suggested learning rate is multiplied by
    `times_rate`.
    """

    dataset: str
    norm: str
    epsilon: float
    optimizer: str
    seed: int
    times_rate: float = 1.0

    @property
    def trained_by(self):
        """The optimizer, and how far its rate is from the suggested one, as records name it."""
        times = "" if self.times_rate == 1 else f"_x{self.times_rate:g}"
        return self.optimizer + times

    @property
    def cell(self):
        """As records name it, with the seed apart."""
        return f"{self.dataset}-{self.norm}-{self.trained_by}/eps={self.epsilon:g}"
