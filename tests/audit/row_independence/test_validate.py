"""Sound models pass, and what a validation says. What it must catch is in planted_faults.py."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.audit.row_independence.sound_models import CLASSES, FEATURES, SOUND, sequential
from tfdpnorm import audit, models
from tfdpnorm.layers import PublicBatchNormalization
from tfdpnorm.training import make_private
from tfdpnorm.training.step.losses import PerExampleLoss

layers = keras.layers
pytestmark = pytest.mark.usefixtures("nothing_unchecked")

_TF_KERAS = "tf_keras" in keras.Sequential.__module__


@pytest.mark.slow_cases("masked_lstm", "convolutional_lstm")
@pytest.mark.parametrize("name", SOUND)
def test_sound_models_pass(name):
    assert audit.findings(SOUND[name]()) == []


def test_what_no_graph_can_hold_is_not_refused():
    model = sequential(layers.SpectralNormalization(layers.Dense(4)))
    warned = pytest.warns(UserWarning, match="in training: it could not be run")
    with contextlib.nullcontext() if _TF_KERAS else warned:  # tf_keras has mended the layer.
        assert audit.findings(model) == []


@pytest.mark.parametrize(
    "turns, found", [(1e6, []), (0.0, ["removal"])], ids=["by both", "by rows"]
)
def test_a_relu_that_rounding_switches_is_not_taken_for_a_dependence(turns, found):
    """Its gradient jumps with the number of rows, and with the last digits of the inputs too."""

    def switched(x):
        offset = 1e-7 * tf.sin(turns * x + tf.cast(tf.shape(x)[0], x.dtype))
        return x + 0.01 * tf.nn.relu(x - tf.stop_gradient(x) + tf.stop_gradient(offset))

    model = keras.Sequential([keras.Input((50,)), layers.Lambda(switched)])
    assert [finding.check for finding in audit.findings(model)] == found


@pytest.mark.parametrize("seed", range(3))
def test_gradients_that_are_rounding_alone_are_no_dependence(seed):
    """Means over all positions of what is normalised over these are 0 whatever the inputs are."""
    keras.utils.set_random_seed(seed)
    steps = [layers.Conv2D(8, 3), layers.GroupNormalization(8), layers.GlobalAveragePooling2D()]
    assert audit.findings(sequential(*steps, shape=(8, 8, 3))) == []


def test_gradients_as_small_as_rounding_may_be_a_dependence():
    def small(x):
        return 1.0 + 1e-9 * tf.cast(tf.shape(x)[0], x.dtype) * x

    assert [found.check for found in audit.findings(sequential(layers.Lambda(small)))] == [
        "removal"
    ]


@pytest.mark.slow_cases(
    "gru-float64",
    "gru-mixed_bfloat16",
    "group_normalization-float64",
    "group_normalization-mixed_bfloat16",
    "layer_normalization-float64",
)
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float64"])
@pytest.mark.parametrize("name", ["layer_normalization", "group_normalization", "dropout", "gru"])
def test_other_precisions_pass(name, policy):
    keras.mixed_precision.set_global_policy(policy)
    assert audit.findings(SOUND[name]()) == []


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_faults_show_in_half_precision(policy):
    keras.mixed_precision.set_global_policy(policy)
    model = sequential(layers.Lambda(lambda x: x - tf.stop_gradient(tf.reduce_mean(x, 0))))
    assert {"values", "removal"} <= {finding.check for finding in audit.findings(model)}


SMALL = {"bilstm": {"units": 4, "groups": 4, "vocabulary_size": 50, "input_shape": (9,)}}


SLOW = ("bilstm", "resnet9", "resnet18", "resnet50", "vgg", "wide_resnet", "wrn_16_4")


@pytest.mark.slow_cases(
    "tf_tutorial-*",
    "transformer-group",
    "transformer-layer",
    "lenet5-group",
    "lenet5-none",
    "random_features-group",
    "random_features-layer",
    "small_cnn-group",
    "small_cnn-layer",
)
@pytest.mark.parametrize("norm", ["none", "layer", "group"])
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in models.names()],
)
def test_project_models_pass(name, norm):
    model = models.build(name, norm=norm, num_classes=10, **SMALL.get(name, {}))
    assert audit.findings(model, loss="mse") == []


@pytest.mark.slow
@pytest.mark.parametrize("statistics", ["public", "example"])
def test_a_private_model_passes_with_its_own_loss(statistics):
    model = sequential(PublicBatchNormalization(statistics=statistics))
    private = make_private(
        model,
        num_examples=40,
        expected_batch_size=10,
        steps=2,
        l2_norm_clip=1.0,
        noise_multiplier=1.0,
        delta=1e-5,
        public_batch=np.random.default_rng(0).normal(size=(8, FEATURES)).astype(np.float32),
    )
    loss = PerExampleLoss(keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    assert audit.findings(private, loss=loss, y=tf.TensorSpec([None], tf.int64)) == []


class TestMessages:
    def test_all_findings_are_listed_with_places_and_remedies(self):
        model = sequential(layers.BatchNormalization(), layers.Dense(2, activity_regularizer="l2"))
        with pytest.raises(ValueError) as error:
            audit.validate(model)
        text = str(error.value)
        for part in (
            "statistics come from all examples of a lot",
            "no activity regularizer",
            "outputs that change by .* when only other rows of the batch change",
            "first layer without per-example independence is 'batch_normalization'",
            "'batch_normalization/moving_mean'",
            "no moments, sorting, softmax",
        ):
            assert tf.strings.regex_full_match(text.replace("\n", " "), f".*{part}.*"), part

    @pytest.mark.parametrize("culprit", ["in_the_middle", "nested"])
    def test_the_first_layer_is_named(self, culprit):
        faulty = layers.Lambda(lambda x: x - tf.reduce_mean(x, 0), name="culprit")
        if culprit == "nested":
            faulty = keras.Sequential([layers.Dense(4), faulty])
        model = sequential(layers.Dense(4), layers.Dropout(0.1), faulty, layers.Dense(4))
        found = [f for f in audit.findings(model) if f.check == "values"]
        assert found and all(f.where == "culprit" for f in found)
        assert not any("call" in vars(layer) for layer in model._flatten_layers())

    def test_sound_models_are_not_refused(self):
        assert audit.validate(sequential(), loss="mse", augmentation=lambda x: x) is None

    def test_the_loss_meets_predictions_not_views(self):
        met = []

        def loss(y, p):
            met.append(tuple(p.shape))
            return tf.reduce_mean((y - p) ** 2, -1)

        assert audit.findings(sequential(), loss=loss, augmentation=lambda x: x) == []
        assert set(met) == {(4, CLASSES), (32, CLASSES)}

    def test_each_part_is_probed(self):
        def loss(y, p):
            return tf.reduce_mean((y - p) ** 2, -1) - tf.reduce_mean(p)

        found = audit.findings(sequential(), loss=loss, augmentation=lambda x: tf.reverse(x, [0]))
        assert {f.where for f in found} == {"the loss", "the augmentation"}

    @pytest.mark.parametrize(
        ("layer", "data", "remedy"),
        [
            (layers.Normalization, np.eye(3), r"Normalization\(mean="),
            (layers.StringLookup, np.array(["a"]), r"StringLookup\(vocabulary="),
            (layers.IntegerLookup, np.array([3]), r"IntegerLookup\(vocabulary="),
            (lambda: layers.Discretization(num_bins=2), np.eye(3), "bin_boundaries="),
            (layers.TextVectorization, np.array(["a b"]), r"TextVectorization\(vocabulary="),
        ],
        ids=["normalization", "string", "integer", "discretization", "text"],
    )
    def test_adapted_layers(self, layer, data, remedy, tmp_path):
        made = layer()
        made.adapt(data)
        kind = tf.string if data.dtype.kind == "U" else data.dtype
        shape = () if isinstance(made, layers.TextVectorization) else (3,)
        model = keras.Sequential([keras.Input(shape, dtype=kind), made])
        models_to_check = [model]
        is_numeric = isinstance(made, (layers.Normalization, layers.Discretization))
        if is_numeric or not _TF_KERAS:  # tf_keras cannot load the tables that it saves.
            model.save(tmp_path / "model.keras")
            models_to_check.append(keras.models.load_model(tmp_path / "model.keras"))
        for found in models_to_check:
            with pytest.raises(ValueError, match=f"{made.name}.*adapt.*{remedy}"):
                audit.check_known_layers(found)
