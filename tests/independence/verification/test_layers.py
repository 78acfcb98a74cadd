"""Stock Keras layers with a gradient rule, and the losses of Keras, are proved in training."""

import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.independence.planted_faults import specs_of
from tests.independence.sound_models import SOUND
from tfdpnorm.independence.book_keeping import prove_training

P = 4  # also a size of other axes, on purpose
layers = keras.layers

SEQUENCES = {
    "dense": lambda: layers.Dense(4, "gelu"),
    "conv1d": lambda: layers.Conv1D(4, 2, padding="causal"),
    "conv1d_dilated": lambda: layers.Conv1D(4, 2, padding="same", dilation_rate=2),
    "conv1d_groups": lambda: layers.Conv1D(4, 2, groups=2),
    "separable1d": lambda: layers.SeparableConv1D(4, 2),
    "depthwise1d": lambda: layers.DepthwiseConv1D(2),
    "transposed1d": lambda: layers.Conv1DTranspose(4, 2, strides=2),
    "einsum_dense": lambda: layers.EinsumDense("btd,dhk->bthk", output_shape=(4, 2, 4)),
    "layer_normalization": lambda: layers.LayerNormalization(),
    "layer_normalization_over_all": lambda: layers.LayerNormalization(axis=[1, 2]),
    "group_normalization": lambda: layers.GroupNormalization(2),
    "unit_normalization": lambda: layers.UnitNormalization(),
    "batch_normalization_frozen": lambda: layers.BatchNormalization(trainable=False),
    "lstm": lambda: layers.LSTM(4, return_sequences=True, dropout=0.2, recurrent_dropout=0.2),
    "lstm_unrolled": lambda: layers.LSTM(4, unroll=True),
    "gru": lambda: layers.GRU(4),
    "gru_reset_before": lambda: layers.GRU(4, reset_after=False, go_backwards=True),
    "simple_rnn": lambda: layers.SimpleRNN(4),
    "bidirectional": lambda: layers.Bidirectional(layers.LSTM(4, return_sequences=True)),
    "time_distributed": lambda: layers.TimeDistributed(layers.Dense(4)),
    "prelu": lambda: layers.PReLU(shared_axes=[1]),
    "leaky_relu": lambda: layers.LeakyReLU(),
    "elu": lambda: layers.ELU(),
    "softmax": lambda: layers.Softmax(),
    "dropout": lambda: layers.Dropout(0.5),
    "spatial_dropout": lambda: layers.SpatialDropout1D(0.5),
    "alpha_dropout": lambda: layers.AlphaDropout(0.5),
    "gaussian_noise": lambda: layers.GaussianNoise(0.5),
    "gaussian_dropout": lambda: layers.GaussianDropout(0.5),
    "max_pooling": lambda: layers.MaxPooling1D(2),
    "average_pooling": lambda: layers.AveragePooling1D(2),
    "global_pooling": lambda: layers.GlobalAveragePooling1D(),
    "global_max_pooling": lambda: layers.GlobalMaxPooling1D(),
    "permute": lambda: layers.Permute((2, 1)),
    "reshape": lambda: layers.Reshape((2, -1)),
    "repeat_vector": lambda: keras.Sequential([layers.Flatten(), layers.RepeatVector(3)]),
    "zero_padding": lambda: layers.ZeroPadding1D(2),
    "cropping": lambda: layers.Cropping1D(1),
    "up_sampling": lambda: layers.UpSampling1D(2),
    "masking": lambda: keras.Sequential([layers.Masking(), layers.LSTM(3)]),
}
IMAGES = {
    "conv2d": lambda: layers.Conv2D(4, 3, strides=2, padding="same"),
    "conv2d_dilated": lambda: layers.Conv2D(4, 2, dilation_rate=2),
    "conv2d_groups": lambda: layers.Conv2D(4, 2, groups=4),
    "depthwise2d": lambda: layers.DepthwiseConv2D(2, depth_multiplier=2),
    "depthwise2d_dilated": lambda: layers.DepthwiseConv2D(2, dilation_rate=2),
    "separable2d": lambda: layers.SeparableConv2D(4, 2),
    "transposed2d": lambda: layers.Conv2DTranspose(4, 3, strides=2),
    "locally_connected": lambda: layers.LocallyConnected2D(2, 3),
    "max_pooling": lambda: layers.MaxPooling2D(2),
    "average_pooling": lambda: layers.AveragePooling2D(2),
    "global_pooling": lambda: layers.GlobalMaxPooling2D(),
    "spatial_dropout": lambda: layers.SpatialDropout2D(0.5),
    "up_sampling": lambda: layers.UpSampling2D(2, interpolation="bilinear"),
    "zero_padding": lambda: layers.ZeroPadding2D(1),
    "cropping": lambda: layers.Cropping2D(1),
    "group_normalization": lambda: layers.GroupNormalization(2),
    "layer_normalization": lambda: layers.LayerNormalization(axis=[1, 2, 3]),
    "resizing": lambda: layers.Resizing(5, 5),
    "rescaling": lambda: layers.Rescaling(2.0),
    "center_crop": lambda: layers.CenterCrop(2, 2),
    "random_flip": lambda: layers.RandomFlip(),
    "random_translation": lambda: layers.RandomTranslation(0.2, 0.2),
    "random_rotation": lambda: layers.RandomRotation(0.2),
    "random_zoom": lambda: layers.RandomZoom(0.2),
    "random_brightness": lambda: layers.RandomBrightness(0.2),
}
VOLUMES = {
    "conv3d": lambda: layers.Conv3D(2, 2),
    "transposed3d": lambda: layers.Conv3DTranspose(2, 2, strides=2),
    "max_pooling3d": lambda: layers.MaxPooling3D(2),
    "average_pooling3d": lambda: layers.AveragePooling3D(2),
}
KINDS = {"sequences": (SEQUENCES, (4, 4)), "images": (IMAGES, (4, 4, 4))}
KINDS["volumes"] = VOLUMES, (4, 4, 4, 1)
CASES = {
    f"{kind}-{name}": (make, shape)
    for kind, (table, shape) in KINDS.items()
    for name, make in table.items()
}


def _case(name):
    gone = pytest.mark.keras_2_only("there are no locally connected layers")
    return pytest.param(name, marks=gone) if name == "images-locally_connected" else name


def spec(*shape, dtype=tf.float32):
    return tf.TensorSpec([P, *shape], dtype)


def proof_of(model, x, loss="sparse_categorical_crossentropy", y=None):
    return prove_training(model, loss, x, spec(dtype=tf.int64) if y is None else y)


SLOW = ["sequences-masking", "sequences-bidirectional", "sequences-gru_reset_before", "volumes-*"]
SLOW += ["images-*_dilated", "images-random_*", "images-*padding", "images-*cro*", "images-res*"]
SLOW += ["sequences-*dropout", "sequences-*pooling", "sequences-*lu", "sequences-gaussian_noise"]


@pytest.mark.slow
@pytest.mark.slow_cases(*SLOW)
@pytest.mark.parametrize("name", [_case(name) for name in CASES])
@pytest.mark.filterwarnings("ignore:There is no gradient rule")
def test_a_stock_layer_between_trained_layers_is_verified(name):
    make, shape = CASES[name]
    first = layers.Dense(4, name="before")
    behind = [layers.Flatten(), layers.Dense(3, name="head")]
    model = keras.Sequential([keras.Input(shape), first, make(), *behind])
    proof = proof_of(model, spec(*shape))
    assert proof.holds, proof.obstacle
    named = " ".join(claim.what for claim in proof.claims)
    assert "'before'" in named and "'head'" in named


def tokens():
    """Ids and an attention over them, with a mask from padding."""
    inputs = keras.Input((6,), dtype="int32")
    x = layers.Embedding(50, 8, mask_zero=True)(inputs)
    x = layers.MultiHeadAttention(2, 4, dropout=0.1)(x, x, use_causal_mask=True)
    x = layers.LayerNormalization()(x)
    return keras.Model(inputs, layers.Dense(3)(layers.GlobalAveragePooling1D()(x)))


def keras_attention(kind, **options):
    inputs = keras.Input((6,), dtype="int32")
    x = layers.Embedding(50, 8, mask_zero=True)(inputs)
    x = kind(**options)([x, x])
    return keras.Model(inputs, layers.Dense(3)(layers.Flatten()(x)))


def long_sequence():
    """More steps than are unrolled: a loop, forwards and backwards."""
    inputs = keras.Input((140, 2))
    x = layers.LSTM(3, return_sequences=True)(inputs)
    return keras.Model(inputs, layers.Dense(3)(layers.GRU(2)(x)))


def frozen_lstm():
    """Without a rule of ours: Keras' own loop."""
    inputs = keras.Input((6, 2))
    x = layers.LSTM(3, trainable=False)(layers.Dense(2)(inputs))
    return keras.Model(inputs, layers.Dense(3)(x))


def siamese():
    """One layer, called twice."""
    inputs = [keras.Input((4,)), keras.Input((4,))]
    shared = layers.Dense(5)
    x = layers.Lambda(tf.abs)(shared(inputs[0]) - shared(inputs[1]))
    return keras.Model(inputs, layers.Dense(3)(x))


def convolutions_over_time():
    inputs = keras.Input((3, 6, 6, 1))
    x = layers.TimeDistributed(layers.Conv2D(2, 3, activation="relu"))(inputs)
    x = layers.TimeDistributed(layers.Flatten())(x)
    return keras.Model(inputs, layers.Dense(3)(layers.LSTM(4)(x)))


MODELS = {
    "tokens": (tokens, spec(6, dtype=tf.int32)),
    "attention": (lambda: keras_attention(layers.Attention), spec(6, dtype=tf.int32)),
    "attention_scaled": (
        lambda: keras_attention(layers.Attention, use_scale=True, score_mode="concat"),
        spec(6, dtype=tf.int32),
    ),
    "attention_additive": (
        lambda: keras_attention(layers.AdditiveAttention),
        spec(6, dtype=tf.int32),
    ),
    "long_sequence": (long_sequence, spec(140, 2)),
    "frozen_lstm": (frozen_lstm, spec(6, 2)),
    "siamese": (siamese, [spec(4), spec(4)]),
    "convolutions_over_time": (convolutions_over_time, spec(3, 6, 6, 1)),
}


@pytest.mark.slow
@each("name", MODELS)
def test_a_model_of_stock_layers_is_verified(name):
    make, x = MODELS[name]
    proof = proof_of(make(), x)
    assert proof.holds, proof.obstacle


LOSSES = {
    "mean_squared_error": False,
    "mean_absolute_error": False,
    "mean_absolute_percentage_error": False,
    "mean_squared_logarithmic_error": False,
    "huber": False,
    "log_cosh": False,
    "poisson": False,
    "kl_divergence": False,
    "cosine_similarity": False,
    "binary_crossentropy": False,
    "binary_focal_crossentropy": False,
    "categorical_crossentropy": False,
    "categorical_focal_crossentropy": False,
    "categorical_hinge": False,
    "sparse_categorical_crossentropy": True,
}


@pytest.mark.quick_cases(
    "linear-poisson", "linear-cosine_similarity", "linear-binary_focal_crossentropy"
)
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("activation", ["linear", "softmax"])
def test_a_loss_of_keras_is_verified(name, activation):
    model = keras.Sequential([keras.Input((5,)), layers.Dense(P, activation)])
    y = spec(dtype=tf.int64) if LOSSES[name] else spec(P)
    proof = proof_of(model, spec(5), name, y)
    assert proof.holds, proof.obstacle


@each("name", ["hinge", "squared_hinge"])
def test_hinge_losses_are_not_verified_as_one_label_changes_all(name):
    """Keras takes all labels for 0 and 1 if all of the batch are, and for -1 and 1 else."""
    model = keras.Sequential([keras.Input((5,)), layers.Dense(1)])
    proof = proof_of(model, spec(5), name, spec(1))
    assert not proof.holds
    assert proof.culprit.op_type == "All"
    value = keras.losses.get(name)
    alone = value(tf.constant([[0.0], [1.0]]), tf.constant([[0.5], [0.5]]))
    beside = value(tf.constant([[0.0], [-1.0]]), tf.constant([[0.5], [0.5]]))
    assert alone[0] != beside[0]


DRAWN_FOR_A_BATCH = {
    "layer": lambda: layers.RandomContrast(0.2),
    "number": lambda: layers.Lambda(lambda x: x * tf.random.uniform([])),
    "row": lambda: layers.Lambda(lambda x: x + tf.random.normal([4, 4, 3])),
}


@each("name", DRAWN_FOR_A_BATCH)
def test_layers_drawing_for_a_whole_batch_are_verified(name):
    """Positions are drawn across all physical batches, so that none of them tells an example."""
    behind = [layers.Flatten(), layers.Dense(3)]
    model = keras.Sequential([keras.Input((4, 4, 3)), DRAWN_FOR_A_BATCH[name](), *behind])
    proof = proof_of(model, spec(4, 4, 3))
    assert proof.holds, proof.obstacle


# Not proved: words of different numbers make ragged tensors. The last is refused by the engine.
BEYOND = ("public_words",)
REFUSED = ("kernel_that_calls_normalise",)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(SOUND) - set(REFUSED)))
@pytest.mark.filterwarnings("ignore:There is no gradient rule")
def test_the_sound_models(name):
    model = SOUND[name]()

    def full(given):
        return spec(*(6 if n is None else n for n in given.shape[1:]), dtype=given.dtype)

    def loss(y, predictions):
        parts = [tf.cast(p, tf.float32) for p in tf.nest.flatten(predictions)]
        return tf.add_n([tf.reduce_sum(tf.reshape(p, [P, -1]), 1) for p in parts])

    proof = proof_of(model, tf.nest.map_structure(full, specs_of(model)), loss)
    assert proof.holds == (name not in BEYOND), proof.obstacle
