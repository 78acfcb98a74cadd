"""Models and options that only Keras 3 has, from `import keras`, trained privately."""

import numpy as np
import pytest

from tests.private_of import private_of
from tfdpnorm.keras_compat.variables import KERAS_3

if not KERAS_3:
    pytest.skip("Keras 2 has no keras.ops, nor layers made of it", allow_module_level=True)

import keras
from keras import layers, ops

N, STEPS = 40, 4
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(N, 6)).astype(np.float32)
Y = _RNG.integers(0, 3, N)
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def private(model, **settings):
    return private_of(model, **{"steps": STEPS, **settings})


def trained(model, x=X, y=Y, optimizer="sgd", loss=LOSS, compiled=None, **settings):
    made = private(model, **settings)
    made.compile(optimizer, loss, **(compiled or {}))
    made.fit(x, y, verbose=0)
    assert made.ledger.updates == settings.get("steps", STEPS)
    return made


def mlp():
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [keras.Input((6,)), layers.Dense(8, "gelu"), layers.LayerNormalization(), layers.Dense(3)]
    )


class Gated(layers.Layer):
    """As users write layers today: by `keras.ops`, with random numbers of `keras.random`."""

    def __init__(self, units, rate=0.2, **kwargs):
        super().__init__(**kwargs)
        self.units, self.rate = units, rate
        self.seeds = keras.random.SeedGenerator(3)

    def build(self, shape):
        self.kernel = self.add_weight(name="kernel", shape=(shape[-1], 2 * self.units))
        self.scale = self.add_weight(name="scale", shape=(self.units,), initializer="ones")

    def call(self, x, training=False):
        value, gate = ops.split(ops.matmul(x, self.kernel), 2, axis=-1)
        x = ops.sigmoid(gate) * value * self.scale
        if training:
            kept = keras.random.uniform(ops.shape(x), seed=self.seeds) > self.rate
            x = ops.where(kept, x / (1 - self.rate), 0.0)
        return x


class Classifier(keras.Model):
    def __init__(self):
        super().__init__()
        self.parts = [Gated(8), Gated(4)]
        self.head = layers.Dense(3)

    def call(self, x, training=False):
        for part in self.parts:
            x = part(x, training=training)
        return self.head(x)


def encoder_of_text():
    tokens, mask = keras.Input((5,), dtype="int32"), keras.Input((5,), dtype="bool")
    x = layers.Embedding(20, 8)(tokens)
    x = layers.LayerNormalization()(x)
    y = layers.MultiHeadAttention(2, 4)(x, x, attention_mask=mask[:, None, :])
    return keras.Model([tokens, mask], layers.Dense(3)((x + y)[:, 0]))


def low_rank():
    model = mlp()
    for layer in model.layers:
        if isinstance(layer, layers.Dense):
            layer.enable_lora(2)
    return model


TOKENS = [_RNG.integers(0, 20, (N, 5)).astype("int32"), np.ones((N, 5), bool)]
MODELS = {
    "keras.ops": (Classifier, X),
    "encoder of text": (encoder_of_text, TOKENS),
    "low rank": (low_rank, X),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_of_today_are_trained_with_the_guarantee(name):
    make, x = MODELS[name]
    model = make()

    def kernels():
        return [v.numpy() for v in model.non_trainable_variables if v.path.endswith("kernel")]

    before = kernels()
    made = trained(model, x)
    assert made.privacy_statement().startswith("1. Training satisfies (epsilon, delta)")
    assert len(before) == (2 if name == "low rank" else 0)  # which low-rank updates leave alone
    for one, other in zip(before, kernels(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_accumulated_gradients_are_means_of_noisy_ones():
    """Of two updates that each are in the ledger, the optimizer takes the mean."""
    settings = {"insecure_seed": 1, "steps": 2, "noise_multiplier": 0.5}
    one, two = mlp(), mlp()
    rate = 0.1
    begun = one.get_weights()
    trained(one, optimizer=keras.optimizers.SGD(rate, gradient_accumulation_steps=2), **settings)
    steps = private(two, **settings)
    steps.compile(keras.optimizers.SGD(0.0), LOSS)  # the gradients of both at the same weights
    seen = []
    apply = steps.optimizer.apply

    def kept(gradients, variables=None, **options):
        seen.append(gradients)
        return apply(gradients, variables, **options)

    steps.optimizer.apply = kept
    steps.compile(steps.optimizer, LOSS, run_eagerly=True)
    with pytest.warns(UserWarning):
        steps.fit(X, Y, verbose=0)
    for start, end, *gradients in zip(begun, one.get_weights(), *seen, strict=True):
        np.testing.assert_allclose(end, start - rate * np.mean(gradients, 0), rtol=1e-4, atol=1e-6)


class TestASubclassThatSaysItIsBuilt:
    """`build(shape)` of Keras 3 makes no variables of the layers inside."""

    def test_own_variables_are_made_once(self):
        class WithToken(Classifier):
            def build(self, shape):
                self.token = self.add_weight(name="token", shape=(shape[-1],))
                super().build(shape)

            def call(self, x, training=False):
                return super().call(x + self.token, training)

        model = WithToken()
        model.build((None, 6))
        trained(model, engine="per_example")
        assert len(model.trainable_variables) == 7

    def test_subclasses_with_unbuilt_layers_are_rejected(self):
        model = Classifier()
        model.built = True
        with pytest.raises(
            ValueError, match=r"some of its layers are not: \['gated.*Call it on a batch"
        ):
            private(model)


def test_losses_of_several_outputs_are_shown():
    inputs = keras.Input((6,))
    outputs = {name: layers.Dense(3, name=name)(inputs) for name in ("kind", "size")}
    made = private(keras.Model(inputs, outputs))
    made.compile("sgd", {"kind": LOSS, "size": "mse"}, loss_weights={"kind": 2.0, "size": 0.5})
    history = made.fit(X, {"kind": Y, "size": X[:, :3]}, epochs=1, verbose=0).history
    assert {"loss", "kind_loss", "size_loss"} <= set(history)
    expected = 2 * history["kind_loss"][0] + 0.5 * history["size_loss"][0]
    assert history["loss"][0] == pytest.approx(expected, rel=1e-5)
