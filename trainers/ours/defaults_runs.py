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

    Attributes:
        dataset: One of `DATASETS`.
        norm: One of `NORMS`.
        epsilon: Of the budget.
        optimizer: Name that `compile` gets.
        seed: Of the initial weights.
    """

    dataset: str
    norm: str
    epsilon: float
    optimizer: str
    seed: int

    @property
    def cell(self):
        """As records name it, with the seed apart."""
        return f"{self.dataset}-{self.norm}-{self.optimizer}/eps={self.epsilon:g}"
