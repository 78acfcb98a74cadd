"""Public-batch normalisation folded into stock Keras layers."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm import fold_public_statistics, models
from tfdpnorm.layers import (
    PublicBatchNormalization,
    PublicMomentsLayer,
    PublicStatistics,
    ScaleNorm,
    record_pass,
)


def with_moments(model, seed=0):
    """Gives the model moments and parameters that are not their initial ones."""
    rng = np.random.default_rng(seed)
    statistics = PublicStatistics()
    with record_pass(statistics):
        model(rng.normal(1.0, 2.0, (7, *model.input_shape[1:])).astype("float32"))
    statistics.store()
    for variable in model.trainable_variables:
        variable.assign_add(rng.normal(0.0, 0.2, variable.shape))
    return model


def layers_in(model):
    return list(model._flatten_layers(include_self=False))


def names(model):
    """Without those of inputs, to which Keras 3 gives others in a copy."""
    inputs = keras.layers.InputLayer
    return [layer.name for layer in model.layers if not isinstance(layer, inputs)]


def assert_folded(model, folded, atol=1e-5):
    x = np.random.default_rng(1).normal(1.0, 2.0, (5, *model.input_shape[1:])).astype("float32")
    expected = model(x).numpy()
    assert expected.std() > 0.1
    np.testing.assert_allclose(folded(x), expected, atol=atol, rtol=1e-5)
    np.testing.assert_allclose(folded(x[:1]), expected[:1], atol=atol, rtol=1e-5)
    # Even in training mode the folded layers take no moments of the rows.
    np.testing.assert_allclose(folded(x, training=True), expected, atol=atol, rtol=1e-5)
    own = [layer for layer in layers_in(folded) if type(layer).__module__.startswith("tfdpnorm")]
    assert not own
    norms = [x for x in layers_in(folded) if isinstance(x, keras.layers.BatchNormalization)]
    assert len(norms) == sum(isinstance(x, PublicMomentsLayer) for x in layers_in(model))
    assert not any(norm.trainable_weights for norm in norms)
    assert names(folded) == names(model)
    # No weight is shared: the model may be trained on.
    kept = folded.get_weights()
    model.set_weights([w + 1.0 for w in model.get_weights()])
    for before, after in zip(kept, folded.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)


@each("scale,center", [(True, False), (False, True)])
def test_a_folded_sequential_model_gives_the_same(scale, center):
    model = keras.Sequential(
        [
            keras.Input((5, 5, 2)),
            keras.layers.Conv2D(3, 2),
            PublicBatchNormalization(scale=scale, center=center, epsilon=1e-2),
            keras.layers.Activation("relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(4),
            PublicBatchNormalization(scale=scale, center=center),
        ]
    )
    assert_folded(with_moments(model), fold_public_statistics(model))


@each(
    "shape,axis",
    [((4, 3), 1), ((4, 3, 2), 2), ((2, 2, 3, 2), -1)],
)
def test_folding_keeps_the_axis(shape, axis):
    model = keras.Sequential([keras.Input(shape), PublicBatchNormalization(axis=axis)])
    assert_folded(with_moments(model), fold_public_statistics(model))


def test_functional_with_branches_and_a_group_scale_norm():
    inputs = keras.Input((6,))
    norm = PublicBatchNormalization()
    shared = keras.layers.Dense(6)
    x = keras.layers.Activation("tanh")(norm(shared(inputs)))
    y = keras.layers.Add()([x, keras.layers.Dropout(0.0)(inputs)])
    y = keras.layers.Concatenate()([shared(y), inputs])
    model = keras.Model(inputs, PublicBatchNormalization(name="last")(keras.layers.Dense(3)(y)))
    assert_folded(with_moments(model), fold_public_statistics(model))


def test_nested_models():
    def block(width, name):
        inputs = keras.Input((width,))
        x = keras.layers.Dense(4)(inputs)
        return keras.Model(inputs, PublicBatchNormalization(scale=False)(x), name=name)

    inner = keras.Sequential(
        [keras.Input((4,)), block(4, "innermost"), keras.layers.Activation("tanh")], name="inner"
    )
    inputs = keras.Input((5,))
    x = inner(block(5, "first")(inputs))
    model = keras.Model(inputs, PublicBatchNormalization()(keras.layers.Dense(3)(x)))
    assert_folded(with_moments(model), fold_public_statistics(model))


@pytest.mark.parametrize("name", models.names())
@pytest.mark.slow_cases("resnet18", "resnet50", "tf_tutorial", "vgg", "wide_resnet", "wrn_16_4")
def test_folded_networks_predict(name, tmp_path):
    """In the graph of `predict`, whose fusions TensorFlow 2.15 cannot all run; also from a file."""
    options = {"input_shape": (32, 32, 3)} if name == "resnet50" else {}
    if name in ("resnet9", "wide_resnet"):
        options = {"input_shape": (16, 16, 3), "width": 4} if name == "resnet9" else {}
    model = models.build(name, norm="public_batch", **options)
    rows = np.random.default_rng(0).integers(2, size=(7, *model.input_shape[1:]))
    kind = tf.as_dtype(model.inputs[0].dtype).as_numpy_dtype
    statistics = PublicStatistics()
    with record_pass(statistics):
        model(rows.astype(kind))
    statistics.store()
    folded, x = fold_public_statistics(model), rows[:3].astype(kind)
    expected = model(x, training=False).numpy()
    bound = 1e-3 * np.abs(expected).max()
    folded.save(tmp_path / "folded.keras")
    for one in (folded, keras.models.load_model(tmp_path / "folded.keras")):
        np.testing.assert_allclose(one.predict(x, verbose=0), expected, atol=bound)


def test_a_function_named_like_one_of_keras_stays():
    def relu(x):
        return 2.0 * x

    model = keras.Sequential([keras.Input((4,)), keras.layers.Activation(relu)])
    np.testing.assert_array_equal(fold_public_statistics(model)(np.ones((1, 4))), 2.0)


def test_a_folded_model_loads_without_the_library(tmp_path):
    model = with_moments(
        keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), PublicBatchNormalization()])
    )
    fold_public_statistics(model).save(tmp_path / "folded.keras")
    with keras.utils.custom_object_scope({}):
        again = keras.models.load_model(tmp_path / "folded.keras", safe_mode=True)
    assert_folded(model, again)


def test_rejects_moments_of_each_row():
    model = with_moments(
        keras.Sequential([keras.Input((4,)), PublicBatchNormalization(statistics="blend")])
    )
    with pytest.raises(ValueError, match="'blend'"):
        fold_public_statistics(model)


def test_rejects_a_model_without_moments():
    model = keras.Sequential([keras.Input((4,)), PublicBatchNormalization(name="early")])
    with pytest.raises(ValueError, match="'early'"):
        fold_public_statistics(model)
    model = keras.Sequential([PublicBatchNormalization(name="unbuilt")])
    with pytest.raises(ValueError, match="'unbuilt'"):
        fold_public_statistics(model)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.norm = PublicBatchNormalization()

    def call(self, inputs):
        return self.norm(inputs)


def test_rejects_subclassed_models():
    with pytest.raises(ValueError, match="Subclassed"):
        fold_public_statistics(Subclassed())
    inputs = keras.Input((4,))
    nested = with_moments(keras.Model(inputs, Subclassed()(inputs)))
    with pytest.raises(ValueError, match="Subclassed"):
        fold_public_statistics(nested)


def test_rejects_layers_that_hold_the_normalisation_inside():
    inputs = keras.Input((3, 4))
    sums = ScaleNorm("public_batch", name="after")([inputs, inputs])
    with pytest.raises(ValueError, match=r"got 'after' \(ScaleNorm\)"):
        fold_public_statistics(with_moments(keras.Model(inputs, sums)))
    norm = PublicBatchNormalization()
    wrapped = keras.layers.TimeDistributed(norm, name="wrapper")(inputs)
    norm.store_moments(np.zeros(4), np.ones(4), 7)
    with pytest.raises(ValueError, match=r"got 'wrapper' \(TimeDistributed\)"):
        fold_public_statistics(keras.Model(inputs, wrapped))
