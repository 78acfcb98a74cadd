"""Training per person: the mean gradient of a person's rows is clipped once."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

import tfdpnorm
from tests.training.step.looped import looped_sum
from tfdpnorm.data import poisson_batches
from tfdpnorm.layers import NoisedBatchNormalization
from tfdpnorm.privacy.slots import Slots
from tfdpnorm.training import PrivateValidation

COUNTS = [1, 2, 3, 4, 1000]
MOST = 3


@pytest.fixture(scope="module")
def rows():
    """(x [rows, 5], y [rows], person [rows]) of five persons, in no order."""
    rng = np.random.default_rng(0)
    person = rng.permutation(np.repeat(np.arange(len(COUNTS)), COUNTS))
    x = rng.normal(size=(len(person), 5)).astype(np.float32)
    return x, rng.integers(3, size=len(person)), person


@pytest.fixture
def of_persons(private):
    """Returns `make_private` for five persons."""

    def make(model, most=MOST, **settings):
        plan = {"num_examples": 5, "expected_batch_size": 5, "most_per_person": most}
        return private(model, **{**plan, "l2_norm_clip": 0.5, **settings})

    return make


def lot_of_all(rows, most=MOST, slots=Slots(2, 4)):  # noqa: B008 (it is frozen)
    """A lot of all five persons."""
    x, y, person = rows
    batches = poisson_batches(x, y, person=person, most_per_person=most, expected_batch_size=5)
    return next(iter(batches.as_dataset(slots)))


def of_slots(lot):
    """Yields (x, y) of the rows of each person in a lot."""
    x, y, weight, mask = (t.numpy() for t in lot)
    for slot in np.argwhere(mask > 0):
        here = weight[tuple(slot)] > 0
        yield x[tuple(slot)][here], y[tuple(slot)][here]


@pytest.mark.parametrize(
    "engine, norm", [("book_keeping", "public_batch"), ("per_example", "layer")]
)
def test_the_sum_is_that_of_a_loop_over_persons(
    engine, norm, build, of_persons, step_sum, rows, public, cross_entropy
):
    model = build(norm=norm)
    settings = {}
    if norm == "public_batch":
        settings = {"public_batch": public, "pull_back_weight": 1.0}  # clipped as the loop does
    trained = of_persons(model, engine=engine, physical_batch_size=4, **settings)
    trained.compile("sgd", cross_entropy)
    lot = lot_of_all(rows)
    total = step_sum(trained)(lot)
    if norm == "public_batch":
        trained.refresh_public_statistics()
    persons = list(of_slots(lot))
    assert sorted(len(x) for x, _ in persons) == [1, 2, 3, 3, 3]
    expected = looped_sum(
        model,
        lambda i: cross_entropy(persons[i][1], model(persons[i][0], training=False)),
        len(persons),
        0.5,
    )
    if norm == "public_batch":  # gamma and beta take part in the gradient by the pull-back too
        expected = expected[: len(total)]
    assert np.linalg.norm(expected) > 0.5
    np.testing.assert_allclose(total, expected, rtol=1e-4, atol=1e-5)


def test_all_rows_of_a_person_take_part_where_they_fit(
    build, of_persons, step_sum, rows, cross_entropy
):
    """One with 1,000 rows counts as one with a single row does. Nobody is clipped."""
    model, (x, y, person) = build(norm="layer"), rows
    trained = of_persons(model, most=1000, l2_norm_clip=100.0)
    trained.compile("sgd", cross_entropy)
    total = step_sum(trained)(lot_of_all(rows, most=1000, slots=Slots(1, 5)))

    def loss_of(i):
        return cross_entropy(y[person == i], model(x[person == i]))

    expected = looped_sum(model, loss_of, 5, 100.0)
    np.testing.assert_allclose(total, expected, rtol=1e-4, atol=1e-6)


SETTINGS = {
    "noised statistics": {},
    "per example": {"engine": "per_example", "clipping": "per_layer"},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_person_with_a_thousand_rows_moves_the_sum_by_the_clip(
    name, build, of_persons, rows, cross_entropy
):
    x, y, person = rows[0].copy(), rows[1], rows[2]
    x[person == 4] *= 1e3
    model = build(norm="layer")
    if name == "noised statistics":
        parts = [keras.layers.Dense(4), NoisedBatchNormalization(), keras.layers.Dense(3)]
        model = keras.Sequential([keras.Input((5,)), *parts])
    trained = of_persons(model, most=1000, **SETTINGS[name])
    trained.compile("sgd", cross_entropy)
    lot = lot_of_all((x, y, person), most=1000, slots=Slots(1, 6))
    step = tf.function(trained.clipped_sum, autograph=False)

    def summed(lot):
        return np.concatenate([s.numpy().ravel() for s in step(lot)]).astype(np.float64)

    whole, moved = summed(lot), []
    for slot in np.flatnonzero(lot.mask[0]):
        mask = lot.mask.numpy()
        mask[0, slot] = 0
        moved.append(np.linalg.norm(whole - summed(lot._replace(mask=tf.constant(mask)))))
    bound = 0.5 * (1 + 1e-5)
    assert len(moved) == 5 and 0.25 < max(moved) <= bound


def test_running_averages_move_by_the_mean_over_a_persons_rows(of_persons, rows, cross_entropy):
    x, y, person = 0.1 * rows[0], rows[1], rows[2]  # within the bound on a row's moments
    norm = NoisedBatchNormalization(momentum=0.0)
    model = keras.Sequential([keras.Input((5,)), norm, keras.layers.Dense(3)])
    trained = of_persons(model, l2_norm_clip=1e4, noise_multiplier=1.0)
    trained.compile("sgd", cross_entropy)
    lot = lot_of_all((x, y, person), slots=Slots(1, 8))
    *_, means, squares = trained.clipped_sum(lot)
    of_persons_means = np.array([x.mean(axis=0) for x, _ in of_slots(lot)])
    of_persons_squares = np.array([(x**2).mean(axis=0) for x, _ in of_slots(lot)])
    # Both are sums over persons, times what the clip weighs them by.
    for found, expected in ((means, of_persons_means), (squares, of_persons_squares)):
        scale = np.asarray(found) / expected.sum(axis=0)
        np.testing.assert_allclose(scale, scale[0], rtol=1e-4)


def test_a_run_is_accounted_by_persons(build, rows, cross_entropy, tmp_path):
    x, y, person = rows[0][:200], rows[1][:200], np.arange(200) % 40
    plan = {
        "num_examples": 40,
        "expected_batch_size": 10,
        "steps": 4,
        "l2_norm_clip": 1.0,
        "noise_multiplier": 1.0,
        "delta": 1e-5,
    }
    by_person = tfdpnorm.make_plan(**plan, most_per_person=3)
    assert by_person.unit == "person"
    trained = tfdpnorm.make_private(build(norm="layer"), by_person, run_dir=tmp_path)
    trained.compile("sgd", cross_entropy, metrics=["accuracy"])
    history = trained.fit(x, y, person=person.astype(str), verbose=0).history
    assert trained.ledger.guarantee_holds and trained.ledger.updates == 4
    assert trained.ledger.epsilon() == tfdpnorm.make_plan(**plan).epsilon_after(4)
    assert np.isfinite(history["loss"]).all()
    ledger = tfdpnorm.privacy.read_ledger(next(tmp_path.glob("*ledger*")))
    assert ledger.plan == by_person
    resumed = tfdpnorm.make_plan(**plan, most_per_person=4)
    with pytest.raises(ValueError, match="most_per_person is 3 there and 4 here"):
        folder = tfdpnorm.RunDir(tmp_path, resume=True)
        tfdpnorm.make_private(build(norm="layer"), resumed, run_dir=folder)


class TestRefusals:
    @pytest.fixture
    def trained(self, build, of_persons, cross_entropy):
        one = of_persons(build(norm="layer"))
        one.compile("sgd", cross_entropy)
        return one

    def test_no_remedy_is_a_noisy_validation_of_rows(self, trained, rows):
        stopping = keras.callbacks.EarlyStopping("loss")
        with pytest.raises(ValueError, match=r"public validation_data\.$"):
            trained.fit(*rows[:2], person=rows[2], callbacks=[stopping], verbose=0)

    def test_rows_of_nobody(self, trained, rows):
        with pytest.raises(ValueError, match="person="):
            trained.fit(*rows[:2], verbose=0)
        dataset = tf.data.Dataset.from_tensor_slices(rows[:2]).batch(4)
        for data in ({"x": dataset}, {"x": dataset, "person": rows[2]}):
            with pytest.raises(ValueError, match="tf.data.Dataset"):
                trained.fit(**data, verbose=0)
        with pytest.raises(ValueError, match="the person of each row"):
            trained.train_on_batch(*rows[:2])
        assert trained.ledger.updates == 0

    def test_persons_for_a_plan_of_rows(self, compiled, build, rows):
        one = compiled(build(norm="layer"))
        with pytest.raises(ValueError, match="most_per_person"):
            one.fit(rows[0][:40], rows[1][:40], person=rows[2][:40], verbose=0)

    def test_another_number_of_rows_or_persons(self, trained, rows):
        x, y, person = rows
        told = rf"num_examples=.*got 4 persons \({len(x)} rows\)"
        for most, who, text in ((2, person, "most_per_person="), (3, person % 4, told)):
            batches = poisson_batches(x, y, person=who, most_per_person=most, expected_batch_size=4)
            with pytest.raises(ValueError, match=text):
                trained.fit(batches, verbose=0)

    def test_noisy_answers_about_rows(self, trained, rows):
        x, y, person = rows
        asks = PrivateValidation(x[:3] + 9, y[:3], noise_multiplier=2.0)
        with pytest.raises(ValueError, match="PrivateValidation"):
            trained.fit(x, y, person=person, callbacks=[asks], verbose=0)
        query = tfdpnorm.privacy.entries.Query("accuracy", 2.0, 3, True)
        with pytest.raises(ValueError, match="single rows"):
            trained.ledger.record(query)

    def test_phases_of_another_unit(self, compiled, build, data):
        one = compiled(build())
        one.fit(*data, verbose=0)
        settings = {
            "num_examples": 40,
            "expected_batch_size": 10,
            "steps": 2,
            "l2_norm_clip": 1.0,
            "noise_multiplier": 1.0,
            "delta": 1e-5,
            "after": one.ledger,
        }
        assert tfdpnorm.make_plan(**settings).unit == "row"
        with pytest.raises(ValueError, match="do not compose"):
            tfdpnorm.make_plan(**settings, most_per_person=2)

    def test_rows_that_are_joined_with_public_ones(self, build, of_persons, public):
        model = build(norm="public_batch", statistics="example")
        with pytest.raises(ValueError, match="most_per_person"):
            of_persons(model, public_batch=public)
