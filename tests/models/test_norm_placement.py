"""After which trainable layers each family is normalised: sizes and order, worked out by hand."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm import models
from tfdpnorm.layers import PublicBatchNormalization
from tfdpnorm.models.normalization import Normalizer

NORMALIZATION_LAYERS = (
    keras.layers.BatchNormalization,
    keras.layers.GroupNormalization,
    keras.layers.LayerNormalization,
    PublicBatchNormalization,
)
NORMS = ("none", "layer", "batch", "public_batch")


def resnet_layers():
    yield "conv1", 9 * 3 * 64, 64
    before = 64
    for stage, channels in enumerate((64, 128, 256, 512), start=1):
        name = f"stage{stage}_block1"
        yield f"{name}_conv1", 9 * before * channels, channels
        if stage > 1:
            yield f"{name}_projection", before * channels, channels
        yield f"{name}_conv2", 9 * channels**2, channels
        name = f"stage{stage}_block2"
        yield f"{name}_conv1", 9 * channels**2, channels
        yield f"{name}_conv2", 9 * channels**2, channels
        before = channels
    yield "logits", 512 * 10, 10


# Of each trainable layer with ten classes: its name, the size of its kernel, its units or channels.
# The last is the logits, the last but one is what "-mod" leaves without a normalisation.
TRAINABLE = {
    "lenet5": [
        ("conv1", 25 * 1 * 6, 6),
        ("conv2", 25 * 6 * 16, 16),
        ("dense1", 400 * 120, 120),
        ("dense2", 120 * 84, 84),
        ("logits", 84 * 10, 10),
    ],
    "lenet_300_100": [
        ("dense1", 784 * 300, 300),
        ("dense2", 300 * 100, 100),
        ("logits", 100 * 10, 10),
    ],
    "mlp": [("dense1", 784 * 1000, 1000), ("logits", 1000 * 10, 10)],
    "tf_tutorial": [
        ("conv1", 25 * 3 * 64, 64),
        ("conv2", 25 * 64 * 64, 64),
        ("dense1", 6 * 6 * 64 * 384, 384),
        ("dense2", 384 * 384, 384),
        ("logits", 384 * 10, 10),
    ],
    "vgg": [
        ("stage1_conv1", 9 * 3 * 64, 64),
        ("stage1_conv2", 9 * 64 * 64, 64),
        ("stage2_conv1", 9 * 64 * 128, 128),
        ("stage2_conv2", 9 * 128 * 128, 128),
        ("stage3_conv1", 9 * 128 * 256, 256),
        ("stage3_conv2", 9 * 256 * 256, 256),
        ("stage3_conv3", 9 * 256 * 256, 256),
        ("stage3_conv4", 9 * 256 * 256, 256),
        ("dense1", 256 * 512, 512),
        ("logits", 512 * 10, 10),
    ],
    "resnet18": list(resnet_layers()),
}
# Known sizes of the trainable weights, so that the tables above are not believed blindly.
SIZES = [
    ("lenet5", "none", 61_706),
    ("lenet_300_100", "none", 266_610),
    ("mlp", "none", 795_010),
    ("tf_tutorial", "none", 1_144_138),
    ("vgg", "none", 2_462_282),
    ("resnet18", "batch", 11_173_962),
]
SLOW = [("resnet18", norm) for norm in NORMS if norm != "batch"]
SLOW += [("vgg", norm) for norm in ("none", "public_batch")]
CASES = [
    pytest.param(
        *(name, norm, placement),
        marks=[pytest.mark.slow] if (name, norm) in SLOW else [],
    )
    for name in TRAINABLE
    for norm in NORMS
    for placement in models.PLACEMENTS
]


def normalised_layers(name, norm, placement):
    """[(name, units)] of the layers that a normalisation follows, in order."""
    last = {"all": 0, "hidden": 1, "mod": 2}[placement]
    layers = TRAINABLE[name]
    return [] if norm == "none" else [(n, units) for n, _, units in layers[: len(layers) - last]]


def expected_counts(name, norm, placement):
    """Numbers of trainable and of other weights."""
    followed = dict(normalised_layers(name, norm, placement))
    unbiased = followed if norm in ("batch", "public_batch") else {}
    kernels = sum(kernel for _, kernel, _ in TRAINABLE[name])
    biases = sum(units for n, _, units in TRAINABLE[name] if n not in unbiased)
    channels = sum(followed.values())
    # Public moments are those of what comes out and of what goes in, and two numbers of rows.
    taps = 25 if name in ("lenet5", "tf_tutorial") else 9
    going_in = sum(
        kernel // units // (taps if "conv" in n else 1)
        for n, kernel, units in TRAINABLE[name]
        if n in followed
    )
    public = 2 * (channels + going_in + len(followed))
    moments = {"batch": 2 * channels, "public_batch": public}
    return kernels + biases + 2 * channels, moments.get(norm, 0)


def count(weights):
    return sum(int(np.prod(weight.shape)) for weight in weights)


def counts(model):
    return count(model.trainable_weights), count(model.non_trainable_weights)


def normalizations(model):
    return [layer for layer in model.layers if isinstance(layer, NORMALIZATION_LAYERS)]


@each(("name", "norm", "size"), SIZES)
def test_the_tables_have_the_published_sizes(name, norm, size):
    assert expected_counts(name, norm, "hidden")[0] == size


@pytest.mark.quick_cases("lenet5-none-hidden", "lenet5-none-all", "lenet5-none-mod")
@pytest.mark.parametrize(("name", "norm", "placement"), CASES)
def test_sizes_and_order(name, norm, placement):
    model = models.build(name, norm=norm, norm_placement=placement)
    assert counts(model) == expected_counts(name, norm, placement)
    followed = [n for n, _ in normalised_layers(name, norm, placement)]
    layers = normalizations(model)
    assert sorted(layer.name for layer in layers) == sorted(f"{n}_norm" for n in followed)
    for layer in layers:
        assert layer.input is model.get_layer(layer.name.removesuffix("_norm")).output
    names = {layer.name for layer in model.layers}
    for n, _, _ in TRAINABLE[name]:
        last = model.get_layer(f"{n}_norm" if n in followed else n).output
        activation = "predictions" if n == "logits" else f"{n}_activation"
        if activation in names:
            assert model.get_layer(activation).input is last


@each("placement", models.PLACEMENTS)
def test_group_norm_keeps_every_bias(placement):
    expected = expected_counts("tf_tutorial", "layer", placement)
    assert counts(models.build("tf_tutorial", "group", norm_placement=placement)) == expected


@each("norm", ["layer", "batch"])
@each(("placement", "free"), [("hidden", ["logits"]), ("all", []), ("mod", ["dense2", "logits"])])
def test_the_scale_of_a_layer_matters_where_no_norm_follows(norm, placement, free):
    """Davody et al. (2020), Section 2: what is normalised is invariant to the scale of weights."""
    keras.utils.set_random_seed(0)
    model = models.build("lenet_300_100", norm, norm_placement=placement, input_shape=(20,))
    for layer in model.layers:
        layer.set_weights([100.0 * weight for weight in layer.get_weights()])  # dwarfs epsilon
    x = np.random.default_rng(0).normal(size=(16, 20)).astype("float32")
    before = model(x, training=True).numpy()
    for name in ("dense1", "dense2", "logits"):
        layer = model.get_layer(name)
        weights = layer.get_weights()
        layer.set_weights([8.0 * weight for weight in weights])
        same = np.allclose(model(x, training=True), before, rtol=1e-3, atol=1e-3 * before.std())
        assert same == (name not in free), name
        layer.set_weights(weights)


@each("name", sorted([*TRAINABLE, "bilstm"]))
def test_an_unknown_placement_is_rejected(name):
    for norm in ("none", "layer"):
        with pytest.raises(ValueError, match=r"norm_placement to be one of 'hidden'.*got 'last'"):
            models.build(name, norm=norm, norm_placement="last")


@each("placement", [None, ["all"], True])
def test_a_placement_is_a_string(placement):
    with pytest.raises(ValueError, match="Expected norm_placement to be one of"):
        Normalizer("layer", placement)


def test_mod_of_a_network_without_hidden_layers():
    for placement in ("hidden", "mod"):
        model = models.build("mlp", "layer", hidden_units=(), norm_placement=placement)
        assert normalizations(model) == [] and count(model.weights) == 784 * 10 + 10


@each(
    ("norm", "options", "message"),
    [
        ("group", {"num_classes": 4, "norm_placement": "all"}, "4 units in 4 groups at 'logits_"),
        ("layer", {"num_classes": 1, "norm_placement": "all"}, "1 units in 1 groups at 'logits_"),
        ("group", {"hidden_units": (16,)}, "16 units in 16 groups at 'dense1_norm'"),
    ],
)
def test_normalising_single_units_is_rejected(norm, options, message):
    """The deviation of one number from its own mean is 0, whatever the network has seen."""
    with pytest.raises(ValueError, match=message):
        models.build("mlp", norm, input_shape=(5,), **options)


def test_groups_of_two_units_pass():
    model = models.build("mlp", "group", 4, (5,), groups=2, norm_placement="all")
    assert model.get_layer("logits_norm").groups == 2


def test_groups_may_be_a_number_of_numpy():
    model = models.build("mlp", "group", 4, (5,), groups=np.int64(2), norm_placement="all")
    assert type(model.get_layer("logits_norm").groups) is int
    with pytest.raises(ValueError, match="power of two, got True"):
        models.build("mlp", "group", 4, (5,), groups=True, norm_placement="all")


SMALL = {
    "lenet_300_100": {"input_shape": (6,)},
    "tf_tutorial": {"input_shape": (9, 8, 2)},
    "vgg": {"input_shape": (8, 9, 2), "width": 4},
    "resnet18": {"input_shape": (8, 9, 2), "width": 4},
    "bilstm": {"input_shape": (5,), "vocabulary_size": 9, "embedding_dim": 4, "units": 3},
}


@pytest.mark.quick_cases(
    "lenet_300_100-none-mixed_float16",
    "lenet_300_100-layer-mixed_float16",
    "lenet_300_100-group-mixed_float16",
)
@pytest.mark.parametrize(
    "policy", ["mixed_float16", pytest.param("mixed_bfloat16", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("norm", models.NORMS)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[pytest.mark.slow] if n in ("resnet18", "bilstm") else [])
        for n in SMALL
    ],
)
def test_logits_are_float32(name, norm, policy, set_policy):
    set_policy(policy)
    model = models.build(name, norm, 3, norm_placement="all", **SMALL[name])
    logits = model(np.ones((2, *SMALL[name]["input_shape"]), "float32"))
    assert logits.shape == (2, 3) and logits.dtype == tf.float32
    assert np.isfinite(logits).all()
    assert model.get_layer("logits").compute_dtype == policy.removeprefix("mixed_")
    assert all(weight.dtype == tf.float32 for weight in model.weights)


@each("name", ["tf_tutorial", "vgg", "resnet18"])
@each("shape", [(7, 8, 3), (32, 7, 3), (32, 32), (3072,), (1, 32, 32, 3), (None, None, 3)])
def test_wrong_images_are_rejected(name, shape):
    with pytest.raises(ValueError, match=r"input_shape=\(height, width, channels\).* at least 8"):
        models.build(name, input_shape=shape)
