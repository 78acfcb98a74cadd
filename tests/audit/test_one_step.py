"""One audited update: a sound one is not refuted, a broken or mis-noised one is."""

import numpy as np
import pytest
from scipy import optimize, stats
from tensorflow import keras

from tests.each import each
from tests.private_of import private_of
from tfdpnorm.audit.neighbours import Frame, Row
from tfdpnorm.audit.one_step import audit_one_step, gaussian_epsilon, training_step_samples
from tfdpnorm.audit.sensitivity import ClippedSums, measure_sensitivity
from tfdpnorm.layers import PublicBatchNormalization
from tfdpnorm.noise.gaussian import GaussianNoise
from tfdpnorm.privacy import PrivacyBudget

ROWS, FEATURES, CLASSES, DELTA = 32, 6, 3, 1e-5


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    return rng.normal(size=(ROWS, FEATURES)).astype(np.float32), rng.integers(CLASSES, size=ROWS)


@pytest.fixture(scope="module")
def public():
    return np.random.default_rng(2).normal(size=(8, FEATURES)).astype(np.float32)


@pytest.fixture
def private(public):
    """Returns a function that makes the compiled private model of one full step."""

    def make(statistics="public", epsilon=1.0, optimizer=None, **settings):
        model = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(8)])
        model.add(PublicBatchNormalization(statistics=statistics))
        model.add(keras.layers.Activation("tanh"))
        model.add(keras.layers.Dense(CLASSES))
        settings = {
            "num_examples": ROWS,
            "expected_batch_size": ROWS,
            "steps": 1,
            "budget": PrivacyBudget(epsilon, DELTA),
            **settings,
        }
        made = private_of(
            model, l2_norm_clip=0.5, accountant="pld", public_batch=public, **settings
        )
        made.compile(
            optimizer or keras.optimizers.SGD(1.0),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
        return made

    return make


@pytest.fixture
def weak_noise(monkeypatch):
    """The noise is a hundredth of what the ledger counts on."""
    noised = GaussianNoise.noised
    monkeypatch.setattr(
        GaussianNoise,
        "noised",
        lambda self, sums, stddev, update: noised(self, sums, stddev / 100, update),
    )


@each("change, noise_multiplier", [(1.0, 3.73), (10.1, 3.73)])
def test_the_exact_epsilon_is_balle_and_wangs(change, noise_multiplier):
    ratio = change / noise_multiplier

    def excess(epsilon):
        a, b = ratio / 2, epsilon / ratio
        return stats.norm.cdf(a - b) - np.exp(epsilon) * stats.norm.cdf(-a - b) - DELTA

    exact = optimize.brentq(excess, 0, 100)
    found = gaussian_epsilon(change, noise_multiplier, DELTA)
    assert exact <= found * (1 + 1e-6) and found == pytest.approx(exact, rel=0.01)
    assert gaussian_epsilon(0.0, noise_multiplier, DELTA) == 0.0


def test_a_private_step_is_not_refuted(private, data):
    model = private("public")
    worst = measure_sensitivity(model, *data)
    found = audit_one_step(model, worst.frame, worst.row, samples=50_000)
    assert found.claimed_epsilon == pytest.approx(1.0, abs=0.01) and found.sensitivity > 0.99
    assert 0.2 < found.audited_epsilon <= found.claimed_epsilon and not found.violation
    assert found.exact_epsilon == pytest.approx(found.claimed_epsilon, rel=0.01)


def test_a_step_with_the_lots_own_statistics_is_refuted(private, data):
    model = private("lot")
    worst = measure_sensitivity(model, *data)
    found = audit_one_step(model, worst.frame, worst.row, sums=worst.sums, samples=50_000)
    assert found.sensitivity == pytest.approx(worst.add_or_remove_one, rel=1e-5)
    assert found.violation and found.audited_epsilon > 5 > found.claimed_epsilon
    assert found.exact_epsilon > 10


def test_the_training_step_releases_the_noised_sum(private, data):
    """Mean and deviation of the projected weight change are those of the mechanism."""
    model = private("example")  # without a pull-back the update is the released sum itself
    frame, row = Frame("", *data, 0), Row("", 10 * data[0][0], int(data[1][0]))
    sums = ClippedSums(model)
    with_row, without = (sums(frame.lot(r)) for r in (row, None))
    along = with_row - without
    along /= np.linalg.norm(along)
    before = model.model.get_weights()
    drawn = [training_step_samples(model, frame.lot(r), along, 400) * ROWS for r in (row, None)]
    stddev = model.plan.noise_multiplier * model.plan.l2_norm_clip
    for values, total in zip(drawn, (with_row, without), strict=True):
        assert values.mean() == pytest.approx(along @ total, abs=4 * stddev / 20)
        assert values.std() == pytest.approx(stddev, rel=0.15)
        assert len(set(values)) == 400
    assert all(map(np.array_equal, before, model.model.get_weights()))
    assert int(model.update_count) == 800 and model.ledger.updates == 0


@pytest.mark.slow
def test_an_optimizer_with_a_memory_starts_anew_every_time(private, data):
    model = private("public", optimizer=keras.optimizers.SGD(0.5, momentum=0.9), epsilon=1e5)
    lot = Frame("", *data, 0).lot(Row("", data[0][0], 1))
    direction = np.ones(sum(w.size for w in model.model.get_weights()), np.float32)
    values = training_step_samples(model, lot, direction, 5)
    # The noise moves them by some hundredths, momentum would make the second 1.9 times the first.
    assert np.ptp(values) < 0.3 * abs(values.mean())
    assert int(model.optimizer.iterations) == 0


@pytest.mark.slow
def test_a_black_box_audit_catches_noise_that_is_too_weak(weak_noise, private, data):
    model = private("public")
    worst = measure_sensitivity(model, *data)
    arguments = dict(sums=worst.sums, samples=300)
    honest_looking = audit_one_step(model, worst.frame, worst.row, **arguments)
    assert not honest_looking.violation, "NumPy's noise knows nothing of the fault"
    found = audit_one_step(model, worst.frame, worst.row, black_box=True, **arguments)
    assert found.violation and found.audited_epsilon > 2


@each(
    "settings",
    [
        {"steps": 2},
        {"expected_batch_size": 16},
        {"budget": None, "noise_multiplier": 0.0, "delta": DELTA},
    ],
)
def test_other_plans_are_rejected(settings, private, data):
    frame, row = Frame("", *data, 0), Row("", data[0][0], 0)
    with pytest.raises(ValueError, match="one noisy update"):
        audit_one_step(private(**settings), frame, row)
