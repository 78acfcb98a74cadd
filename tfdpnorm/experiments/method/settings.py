"""The settings of our own experiments on the method. How they were found: results/SEARCH.md."""

from tfdpnorm.experiments.davody.settings import STATISTICS_TABLE

_MNIST = dict(
    public_batch_size=512,
    expected_batch_size=1024,
    epochs=3,
    l2_norm_clip=0.1,
    pull_back_weight=1.5,
    learning_rate_schedule="cosine",
    augmentation_multiplicity=1,
    evaluations=1,
    reduced="3 epochs",
    search="not searched: rates are those of Table 5 or between them",
)
_MNIST_RATES = {7.0: 8.0, 3.0: 6.0, 1.0: 4.0, 0.5: 4.0, 0.1: 1.5}
_OF_IMAGES = ("strokes", "uniform", "fractal", "sparse", "shapes", "hadamard")

# By data set and epsilon: the settings, and where the public rows come from. All kinds of rows are
# compared at one budget, the real ones with the most promising kinds at the others.
PUBLIC_ROWS = {
    "mnist": {
        epsilon: (
            _MNIST | dict(learning_rate=rate),
            ("kmnist", "cifar100", *(f"synthetic:{kind}" for kind in _OF_IMAGES))
            if epsilon == 1
            else ("kmnist", "synthetic:strokes"),
        )
        for epsilon, rate in _MNIST_RATES.items()
    },
}

# As few updates as in `davody_statistics`. So many rows are split off that all have enough.
MISMATCH = STATISTICS_TABLE | dict(
    public_dataset="split", public_batch_size=2048, augmentation_multiplicity=1
)
