"""Sound models, losses and augmentations pass; what a validation says, and that it leaves no trace.

What it must catch is in planted_faults.py.
"""

import random
import warnings

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm import audit, models
from tfdpnorm.audit.probe import moved, splits
from tfdpnorm.audit.synthetic import rows_like, synthetic_rows
from tfdpnorm.layers import PublicBatchNormalization, ScaleNorm
from tfdpnorm.training import make_private
from tfdpnorm.training.losses import PerExampleLoss

FEATURES, CLASSES = 5, 3
layers = keras.layers


@pytest.fixture(autouse=True)
def _clean_keras():
    """No test sees another's seed, policy or graph; and a warning is a failure.

    Graphs are optimised after each test as they were before.
    """
    keras.backend.clear_session()
    keras.utils.set_random_seed(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Whether rows mix could not be checked")
        yield
    keras.mixed_precision.set_global_policy("float32")
    assert not tf.config.optimizer.get_experimental_options().get("disable_meta_optimizer")


def sequential(*middle, shape=(FEATURES,)):
    return keras.Sequential([keras.Input(shape), *middle, layers.Dense(CLASSES, name="head")])


def functional(inputs, outputs):
    return keras.Model(inputs, outputs)


def images(*middle):
    return sequential(*middle, layers.Flatten(), shape=(8, 8, 4))


def attention():
    inputs = keras.Input((6,), dtype="int32")
    x = layers.Embedding(50, 8, mask_zero=True)(inputs)
    x = layers.MultiHeadAttention(2, 4, dropout=0.1)(x, x)
    return functional(inputs, layers.Dense(CLASSES)(layers.GlobalAveragePooling1D()(x)))


def masked_lstm():
    inputs = keras.Input((None,), dtype="int64")
    x = layers.Embedding(7, 4, mask_zero=True)(inputs)
    x = layers.Bidirectional(layers.LSTM(3, dropout=0.2, recurrent_dropout=0.2))(x)
    return functional(inputs, layers.Dense(CLASSES)(x))


def several_inputs():
    inputs = {
        "image": keras.Input((8, 8, 1), name="image"),
        "id": keras.Input((), name="id", dtype="int32"),
    }
    image = layers.Flatten()(layers.Conv2D(2, 3)(inputs["image"]))
    x = layers.Concatenate()([image, layers.Embedding(9, 2)(inputs["id"])])
    return functional(inputs, {"label": layers.Dense(CLASSES)(x), "size": layers.Dense(1)(x)})


def list_of_inputs():
    inputs = [keras.Input((4,)), keras.Input((2,))]
    x = layers.Concatenate()(inputs)
    return functional(inputs, [layers.Dense(2)(x), tf.argmax(x, -1)])


def bytes_in():
    inputs = keras.Input((8, 8, 1), dtype="uint8")
    x = layers.Rescaling(1 / 255)(inputs)
    return functional(inputs, layers.Dense(CLASSES)(layers.Flatten()(x)))


def public_constants():
    return sequential(layers.Normalization(mean=1.0, variance=2.0))


def public_words():
    inputs = keras.Input((), dtype=tf.string)
    words = layers.TextVectorization(vocabulary=["a", "of"], output_sequence_length=4)(inputs)
    x = layers.Flatten()(layers.Embedding(4, 3)(words))
    return functional(inputs, layers.Dense(CLASSES)(x))


def subclassed():
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden, self.head = layers.Dense(4), layers.Dense(CLASSES)

        def call(self, inputs):
            x = self.hidden(inputs)
            if tf.reduce_sum(tf.shape(x)) > 0:
                x = tf.tanh(x)
            return self.head(x)

    model = Model()
    model(tf.zeros([2, FEATURES]))
    return model


class SpectralDense(layers.SpectralNormalization):
    """That of Keras 2.15 cannot be run in a graph."""

    def __init__(self):
        super().__init__(layers.Dense(4))

    def call(self, inputs, training=False):
        if training:
            v = tf.math.l2_normalize(tf.matmul(self.vector_u, self.kernel, transpose_b=True))
            u = tf.stop_gradient(tf.math.l2_normalize(tf.matmul(v, self.kernel)))
            self.vector_u.assign(u)
            self.kernel.assign(self.kernel / tf.matmul(tf.matmul(v, self.kernel), u, False, True))
        return self.layer(inputs)


def counts_its_calls():
    class Counter(layers.Layer):
        def build(self, shape):
            self.calls = self.add_weight(name="calls", initializer="zeros", trainable=False)

        def call(self, inputs):
            self.calls.assign_add(1.0)
            return inputs

    return sequential(Counter())


def dead_for_large_inputs():
    """log of a negative number: nan in rows of their own."""
    return sequential(layers.Lambda(lambda x: tf.math.log(50.0 - x)))


SOUND = {
    "frozen_batch_normalization": lambda: sequential(layers.BatchNormalization(trainable=False)),
    "layer_normalization": lambda: sequential(layers.LayerNormalization()),
    "group_normalization": lambda: images(layers.GroupNormalization(2)),
    "unit_normalization": lambda: sequential(layers.UnitNormalization()),
    "scale_norm": lambda: images(ScaleNorm("group", groups=2)),
    "kernel_that_calls_normalise": lambda: sequential(SpectralDense()),
    "dropout": lambda: sequential(layers.Dense(8), layers.Dropout(0.5)),
    "seeded_dropout": lambda: sequential(layers.Dense(8), layers.Dropout(0.5, seed=3)),
    "gaussian_noise": lambda: sequential(layers.GaussianNoise(0.3), layers.GaussianDropout(0.2)),
    "spatial_dropout": lambda: images(layers.SpatialDropout2D(0.4), layers.Conv2D(3, 3)),
    "random_layers": lambda: images(
        layers.RandomFlip(), layers.RandomTranslation(0.2, 0.2), layers.RandomContrast(0.2)
    ),
    "weight_regularizer": lambda: sequential(layers.Dense(4, kernel_regularizer="l2")),
    "masked_lstm": masked_lstm,
    "gru": lambda: sequential(layers.GRU(3), shape=(6, 2)),
    "convolutional_lstm": lambda: sequential(
        layers.ConvLSTM1D(2, 3), layers.Flatten(), shape=(3, 8, 1)
    ),
    "time_distributed": lambda: sequential(
        layers.TimeDistributed(layers.Dense(4)), layers.Flatten(), shape=(3, 2)
    ),
    "attention": attention,
    "several_inputs": several_inputs,
    "list_of_inputs": list_of_inputs,
    "bytes": bytes_in,
    "lambda": lambda: sequential(layers.Lambda(lambda x: tf.abs(x) + 1.0)),
    "public_constants": public_constants,
    "public_words": public_words,
    "unadapted": lambda: sequential(layers.Normalization()),
    "public_bins": lambda: sequential(layers.Discretization([0.0, 1.0], output_mode="multi_hot")),
    "subclassed": subclassed,
    "counts_its_calls": counts_its_calls,
    "dead_for_large_inputs": dead_for_large_inputs,
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_models_pass(name):
    assert audit.findings(SOUND[name]()) == []


def test_what_no_graph_can_hold_is_not_refused():
    model = sequential(layers.SpectralNormalization(layers.Dense(4)))
    with pytest.warns(UserWarning, match="in training: it could not be run"):
        assert audit.findings(model) == []


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


SMALL = {"bilstm": {"units": 4, "vocabulary_size": 50, "input_shape": (9,)}}


SLOW = ("bilstm", "resnet9", "resnet18", "vgg", "wrn_16_4")


@pytest.mark.parametrize("norm", ["none", "layer", "group"])
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in models.names()],
)
def test_project_models_pass(name, norm):
    model = models.build(name, norm=norm, num_classes=10, **SMALL.get(name, {}))
    assert audit.findings(model, loss="mse") == []


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


class TestLosses:
    LOSSES = [
        "mse",
        "sparse_categorical_crossentropy",
        keras.losses.MeanSquaredError(),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1),
        keras.losses.BinaryCrossentropy(),
        keras.losses.CategoricalFocalCrossentropy(),
        keras.losses.Huber(reduction="none"),
        keras.losses.CosineSimilarity(),
        lambda y, p: tf.reduce_sum(tf.abs(y - p), -1),
    ]

    @pytest.mark.parametrize("loss", LOSSES, ids=range(len(LOSSES)))
    def test_sound_ones_pass_without_targets_to_go_by(self, loss):
        report = audit.probe_loss(loss, tf.TensorSpec([None, 4]))
        assert (report.findings, report.unchecked) == ([], [])
        assert report.outputs.shape[0] == 4

    def test_several_outputs(self):
        predictions = {"a": tf.TensorSpec([None, 4]), "b": tf.TensorSpec([None, 7, 1])}
        report = audit.probe_loss(keras.losses.MeanSquaredError(), predictions)
        assert (report.findings, report.unchecked) == ([], [])

    def test_arrays(self):
        rng = np.random.default_rng(0)
        report = audit.probe_loss("mse", rng.random((9, 2)), rng.random((9, 2)))
        assert (report.findings, report.unchecked) == ([], [])

    def test_targets_alone_may_mix(self):
        def weighted(y, p):
            return tf.reduce_mean((y - p) ** 2, -1) / (1.0 + tf.reduce_mean(tf.abs(y)))

        found = audit.probe_loss(weighted, tf.TensorSpec([None, 2])).findings
        assert "values" in {finding.check for finding in found}

    def test_what_cannot_be_run_is_said(self):
        def broken(y, p):
            raise KeyError("no such column")

        with pytest.warns(UserWarning, match="the loss in training: .*no such column"):
            assert audit.findings(sequential(), loss=broken) == []


class TestAugmentations:
    SOUND = {
        "flip": lambda: layers.RandomFlip(),
        "translation": lambda: layers.RandomTranslation(0.2, 0.2),
        "rotation": lambda: layers.RandomRotation(0.2),
        "crop": lambda: layers.RandomCrop(6, 6),
        "brightness": lambda: layers.RandomBrightness(0.2),
        "several": lambda: keras.Sequential([layers.RandomFlip(), layers.RandomZoom(0.2)]),
        "noise": lambda: lambda x: x + tf.random.normal(tf.shape(x)),
        "each": lambda: lambda x: tf.map_fn(tf.image.random_flip_left_right, x),
        "views": lambda: lambda x: tf.repeat(x, 3, 0) + tf.random.uniform([3 * 4, 8, 8, 1]),
        "views_on_an_axis": lambda: lambda x: tf.stack([x, tf.reverse(x, [2])], 1),
    }

    @pytest.mark.parametrize("name", SOUND)
    def test_sound_ones_pass(self, name):
        report = audit.probe_augmentation(self.SOUND[name](), tf.TensorSpec([None, 8, 8, 1]))
        assert report.findings == []

    def test_views_may_not_be_of_other_rows(self):
        found = audit.probe_augmentation(lambda x: tf.tile(x, [2, 1]), tf.TensorSpec([None, 3]))
        assert "values" in {finding.check for finding in found.findings}


class TestMessages:
    def test_all_findings_are_listed_with_places_and_remedies(self):
        model = sequential(layers.BatchNormalization(), layers.Dense(2, activity_regularizer="l2"))
        with pytest.raises(ValueError) as error:
            audit.validate(model)
        text = str(error.value)
        for part in (
            "statistics mix the examples",
            "no activity regularizer",
            "outputs that move by .* when only other rows of the batch change",
            "first layer whose rows mix is 'batch_normalization'",
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
        assert set(met) == {(4, CLASSES), (2, CLASSES)}

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
        model.save(tmp_path / "model.keras")
        for found in (model, keras.models.load_model(tmp_path / "model.keras")):
            with pytest.raises(ValueError, match=f"{made.name}.*adapt.*{remedy}"):
                audit.check_known_layers(found)


class TestRows:
    def test_unknown_shapes_are_said_and_rows_help(self):
        class Model(keras.Model):
            def __init__(self):
                super().__init__()
                self.head = layers.Dense(2)

            def call(self, inputs):
                return self.head(inputs - tf.reduce_mean(inputs, 0))

        with pytest.warns(UserWarning, match=r"shapes of its inputs are not known.*x=\.\.\."):
            assert audit.findings(Model()) == []
        for x in (np.random.default_rng(0).random((8, 3)), tf.TensorSpec([None, 3])):
            assert "values" in {f.check for f in audit.findings(Model(), x=x)}

    def test_rows_that_do_not_fit_are_said(self):
        def constrained(x):
            tf.debugging.assert_less(tf.abs(x), 1.0)
            return x

        model = sequential(layers.Lambda(constrained))
        with pytest.warns(UserWarning, match="could not be run.*Pass rows that fit"):
            assert audit.findings(model) == []
        x = np.random.default_rng(0).random((8, FEATURES)) / 2
        with pytest.warns(UserWarning, match="unusual rows could not be run"):
            assert audit.findings(model, x=x) == []

    def test_what_is_not_repeatable_is_said(self):
        count = [0.0]

        def drifting(x):
            def python(a):
                count[0] += 1
                return a + np.float32(count[0])

            return tf.ensure_shape(tf.numpy_function(python, [x], tf.float32), x.shape)

        with pytest.warns(UserWarning, match="other values for the same rows"):
            audit.findings(sequential(layers.Lambda(drifting)))

    def test_what_stops_being_repeatable_is_said(self):
        """As loops whose iterations draw from one stream in an order that changes at times."""
        calls = [0]

        def late(a):
            calls[0] += 1
            return a + np.float32(max(0, calls[0] - 12))

        def noisy(x):
            late_x = tf.numpy_function(late, [x], tf.float32)
            return tf.ensure_shape(late_x, x.shape) + tf.random.normal([])

        with pytest.warns(UserWarning, match="other values for the same rows"):
            assert audit.findings(sequential(layers.Lambda(noisy))) == []

    def test_integers_are_ids_that_embeddings_know(self):
        rows = audit.model_rows(SOUND["masked_lstm"]())
        for part in rows:
            assert part.shape == (4, 32) and part.min() >= 0 and part.max() < 7
        assert np.all(rows.base != rows.other)

    def test_made_up_rows_have_the_specs_shapes_and_types(self):
        specs = {
            "a": tf.TensorSpec([None, 2], tf.float16),
            "b": tf.TensorSpec([None], tf.bool),
            "c": tf.TensorSpec([None, None], tf.string),
            "d": tf.TensorSpec([None, 3], tf.uint8),
        }
        rows = synthetic_rows(specs, rows=6)
        assert rows.count == 6
        for part in rows:
            for name, spec in specs.items():
                assert spec.is_compatible_with(tf.convert_to_tensor(part[name]))

    @pytest.mark.parametrize("given", [2, 3, 5, 8, 40])
    def test_given_rows_change_places(self, given):
        x = np.arange(1.0, given + 1)[:, np.newaxis]
        rows = rows_like(x)
        assert rows.count == min(4, given)
        np.testing.assert_array_equal(rows.base, x[: rows.count])
        assert np.all(rows.other != rows.base) and np.isin(rows.other, x).all()

    def test_one_row_is_too_few(self):
        with pytest.raises(ValueError, match=r"2 or more, got \[1\]"):
            audit.findings(sequential(), x=np.zeros((1, FEATURES)))


class TestNoTrace:
    """After a validation all is as it was, whether it found something or not."""

    MODELS = {
        "plain": lambda: sequential(layers.Dense(4)),
        "random": lambda: images(
            layers.Dropout(0.5, seed=1), layers.RandomFlip(seed=2), layers.GaussianNoise(0.1)
        ),
        "recurrent": masked_lstm,
        "batch": lambda: sequential(layers.BatchNormalization()),
        "spectral": lambda: sequential(SpectralDense()),
        "added_loss": lambda: sequential(layers.Dense(2, activity_regularizer="l2")),
    }

    @staticmethod
    def observed(name, validated, seeded):
        """Everything that could show a trace, from an equal start."""
        keras.backend.clear_session()
        keras.utils.set_random_seed(7)
        model = TestNoTrace.MODELS[name]()
        if not seeded:
            tf.random.set_seed(None)
        before = [tf.random.uniform([2], seed=3).numpy()]
        generator = tf.random.Generator.from_seed(1)
        if validated:
            audit.findings(
                model, augmentation=lambda x: x + tf.cast(tf.random.uniform([]), x.dtype)
            )
        seeds = [
            (g._seed, g._generator.state.numpy() if getattr(g, "_generator", None) else None)
            for g in (getattr(x, "_random_generator", None) for x in model._flatten_layers())
            if g is not None
        ]
        drawn = [
            tf.random.uniform([2], seed=3).numpy(),  # the next of a stream begun above
            generator.normal([2]).numpy(),
            np.random.rand(2),
            random.random(),
        ]
        if seeded:
            drawn += [tf.random.normal([2]).numpy(), layers.Dense(2)(tf.ones([1, 2])).numpy()]
        losses = [len(x._losses) + len(x._eager_losses) for x in model._flatten_layers()]
        return before, [v.numpy() for v in model.variables], seeds, drawn, losses

    @pytest.mark.parametrize("seeded", [True, False])
    @pytest.mark.parametrize("name", MODELS)
    def test_of_a_validation(self, name, seeded):
        without, after = (self.observed(name, validated, seeded) for validated in (False, True))
        tf.nest.map_structure(np.testing.assert_array_equal, without, after)

    def test_of_one_that_fails_in_the_middle(self, monkeypatch):
        """Variables and streams are put back also when a check raises."""
        keras.utils.set_random_seed(1)
        model = sequential(layers.BatchNormalization(), layers.Dropout(0.5))
        before = [v.numpy() for v in model.variables]
        state = random.getstate()

        def failing(*_):
            random.random()
            raise RuntimeError("in the middle")

        monkeypatch.setattr("tfdpnorm.audit.probe._of", failing)
        with pytest.raises(RuntimeError, match="in the middle"):
            audit.findings(model)
        for old, new in zip(before, model.variables, strict=True):
            np.testing.assert_array_equal(old, new.numpy())
        assert random.getstate() == state

    def test_a_trained_model_trains_on(self):
        """Compiled functions and dropout masks go on as if nothing had been in between."""

        def trained(validated):
            keras.backend.clear_session()
            keras.utils.set_random_seed(3)
            model = sequential(layers.Dense(8), layers.Dropout(0.5))
            model.compile("sgd", "mse")
            x, y = np.ones((8, FEATURES), np.float32), np.ones((8, CLASSES), np.float32)
            model.fit(x, y, epochs=2, verbose=0)
            if validated:
                audit.validate(model, loss="mse")
            model.fit(x, y, epochs=2, verbose=0)
            return model.get_weights()

        for one, other in zip(trained(False), trained(True), strict=True):
            np.testing.assert_array_equal(one, other)


class TestComparisons:
    @pytest.mark.parametrize("count", [2, 3, 4, 6, 7])
    def test_splits_part_each_pair_in_both_roles(self, count):
        parted = np.zeros((count, count), bool)
        for mask in splits(count):
            assert 0 < mask.sum() < count
            parted |= mask[:, np.newaxis] & ~mask
        assert np.array_equal(parted, ~np.eye(count, dtype=bool))

    @pytest.mark.parametrize(
        ("before", "after", "size"),
        [
            ([1.0, 2.0], [1.0, 2.0], 0.0),
            ([1.0, 2.0], [1.5, 2.0], 0.25),
            ([0.0], [1e-30], np.inf),
            ([np.nan, 1.0], [np.nan, 1.0], 0.0),
            ([1.0, 1.0], [np.nan, 1.0], np.inf),
            ([3], [4], 1 / 3),
            ([True], [False], np.inf),
            (["a"], ["b"], np.inf),
            ([], [], 0.0),
            ([1.0], [1.0, 1.0], np.inf),
        ],
    )
    def test_moved(self, before, after, size):
        assert moved(np.array(before), np.array(after)) == pytest.approx(size)
