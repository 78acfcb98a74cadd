"""The noise: how much, how often, and that no two draws are related.

Statistical bounds are 6 standard deviations of what they bound (2e-9 on either side), so that all
of them together raise a false alarm in fewer than one run in a million.
"""

import hashlib
import secrets
import unittest.mock

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.data import poisson_batches
from tfdpnorm.gradients.contributions.row_sums import rounded_sums
from tfdpnorm.noise import grid as exact_noise
from tfdpnorm.noise import words
from tfdpnorm.noise.gaussian import GENERATORS, GaussianNoise
from tfdpnorm.noise.grid import float32_normals
from tfdpnorm.noise.words import OpenSSLWords
from tfdpnorm.privacy.slots import slots_of_plan

SIGMAS = 6.0


def assert_gaussian(values, stddev):
    values = np.ravel(values)
    count = values.size
    assert abs(values.std() / stddev - 1) < SIGMAS / np.sqrt(2 * count)
    assert abs(values.mean()) < SIGMAS * stddev / np.sqrt(count)
    # The fourth moment is 3 sigma^4; its estimates spread by sqrt(96 / n), with a longer tail.
    assert abs((values**4).mean() / stddev**4 - 3) < 2 * SIGMAS * np.sqrt(96 / count)


def assert_unrelated(vectors):
    """No two of the vectors are correlated, of one sign or the other."""
    count = min(v.size for v in vectors)
    table = np.corrcoef([np.ravel(v)[:count] for v in vectors])
    np.fill_diagonal(table, 0)
    assert np.abs(table).max() < SIGMAS / np.sqrt(count)


def drawn(noise, shapes, stddev, update):
    """Noise by itself: what is released of sums of 0."""
    return [t.numpy() for t in noise.noised([tf.zeros(s) for s in shapes], stddev, update)]


@pytest.mark.parametrize("generator", GENERATORS)
def test_draws_are_gaussian_and_unrelated(generator):
    noise = GaussianNoise(generator=generator)
    draws = [drawn(noise, [(200, 100), (20000,)], 3.0, update) for update in range(4)]
    flat = [t for draw in draws for t in draw]
    assert_gaussian(np.concatenate([v.ravel() for v in flat]), 3.0)
    assert_unrelated(flat)


@pytest.mark.parametrize("generator", GENERATORS)
def test_tensors_never_share_random_numbers(generator):
    """Not at their ends either, whatever room they take. A large stddev has no two alike."""
    shapes = [(16,), (4, 8), (5,), (16,)]
    noise = GaussianNoise(generator=generator)
    with unittest.mock.patch.object(exact_noise, "STDDEV_IN_STEPS", 2**20):
        # A standard deviation that no other test has: traces keep the steps they were made with.
        parts = drawn(noise, shapes, 0.98765, 5)
    assert len(np.unique(np.concatenate([np.ravel(part) for part in parts]))) == 16 + 32 + 5 + 16


@each("generator", GENERATORS)
def test_each_dtype_has_noise_of_its_own(generator):
    noise = GaussianNoise(generator=generator)
    zeros = [tf.zeros(20_000, dtype) for dtype in (tf.float32, tf.float64)]
    assert_unrelated([t.numpy() for t in noise.noised(zeros, 1.0, 0)])


@each("generator", GENERATORS)
def test_each_run_has_noise_of_its_own(generator):
    runs = [GaussianNoise(generator=generator) for _ in range(2)]
    assert_unrelated([drawn(noise, [(20_000,)], 1.0, 0)[0] for noise in runs])


@pytest.mark.parametrize("generator", GENERATORS)
def test_a_traced_update_draws_again(generator):
    """Grappler computes what has no state, and reads nothing that changes, once for all calls."""
    noise = GaussianNoise(generator=generator)
    traced = tf.function(lambda: noise.noised([tf.zeros(20_000)], 1.0, noise.next_number()))
    assert_unrelated([traced()[0].numpy() for _ in range(4)])


@pytest.mark.parametrize("generator", GENERATORS)
def test_updates_of_one_graph_draw_again(generator):
    """In a loop, as with `steps_per_execution`, and one after the other, in each dtype."""
    noise = GaussianNoise(generator=generator)

    def update():
        zeros = [tf.zeros(20_000), tf.zeros(20_000, tf.float64)]
        return tf.stack(
            [tf.cast(t, tf.float32) for t in noise.noised(zeros, 1.0, noise.next_number())]
        )

    @tf.function
    def several():
        drawn = tf.TensorArray(tf.float32, 3)
        for i in tf.range(3):
            drawn = drawn.write(i, update())
        return tf.concat([drawn.concat(), update(), update()], axis=0)

    assert_unrelated([*several().numpy(), *several().numpy()])


def test_philox_has_a_key_for_each_purpose():
    """SHAKE-256 of the purpose, and of a key that comes from the operating system."""
    with unittest.mock.patch.object(secrets, "token_bytes", lambda count: count * b"k"):
        noise = GaussianNoise(generator="philox")
    (found,) = noise.noised([tf.zeros(16)], 1.0, 7)
    secret = hashlib.shake_256(b"noise" + 32 * b"k").digest(32)
    key = np.frombuffer(hashlib.shake_256(b"normals" + secret).digest(16), np.int64) + [7, 0]
    drawn = tf.random.stateless_uniform([2, 8], key, None, None, tf.int32, alg="philox")
    expected = np.concatenate(float32_normals(drawn)[:2])
    np.testing.assert_array_equal(found, np.round(expected * 32) / 32)


def test_openssl_gives_the_words():
    drawn = []

    def counted(count):
        drawn.append(np.arange(count, dtype=np.uint8).tobytes())
        return drawn[-1]

    with (
        unittest.mock.patch.object(words.ssl, "RAND_bytes", counted),
        unittest.mock.patch.object(words, "_MOST_BYTES", 20),
    ):
        found = OpenSSLWords()(b"normals", None, [2, 8])
    assert [len(part) for part in drawn] == [20, 20, 20, 4]
    np.testing.assert_array_equal(found, np.frombuffer(b"".join(drawn), np.int32).reshape(2, 8))


def test_a_seed_needs_a_generator_that_repeats():
    assert GaussianNoise(insecure_seed=1).generator == "philox"
    assert GaussianNoise().generator == "openssl"
    with pytest.raises(ValueError, match="insecure_seed"):
        GaussianNoise(insecure_seed=1, generator="openssl")
    with pytest.raises(ValueError, match="noise_generator"):
        GaussianNoise(generator="mersenne")


class Interrupted(Exception):
    """Between the draw and whatever comes next."""


@pytest.mark.parametrize("how", ["eager", "graph", "loop", "xla"])
def test_random_numbers_are_never_given_twice(how):
    """Whatever fails after a number was taken; nothing sets the counter back."""
    noise, given, fails = GaussianNoise(first_number=5), [], [False]

    def keep(number):
        given.append(int(number))
        if fails[0]:
            raise Interrupted
        return number

    def update():
        number = noise.next_number()
        if how == "xla":
            return number
        return tf.numpy_function(keep, [number], tf.int64)

    def several():
        for _ in tf.range(3):
            update()
        return tf.constant(0, tf.int64)

    step = update if how == "eager" else tf.function(update, jit_compile=how == "xla" or None)
    step = tf.function(several) if how == "loop" else step
    for fails[0] in (False, True, False, True, True, False):
        if fails[0] and how != "xla":
            with pytest.raises((Interrupted, tf.errors.OpError)):
                step()
        elif how == "xla":
            given.append(int(step()))
        else:
            step()
    assert given == list(range(5, 5 + len(given))) and len(given) >= 6
    assert int(noise.update_count) == 5 + len(given)


def wide_model():
    """10,100 coordinates in the first variable and 20,200 in the last."""
    model = keras.Sequential([keras.Input((100,))])
    model.add(keras.layers.Dense(101, use_bias=False))
    model.add(keras.layers.Dense(200, use_bias=False))
    return model


def no_gradient(y, predictions):
    return 0.0 * tf.reduce_sum(predictions, axis=1)


@pytest.mark.parametrize(("batch", "clip"), [(None, 0.5), (3, 4.0)])
def test_updates_carry_noise_of_the_planned_size_once(batch, clip, private, weight_trace):
    """For lots of one physical batch and of several; z C / L, with the expected L, for any C."""
    x, y = np.ones((40, 100), np.float32), np.zeros(40)
    trained = private(
        wide_model(),
        noise_multiplier=2.0,
        l2_norm_clip=clip,
        steps=4,
        physical_batch_size=batch,
    )
    trained.compile(keras.optimizers.SGD(1.0), no_gradient)
    trace = weight_trace()
    trained.fit(x, y, epochs=1, verbose=0, callbacks=[trace])
    updates = trace.updates()
    assert len(updates) == 4
    for variable in range(2):
        assert_gaussian(np.array([u[variable] for u in updates]), 2.0 * clip / 10)
    assert_unrelated([part for update in updates for part in update])


@pytest.mark.parametrize(
    ("engine", "paid", "rows"),
    [("book_keeping", True, 4), ("per_example", True, None), ("tfp_model", False, None)],
)
def test_the_noise_pays_for_the_rounding_of_sums(engine, paid, rows, private):
    """Of all rows that a lot may have, however many go through the model at once."""
    settings = {"noise_multiplier": 2.0, "l2_norm_clip": 0.5, "engine": engine}
    trained = private(wide_model(), physical_batch_size=rows, **settings)
    trained.compile(keras.optimizers.SGD(1.0), no_gradient)
    _, more = rounded_sums(slots_of_plan(trained.plan).rows)
    assert more > 1e-6
    assert trained.ledger.settings["sum_rounding"] == (more if paid else None)
    kept = unittest.mock.patch.object(GaussianNoise, "noised", side_effect=lambda sums, *_: sums)
    with kept as noised:
        trained.fit(np.ones((40, 100), np.float32), np.zeros(40), epochs=1, verbose=0)
    (_, stddev, _), _ = noised.call_args
    assert stddev == pytest.approx(2.0 * 0.5 * (1 + more if paid else 1), rel=1e-12)


def test_the_denominator_is_the_expected_lot_size(private, weight_trace):
    """Each row's clipped gradient is the same: an update counts the rows of its lot."""
    x, y = np.ones((40, 1), np.float32), np.zeros(40)
    model = keras.Sequential([keras.layers.Dense(1, use_bias=False, input_shape=(1,))])
    trained = private(
        model,
        noise_multiplier=0.0,
        l2_norm_clip=0.25,
        insecure_seed=3,
        steps=6,
        physical_batch_size=8,
    )
    trained.compile(keras.optimizers.SGD(1.0), lambda y, p: p[:, 0])
    trace = weight_trace()
    trained.fit(x, y, epochs=1, steps_per_epoch=6, verbose=0, callbacks=[trace])
    counted = [update[0].item() * 10 / 0.25 for update in trace.updates()]
    lots = poisson_batches(x, y, expected_batch_size=10).as_dataset(insecure_seed=3).take(6)
    sizes = [lot.mask.numpy().sum() for lot in lots]
    assert len(set(sizes)) > 2  # partial lots and larger ones are among them
    np.testing.assert_allclose(counted, sizes, rtol=1e-4)
