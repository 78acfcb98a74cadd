"""The choices of settings: the names that layers, specs and flags share.

Imports nothing, so that programs can list them, and reject others, without loading TensorFlow.
"""

ACCOUNTANTS = ("rdp", "pld")

# Units of privacy (`tfdpnorm.make_plan`).
UNITS = ("row", "person")

# Gradient engines (`tfdpnorm.gradients.engines.registry`), the fastest first.
ENGINES = ("book_keeping", "per_example", "tfp_vectorized", "tfp_model")

# `physical_batch_size` other than a number: as many rows as fit into memory.
AUTO = "auto"

# Generators of the privacy noise (`tfdpnorm.noise.gaussian`).
GENERATORS = ("openssl", "philox")

# The library's own networks (`tfdpnorm.models`); more can be registered.
MODELS = (
    "bilstm",
    "lenet5",
    "lenet_300_100",
    "mlp",
    "random_features",
    "resnet18",
    "resnet50",
    "resnet9",
    "small_cnn",
    "tf_tutorial",
    "transformer",
    "vgg",
    "wide_resnet",
    "wrn_16_4",
)

# Normalisations of these networks, and where they are.
NORMS = ("none", "layer", "group", "batch", "public_batch", "noised_batch")
PLACEMENTS = ("hidden", "all", "mod")

# Replacements of an imported model's batch normalisation (`tfdpnorm.convert_model`).
BATCH_NORMS = ("public_batch", "group", "layer", "frozen")

# Of `tfdpnorm.layers.PublicBatchNormalization`.
STATISTICS = ("public", "blend", "example", "lot")
STATISTICS_GRADIENTS = ("full", "stop")

# How much of the gradient through public statistics is taken (`tfdpnorm.make_private`).
PULL_BACKS = ("whole", "shrunk")

# How gradients are grouped when they are clipped (`tfdpnorm.gradients.clipping`).
CLIP_GROUPINGS = ("flat", "per_layer")

# Of the random number of trials of a search (`tfdpnorm.tuning`), by the shape of the distribution
# in `tfdpnorm.privacy.search.SearchPlan`.
SEARCH_DISTRIBUTIONS = {"poisson": float("inf"), "geometric": 1.0}

# Kinds of synthetic public rows, see `tfdpnorm.data.synthetic_rows`.
SYNTHETIC_KINDS = (
    "uniform",
    "gaussian",
    "sparse",
    "hadamard",
    "blurred",
    "strokes",
    "ink",
    "fractal",
    "shapes",
    "cosine",
    "tokens",
    "zipf",
)
