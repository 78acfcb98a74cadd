"""Features kept in files, views, pixels, trunks and whole models."""

import contextlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

from tests.each import each
from tfdpnorm import files
from tfdpnorm.convert import FeatureExtractor, Pixels, features, image_features
from tfdpnorm.convert.backbone import frozen_part, head_layers, trunk_of, whole_model
from tfdpnorm.keras_compat.variables import path
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.metadata import remember, weight_digests

X = np.random.default_rng(0).random((7, 8, 6, 3)).astype(np.float32)


def trunk():
    return keras.Sequential(
        [keras.Input((None, None, 3)), layers.Conv2D(4, 3), layers.GlobalAveragePooling2D()],
        name="trunk",
    )


@pytest.mark.slow
def test_features_are_computed_once_and_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(features, "_ROWS", 3)
    model, pixels = trunk(), Pixels(12, 127.0, 128.0)
    seen = []
    made = image_features(model, X, pixels=pixels, folder=tmp_path, echo=seen.append)
    expected = model((255 * pixels_by_hand(X, 12) - 127) / 128).numpy()
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-5)
    assert len(seen) == 3
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("trunk-") and "-12px-mean127-scale128-" in path.name
    again = image_features(model, X, pixels=pixels, folder=tmp_path, echo=pytest.fail)
    np.testing.assert_array_equal(made, again)
    # Other images, other pixels, other weights: other files.
    image_features(model, X[:3], pixels=pixels, folder=tmp_path, echo=seen.append)
    image_features(model, X, pixels=Pixels(12), folder=tmp_path, echo=seen.append)
    model.set_weights([w + 1 for w in model.get_weights()])
    image_features(model, X, pixels=pixels, folder=tmp_path, echo=seen.append)
    assert len(list(tmp_path.iterdir())) == 4


def test_images_of_one_colour_have_features(tmp_path):
    """TFLite divides 0 by 0 there, which the images that are compared first need not show."""
    model = keras.Sequential([keras.Input((8, 6, 3)), layers.Flatten(), layers.UnitNormalization()])
    images = np.concatenate([X, X, np.zeros_like(X[:2])])
    made = image_features(model, images, pixels=Pixels(), folder=tmp_path, echo=str)
    np.testing.assert_allclose(made, model(images), atol=1e-6)


def test_a_model_of_private_data_is_warned_of(tmp_path):
    model = trunk()
    model.set_weights([w + 2 for w in model.get_weights()])  # as no other test's are
    known = caveat("foreign_weights", sentence="They are of a private run.")
    remember(weight_digests(model.get_weights()), (known,))
    with pytest.warns(UserWarning, match="of model 'trunk': They are of a private run"):
        FeatureExtractor(model, pixels=Pixels(12), folder=tmp_path)


def pixels_by_hand(images, size):
    return layers.Resizing(size, size)(images).numpy()


def test_an_interrupted_computation_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(features, "_ROWS", 3)
    model, lines = trunk(), []

    def stops(line):
        lines.append(line)
        if len(lines) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        image_features(model, X, pixels=Pixels(), folder=tmp_path, echo=stops)
    rest = []
    made = image_features(model, X, pixels=Pixels(), folder=tmp_path, echo=rest.append)
    assert len(rest) == 1
    np.testing.assert_allclose(made, model(X).numpy(), rtol=1e-4, atol=1e-5)


def test_views_are_averaged(tmp_path):
    model = trunk()
    both = image_features(model, X, pixels=Pixels(), folder=tmp_path, views=2, echo=str)
    mean = (model(X).numpy() + model(X[:, :, ::-1]).numpy()) / 2
    np.testing.assert_allclose(both, mean, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="views"):
        image_features(model, X, pixels=Pixels(), folder=tmp_path, views=3)


@pytest.mark.parametrize("by", ["tflite", "tensorflow"])
def test_an_image_does_not_change_the_features_of_another(tmp_path, monkeypatch, by):
    norm = layers.BatchNormalization()
    model = keras.Sequential([keras.Input((8, 6, 3)), layers.Conv2D(4, 3), norm, layers.Flatten()])
    norm.moving_mean.assign([0.1, 0.2, 0.3, 0.4])
    norm.moving_variance.assign([2.0, 3.0, 4.0, 5.0])
    if by == "tensorflow":
        monkeypatch.setattr(features, "TFLiteModel", lambda content: 1 / 0)
    all_of_them = image_features(model, X, pixels=Pixels(), folder=tmp_path, echo=str)
    some = image_features(model, X[2:4], pixels=Pixels(), folder=tmp_path, echo=str)
    np.testing.assert_allclose(some, all_of_them[2:4], rtol=1e-5, atol=1e-6)


def scaled_by_position(x):
    return x * tf.range(1.0, tf.cast(tf.shape(x)[0] + 1, x.dtype))[:, None, None, None]


def test_where_images_meet_they_are_run_one_by_one(tmp_path, monkeypatch):
    monkeypatch.setattr(features, "TFLiteModel", None)
    inputs = keras.Input((8, 6, 3))
    mixing = layers.Lambda(lambda x: scaled_by_position(x))(inputs)
    model = keras.Model(inputs, layers.Flatten()(layers.Conv2D(2, 3)(mixing)))
    images = np.random.default_rng(1).random((60, 8, 6, 3)).astype(np.float32)
    settings = {"pixels": Pixels(), "folder": tmp_path, "echo": [].append}
    made = image_features(model, images, **settings)
    alone = np.concatenate([model(image[np.newaxis]) for image in images])
    np.testing.assert_allclose(made, alone, rtol=1e-5, atol=1e-6)
    images[0] += 1.0
    np.testing.assert_array_equal(image_features(model, images, **settings)[1:], made[1:])


class Counting(layers.Layer):
    def __init__(self):
        super().__init__()
        self.seen = tf.Variable(0.0, trainable=False)

    def call(self, x):
        self.seen.assign_add(1.0)
        return x + self.seen


def test_a_model_that_keeps_something_of_images_is_rejected(tmp_path):
    model = keras.Sequential([keras.Input((8, 6, 3)), Counting(), layers.Flatten()])
    with pytest.raises(ValueError, match="keeps a value"):
        image_features(model, X, pixels=Pixels(), folder=tmp_path, echo=[].append)


def test_a_damaged_file_of_features_is_named(tmp_path):
    model = trunk()
    image_features(model, X, pixels=Pixels(), folder=tmp_path, echo=str)
    (path,) = tmp_path.iterdir()
    np.save(path, np.zeros((3, 4), np.float32))
    with pytest.raises(ValueError, match="3 rows instead of 7"):
        image_features(model, X, pixels=Pixels(), folder=tmp_path)
    for damaged in (b"", b"nothing", path.read_bytes()[:-8]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="damaged"):
            image_features(model, X, pixels=Pixels(), folder=tmp_path)


def test_the_frozen_part_of_a_trunk():
    def made():
        return keras.Sequential(
            [
                keras.Input((8, 6, 3)),
                layers.Conv2D(4, 3, name="first"),
                layers.Dropout(0.5),
                layers.BatchNormalization(name="norm"),
                layers.ReLU(),
                layers.Conv2D(5, 1, name="last"),
                layers.GlobalAveragePooling2D(),
            ]
        )

    model = made()
    frozen, rest = frozen_part(model, 0)
    assert frozen is model and rest is None and not model.trainable_weights
    for trained, owners in ((1, ["last"]), (2, ["norm", "last"])):
        model = made()
        frozen, rest = frozen_part(model, trained)
        assert not frozen.trainable_weights
        names = [path(w).split("/")[-2] for w in rest.trainable_weights]
        assert list(dict.fromkeys(names)) == owners
        expected = model(X, training=False)
        np.testing.assert_allclose(rest(frozen(X)), expected, rtol=1e-5, atol=1e-6)
        # Training it further leaves the imported model alone.
        rest.set_weights([w + 1 for w in rest.get_weights()])
        np.testing.assert_array_equal(model(X, training=False), expected)
    model = made()
    assert frozen_part(model, 3) == (None, model)
    with pytest.raises(ValueError, match="last:4"):
        frozen_part(made(), 4)


@each(
    "end, width",
    [
        ([layers.GlobalAveragePooling2D(), layers.Dense(9, activation="softmax")], 4),
        ([layers.GlobalMaxPooling2D(), layers.Dense(9), layers.Softmax()], 4),
        ([layers.GlobalMaxPooling2D()], 4),
        ([], 4),
        ([layers.Flatten(), layers.Dense(5), layers.ReLU(), layers.Dense(9)], 5),
    ],
)
def test_the_trunk_is_what_comes_before_the_classifier(end, width):
    ends = [type(x).from_config(x.get_config()) for x in end]
    model = keras.Sequential([keras.Input((8, 6, 3)), layers.Conv2D(4, 3), *ends])
    assert trunk_of(model).output_shape == (None, width)
    inputs = keras.Input((8, 6, 3))
    graph = keras.Model(inputs, model(inputs))
    assert trunk_of(keras.Sequential([keras.Input((4,)), layers.ReLU()])).output_shape == (None, 4)
    assert graph.output_shape[0] is None


def test_trunks_that_are_none():
    class Own(keras.Model):
        def call(self, inputs):
            return inputs

    with pytest.raises(ValueError, match="functional model"):
        trunk_of(Own())
    with pytest.raises(ValueError, match="Expected features"):
        trunk_of(keras.Sequential([keras.Input((4, 3)), layers.Conv1D(2, 2)]))


def test_the_whole_model_computes_what_features_and_head_do(tmp_path):
    model, pixels = trunk(), Pixels(12, 127.0, 128.0)
    head = head_layers(5, "layer", 4)
    whole = whole_model(model, head, pixels, X.shape[1:], views=2)
    head[-1].set_weights([np.random.default_rng(0).normal(size=w.shape) for w in head[-1].weights])
    made = image_features(model, X, pixels=pixels, folder=tmp_path, views=2, echo=str)
    for layer in head:
        made = layer(made)
    np.testing.assert_allclose(whole(X), made, rtol=1e-3, atol=1e-4)


def runs_tflite(forward):
    return forward.__name__ == "finite"


def test_tensorflow_computes_features_that_tflite_cannot(tmp_path):
    inputs = keras.Input((None, None, 3))
    x = layers.Lambda(lambda x: tf.math.digamma(x + 1.0))(inputs)
    model = keras.Model(inputs, layers.GlobalAveragePooling2D()(x), name="no_kernel")
    assert not runs_tflite(features._forward(model, X))
    made = image_features(model, X, pixels=Pixels(), folder=tmp_path, echo=str)
    np.testing.assert_allclose(made, model(X * 1.0).numpy(), rtol=1e-5)


def test_a_tflite_model_that_predicts_otherwise_is_not_used(monkeypatch):
    real = features.TFLiteModel.__call__
    assert runs_tflite(features._forward(trunk(), X))
    for wrong in (lambda y: y * 1.01, lambda y: y[:, :1]):
        monkeypatch.setattr(
            features.TFLiteModel, "__call__", lambda self, x, wrong=wrong: wrong(real(self, x))
        )
        assert not runs_tflite(features._forward(trunk(), X))


@pytest.mark.parametrize("when", ["before the lock", "under the lock"])
def test_another_process_may_finish_at_any_time(tmp_path, monkeypatch, when):
    model, pixels = trunk(), Pixels()
    expected = image_features(model, X, pixels=pixels, folder=tmp_path / "a", echo=str)
    (finished,) = (tmp_path / "a").iterdir()
    real = files.locked_folder

    @contextlib.contextmanager
    def others_finish(folder, echo):
        if when == "under the lock":
            with real(folder, echo):
                end(folder)
                yield
            return
        end(folder)
        with real(folder, echo):
            yield

    def end(pieces):
        shutil.copy(finished, pieces.with_suffix(".npy"))
        shutil.rmtree(pieces)

    monkeypatch.setattr(files, "locked_folder", others_finish)
    made = image_features(model, X, pixels=pixels, folder=tmp_path / "b", echo=pytest.fail)
    np.testing.assert_array_equal(made, expected)
    assert len(list((tmp_path / "b").iterdir())) == 1
