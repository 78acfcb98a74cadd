"""Inputs standardised by constants that have been published."""

from tensorflow import keras

from tfdpnorm.arguments import choice, refusal

# Mean and standard deviation of red, green and blue, of pixels in [0, 1].
PUBLIC_MOMENTS = {
    "cifar100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}


def standardized(x, dataset):
    """Images [batch, height, width, 3] with pixels in [0, 1], standardised by channel.

    With `dataset` None, they are returned as they are.

    Privacy:
        The constants are those of a public data set, so that no private example is counted in them.
        Klause et al. take those of CIFAR-10 itself.
    """
    if dataset is None:
        return x
    mean, stddev = PUBLIC_MOMENTS[choice("standardized_by", dataset, tuple(PUBLIC_MOMENTS))]
    if x.shape[-1] != len(mean):
        raise refusal(
            "standardized_by", "with images of three channels only", f"{x.shape[-1]} channels"
        )
    variance = [value**2 for value in stddev]
    return keras.layers.Normalization(mean=mean, variance=variance, name="standardized")(x)
