"""Updates on two devices of one process; `test_two_devices.py` runs this in a process of its own.

TensorFlow takes the number of devices once, before anything else.
"""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.private_of import private_of
from tests.statements import of_any_run
from tfdpnorm.data import Lot, poisson_batches
from tfdpnorm.keras_compat.variables import KERAS_3
from tfdpnorm.layers import NoisedBatchNormalization
from tfdpnorm.privacy.slots import Slots

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
TWO = ["/cpu:0", "/cpu:1"]


@pytest.fixture
def strategy():
    return tf.distribute.MirroredStrategy(TWO)


def summed(private, lot):
    """The clipped sum of a traced step, one vector."""
    sums = tf.function(private.clipped_sum, autograph=False)(lot)
    return np.concatenate([s.numpy().ravel() for s in sums])


def noised():
    parts = [keras.layers.Dense(4), NoisedBatchNormalization(), keras.layers.Dense(3)]
    return keras.Sequential([keras.Input((5,)), *parts])


@pytest.mark.parametrize("name", ["noised statistics", "public rows by layer"])
def test_the_sum_is_that_of_one_device(
    name, strategy, build, private, data, public, cross_entropy, one_lot
):
    x, y = data
    is_noised = name == "noised statistics"
    settings = {} if is_noised else {"public_batch": public, "clipping": "per_layer"}
    found = {}
    model = noised() if is_noised else build(norm="public_batch")
    for number, where in enumerate((None, strategy)):
        one = private(model, physical_batch_size=8, strategy=where, **settings)
        one.compile("sgd", cross_entropy)
        # With fewer physical batches than devices, one has none.
        for rows in (40, 13, 4):
            lot = one_lot(x[:17], y[:17], rows=rows)
            found[number, rows] = summed(one, lot)
    for rows in (40, 13, 4):
        alone, both = found[0, rows], found[1, rows]
        assert np.linalg.norm(alone) > 0.1
        np.testing.assert_allclose(both, alone, rtol=1e-5, atol=1e-6, err_msg=str(rows))


def test_the_sum_over_persons_is_that_of_one_device(strategy, build, private, data, cross_entropy):
    person = np.arange(40) % 17  # two rows, or three
    model, found = build(norm="group"), []
    batches = poisson_batches(*data, person=person, most_per_person=2, expected_batch_size=17)
    lots = [next(iter(batches.as_dataset(Slots(*slots)))) for slots in ((6, 4), (1, 20))]
    for where in (None, strategy):
        of_persons = {"num_examples": 17, "expected_batch_size": 17, "most_per_person": 2}
        one = private(model, physical_batch_size=4, strategy=where, **of_persons)
        one.compile("sgd", cross_entropy)
        step = tf.function(one.clipped_sum, autograph=False)
        found.append([np.concatenate([s.numpy().ravel() for s in step(lot)]) for lot in lots])
    for alone, both in zip(*found, strict=True):
        assert np.linalg.norm(alone) > 0.1
        np.testing.assert_allclose(both, alone, rtol=1e-5, atol=1e-6)


def test_a_run_is_that_of_one_device(strategy, build, private, data, cross_entropy):
    model = build(norm="group")
    begun = model.get_weights()

    def trained(where):
        keras.utils.set_random_seed(0)
        model.set_weights(begun)
        settings = dict(insecure_seed=3, physical_batch_size=8, steps=6, most_per_batch=32)
        one = private(model, strategy=where, **settings)
        one.compile(keras.optimizers.SGD(1.0), cross_entropy, metrics=["accuracy"])
        one.history_of_fit = one.fit(*data, verbose=0).history
        return one

    alone = trained(None)
    weights = model.get_weights()
    both = trained(strategy)
    assert both.slots == alone.slots and both.slots.batches % 2 == 0
    for a, b in zip(weights, model.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    for name, values in alone.history_of_fit.items():
        np.testing.assert_allclose(both.history_of_fit[name], values, rtol=1e-4, err_msg=name)
    assert both.ledger.updates == alone.ledger.updates == 6
    assert both.ledger.epsilon() == alone.ledger.epsilon()
    assert both.ledger.settings == alone.ledger.settings
    assert of_any_run(both.privacy_statement()) == of_any_run(alone.privacy_statement())


def test_one_row_moves_the_sum_by_at_most_the_clipping_norm(
    strategy, build, private, data, cross_entropy, one_lot
):
    x, y = data[0].copy(), data[1]
    x[:8] *= 1e3
    one = private(build(norm="group"), physical_batch_size=8, strategy=strategy, l2_norm_clip=0.5)
    one.compile("sgd", cross_entropy)
    step = tf.function(one.clipped_sum, autograph=False)
    lot = one_lot(x[:20], y[:20], rows=4)
    whole = np.concatenate([s.numpy().ravel() for s in step(lot)]).astype(np.float64)
    moved = []
    for k, row in np.argwhere(lot.mask.numpy() > 0):
        kept = lot.mask.numpy()
        kept[k, row] = 0.0
        without = Lot(*(tf.constant(_emptied(t.numpy(), k, row)) for t in lot[:2]), kept, kept)
        rest = np.concatenate([s.numpy().ravel() for s in step(without)])
        moved.append(np.linalg.norm(whole - rest))
    assert len(moved) == 20 and max(moved) <= 0.5 * (1 + 1e-6) and max(moved) > 0.49


def _emptied(array, k, row):
    array[k, row] = 0
    return array


class Dropping(keras.layers.Layer):
    """Draws from a generator of its own."""

    def __init__(self):
        super().__init__()
        self.generator = tf.random.Generator.from_seed(7)

    def call(self, x):
        return 2.0 * x * tf.cast(self.generator.uniform(tf.shape(x)) < 0.5, x.dtype)


# Of Keras 2 it draws by seeds of TensorFlow's operations, which are the same on each device.
@pytest.mark.parametrize("kind", ["generator", *(["dropout"] if KERAS_3 else [])])
def test_devices_draw_different_masks(kind, strategy, data):
    features = 16
    drawing = Dropping() if kind == "generator" else keras.layers.Dropout(0.5)
    model = keras.Sequential(
        [keras.Input((features,)), drawing, keras.layers.Dense(2, use_bias=False)]
    )
    one = private_of(
        model,
        steps=4,
        l2_norm_clip=1e6,
        strategy=strategy,
    )
    one.compile("sgd", lambda y, p: tf.reduce_sum(p * tf.one_hot(tf.cast(y, tf.int32), 2), axis=1))
    # An example on each device, with an output of its own, whose gradient is the mask.
    ones, mask = np.ones((2, 8, features), np.float32), np.zeros((2, 8), np.float32)
    mask[:, 3] = 1
    lot = Lot(*map(tf.constant, (ones, np.float32([[0] * 8, [1] * 8]), mask, mask)))
    step = tf.function(one.clipped_sum, autograph=False)
    for _ in range(2):
        (masks,) = step(lot)
        first, second = np.transpose(masks)
        assert set(first) | set(second) == {0.0, 2.0} and (first != second).any()
    one.fit(np.ones((40, features), np.float32), data[1] % 2, verbose=0)
    assert one.ledger.guarantee_holds


@pytest.mark.parametrize("option", ["jit_compile", "run_eagerly"])
def test_steps_for_one_device_are_rejected(option, strategy, build, private, cross_entropy):
    one = private(build(), strategy=strategy)
    with pytest.raises(ValueError, match=f"with a strategy of 2 devices, got {option}=True"):
        one.compile("sgd", cross_entropy, **{option: True})
