"""The whole of one release: its noise, its ledger, its statement, and the head."""

import json
import warnings

import numpy as np
import pytest
from scipy import optimize, stats
from tensorflow import keras

import tfdpnorm
from tests.each import each
from tfdpnorm import PrivacyBudget, PrivacyError, PrivacyWarning, private_least_squares
from tfdpnorm.least_squares.ridge import gram_share_for
from tfdpnorm.noise.gaussian import GaussianNoise
from tfdpnorm.noise.grid import grid_width
from tfdpnorm.privacy import BudgetExhaustedError, read_ledger
from tfdpnorm.privacy.entries import Declaration, Updates

D, CLASSES, DELTA = 12, 3, 1e-5
BUDGET = PrivacyBudget(1.0, DELTA)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    centres, y = rng.normal(size=(CLASSES, D)), rng.integers(CLASSES, size=3000)
    return (centres[y] + 0.3 * rng.normal(size=(3000, D))).astype(np.float32), y


def released(data, **settings):
    return private_least_squares(*data, **{"num_classes": CLASSES, "budget": BUDGET, **settings})


def test_the_head_classifies_new_rows(data):
    head = released(data)
    assert isinstance(head.model, keras.Model) and head.model.count_params() == (D + 1) * CLASSES
    scores = head.model.predict(data[0], verbose=0)
    assert np.mean(scores.argmax(axis=1) == data[1]) > 0.95
    kernel, bias = head.model.get_weights()
    np.testing.assert_allclose(scores, data[0] @ kernel + bias, atol=1e-5)


def test_the_model_scales_by_the_same_bounds():
    """Columns in grams and in millions, and classes that no plane through zero divides."""
    rng = np.random.default_rng(0)
    low, high = np.array([0.0, 2e6, -5.0]), np.array([1e-3, 5e6, 5.0])
    x = low + (high - low) * rng.random((2000, 3))
    y = (np.sum((x - low) / (high - low), axis=1) > 1.5).astype(int)
    settings = {"num_classes": 2, "budget": PrivacyBudget(3.0, DELTA)}
    head = private_least_squares(x, y, bounds=(low, high), **settings)
    accuracy = np.mean(head.model.predict(x, verbose=0).argmax(axis=1) == y)
    assert accuracy > 0.95
    raw = private_least_squares(x, y, **settings).model.predict(x, verbose=0).argmax(axis=1)
    assert np.mean(raw == y) < 0.75
    front = keras.Sequential([keras.Input((3,)), keras.layers.Activation("linear")])
    behind = head.behind(front).model.predict(x, verbose=0).argmax(axis=1)
    assert np.mean(behind == y) == accuracy
    assert np.trace(head.gram) == pytest.approx(
        2000, abs=10 * head.gram_noise
    )  # rows of one length


def test_an_intercept_tells_common_classes_from_rare_ones():
    x = np.random.default_rng(0).normal(size=(3000, D))
    y = (x[:, 0] > 1.3).astype(int)
    head = released((x, y), num_classes=2, l2_norm_clip=2.0, budget=PrivacyBudget(8.0, DELTA))
    assert np.diff(head.model.get_weights()[1]) < 0
    assert np.mean(head.model.predict(x, verbose=0).argmax(axis=1)) < 0.2


@each("count, warned", [(2, True), (200, False)])
def test_noise_above_the_signal_is_warned_of(count, warned):
    x, y = np.eye(3)[np.arange(3 * count) % 3], np.arange(3 * count) % 3
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        released((x, y))
    assert any("N / (z K)" in str(w.message) for w in caught) == warned


def test_targets_are_predicted_in_their_own_units(data):
    x, _ = data
    target = 5 * x[:, 0] - 2 * x[:, 1]
    head = private_least_squares(
        x, target, target_norm_clip=40.0, l2_norm_clip=10.0, budget=PrivacyBudget(20.0, DELTA)
    )
    error = head.model.predict(x, verbose=0)[:, 0] - target
    assert np.mean(error**2) < 0.05 * np.var(target)


def exact_epsilon(noise_multiplier):
    """Balle and Wang (2018), Theorem 8, for sensitivity 1."""

    def excess(epsilon):
        a, b = 1 / (2 * noise_multiplier), epsilon * noise_multiplier
        return stats.norm.cdf(a - b) - np.exp(epsilon + stats.norm.logcdf(-a - b)) - DELTA

    return optimize.brentq(excess, 0, 500)


@each("epsilon", [0.05, 0.3, 1.0, 8.0])
def test_epsilon_is_that_of_one_gaussian_mechanism(epsilon, data):
    small = data[0][:60], data[1][:60]
    for accountant, slack in (("pld", 0.005), ("rdp", 0.35)):
        head = released(small, budget=PrivacyBudget(epsilon, DELTA), accountant=accountant)
        exact = exact_epsilon(head.plan.noise_multiplier)
        assert exact <= head.epsilon() * (1 + 1e-6) <= epsilon * (1 + 1e-6)
        assert head.epsilon() == pytest.approx(epsilon, rel=0.02)
        assert exact == pytest.approx(epsilon, rel=slack)
    assert head.plan.sampling_rate == 1 and head.ledger.updates == 1


def test_noise_has_its_deviation_lies_on_the_grid_and_is_new(data):
    x, y = np.zeros((10, 80)), np.zeros(10, int)
    first, second = (released((x, y), noise_multiplier=2.5, delta=DELTA, budget=None) for _ in "ab")
    share = gram_share_for(10, 2.5, 80, CLASSES)
    off = first.gram[np.triu_indices(81, 1)]
    assert off.std() == pytest.approx(2.5 / np.sqrt(2 * share), rel=0.05)
    assert off.std() == pytest.approx(first.gram_noise, rel=0.05)
    independent = 81 * (CLASSES - 1)  # its rows have mean 0
    assert first.cross.std() == pytest.approx(
        2.5 * np.sqrt(1 - 1 / CLASSES) / np.sqrt(1 - share), rel=5 / np.sqrt(2 * independent)
    )
    steps = np.diag(first.gram) * np.sqrt(share) / grid_width(2.5)
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-6)
    assert np.mean(off == second.gram[np.triu_indices(81, 1)]) < 0.1


class TestLedger:
    def test_the_release_is_on_the_disk_before_the_noise_is_drawn(
        self, data, tmp_path, monkeypatch
    ):
        path, seen = tmp_path / "ledger.jsonl", []

        def interrupted(self, *arguments):
            seen.append([json.loads(line)["kind"] for line in path.read_text().splitlines()])
            raise KeyboardInterrupt

        monkeypatch.setattr(GaussianNoise, "noised", interrupted)
        monkeypatch.setattr(GaussianNoise, "next_number", lambda self: 0)
        with pytest.raises(KeyboardInterrupt):
            released(data, ledger_file=path)
        assert "updates" in seen[0]
        ledger = read_ledger(path)
        assert ledger.updates == 1 and ledger.epsilon() == pytest.approx(1, rel=0.01)

    def test_a_budget_whose_delta_would_not_hold(self, data, tmp_path):
        path = tmp_path / "ledger.jsonl"
        with pytest.raises(PrivacyError, match="No guarantee would hold.*smaller epsilon"):
            released(data, budget=PrivacyBudget(60.0, DELTA), ledger_file=path)
        assert not path.exists()

    def test_a_second_release_needs_a_ledger_of_its_own(self, data, tmp_path):
        path = tmp_path / "ledger.jsonl"
        head = released(data, ledger_file=path)
        text = path.read_text()
        with pytest.raises(FileExistsError):
            released(data, ledger_file=path)
        assert path.read_text() == text
        assert read_ledger(path).epsilon() == head.epsilon()
        with pytest.raises(BudgetExhaustedError):
            released(data).ledger.record(Updates(1))

    def test_a_release_after_another_one_composes(self, data, tmp_path):
        path = tmp_path / "ledger.jsonl"
        first = released(data, budget=PrivacyBudget(1.0, DELTA), ledger_file=path)
        second = released(data, budget=PrivacyBudget(2.0, DELTA), after=path)
        together = (first.plan.noise_multiplier**-2 + second.plan.noise_multiplier**-2) ** -0.5
        assert exact_epsilon(together) == pytest.approx(2, rel=0.01)
        assert second.epsilon() == pytest.approx(2, rel=0.01)
        assert f"run {first.ledger.run_id}" in second.privacy_statement()
        with pytest.raises(ValueError, match="larger than that spent in the earlier phases"):
            released(data, after=path)

    def test_a_training_after_a_release_composes(self, data):
        head = released(data)
        plan = tfdpnorm.make_plan(
            num_examples=3000,
            expected_batch_size=100,
            steps=20,
            l2_norm_clip=1.0,
            budget=PrivacyBudget(2.0, DELTA),
            after=head.ledger,
        )
        assert head.plan.mechanism(1) in plan.earlier_mechanisms
        assert plan.epsilon_after(20) == pytest.approx(2, rel=0.01)

    def test_rejected_data_spend_nothing(self, data, tmp_path):
        path = tmp_path / "ledger.jsonl"
        with pytest.raises(ValueError, match="a label for each"):
            released((data[0], data[1][:-1]), ledger_file=path)
        assert not path.exists()


def test_the_statement_says_what_was_released(data):
    text = released(data).privacy_statement()
    for part in (
        "any one of 3000 private training examples",
        "one noisy sum, and no gradients",
        "12 features",
        "every example is in every batch",
        "T = 1 made, of 1",
        "C = 1.0",
        "The computation of the features",
        "z C (1 + ",
    ):
        assert part in text, part
    assert "NO GUARANTEE" not in text


def test_a_seed_and_no_noise_have_no_guarantee(data):
    for settings in (
        {"insecure_seed": 3},
        {"budget": PrivacyBudget(float("inf"), DELTA)},
        {"budget": None, "noise_multiplier": 0, "delta": DELTA},
    ):
        head = released(data, **settings)
        assert head.epsilon() == np.inf
        assert head.privacy_statement().startswith("NO GUARANTEE")
    assert np.array_equal(*(released(data, insecure_seed=3).gram for _ in range(2)))


def test_persons_are_what_is_protected(data):
    person = np.arange(3000) // 10
    head = released(data, person=person, most_per_person=4)
    assert head.plan.num_examples == 300 and head.plan.unit == "person"
    assert "any one of 300 persons" in head.privacy_statement()
    assert "mean, over up to 4 of their rows" in head.privacy_statement()
    assert np.trace(head.gram) < 300 + 6 * head.gram_noise * np.sqrt(2 * D + 2)


def test_a_saved_head_says_what_was_spent_on_it(data, tmp_path):
    head = released(data)
    head.save(tmp_path / "head.keras")
    loaded = keras.models.load_model(tmp_path / "head.keras")
    np.testing.assert_array_equal(loaded.get_weights()[0], head.model.get_weights()[0])
    plan = tfdpnorm.make_plan(
        num_examples=3000,
        expected_batch_size=30,
        steps=1,
        l2_norm_clip=1.0,
        noise_multiplier=1.0,
        delta=DELTA,
    )
    private = tfdpnorm.make_private(loaded, plan)
    assert head.ledger.run_id in private.privacy_statement()
    head.model.set_weights([np.ones((D, CLASSES)), np.ones(CLASSES)])
    assert "Weights of unknown provenance" in head.privacy_statement()


def front_of(data, *, how):
    """A model of the features whose weights are fresh, of `fit`, or of a private run."""
    front = keras.Sequential([keras.Input((D,)), keras.layers.Dense(D)])
    if how == "fit":
        front.compile("sgd", "mse")
        front.fit(data[0], data[0], verbose=0)
    if how.startswith("private"):
        settings = dict(num_examples=3000, expected_batch_size=30, steps=2, delta=DELTA)
        multiplier = 1.0 if how == "private" else 0.0
        plan = tfdpnorm.make_plan(**settings, l2_norm_clip=1.0, noise_multiplier=multiplier)
        private = tfdpnorm.make_private(front, plan)
        private.compile("sgd", "mse")
        private.fit(data[0], data[0], verbose=0)
    return front


class TestBehind:
    """A head says of other weights only what is known of them."""

    def test_fresh_weights_add_nothing(self, data):
        head = released(data)
        before = head.ledger.state.caveats
        assert head.behind(front_of(data, how="fresh")).ledger.state.caveats == before

    @pytest.mark.parametrize(
        ("how", "code"),
        [("fit", "trained_before"), ("private", "private_run"), ("private exact", "private_run")],
    )
    @pytest.mark.filterwarnings("ignore::tfdpnorm.PrivacyWarning")
    def test_a_front_of_the_same_rows(self, data, how, code):
        head = released(data).behind(front_of(data, how=how))
        state = head.ledger.state
        assert state.has_code(code)
        assert state.has_weights_of_unknown_runs == (how == "fit")
        assert state.guarantee_holds == (how != "private exact")

    def test_a_trained_front_is_warned_of_unless_declared(self, data):
        with pytest.warns(PrivacyWarning, match="initial_weights_used_private_data"):
            released(data).behind(front_of(data, how="fit"))
        declared = Declaration(initial_weights_used_private_data=False)
        head = released(data, declaration=declared).behind(front_of(data, how="fit"))
        assert not head.ledger.state.has_weights_of_unknown_runs

    @pytest.mark.parametrize("is_closed", [False, True])
    def test_weights_put_into_the_head(self, data, tmp_path, is_closed):
        head = released(data, ledger_file=tmp_path / "ledger.jsonl")
        if is_closed:
            head.ledger.close()
        head.model.compile("sgd", "mse")
        head.model.fit(data[0], np.eye(CLASSES)[data[1]], verbose=0)
        with pytest.warns(PrivacyWarning):
            behind = head.behind(front_of(data, how="fresh"))
        assert "weights_replaced" in str(behind.privacy_metadata())
        assert behind.ledger.state.has_weights_of_unknown_runs

    def test_metadata_check_the_weights(self, data):
        head = released(data)
        head.model.set_weights([np.arange(D * CLASSES).reshape(D, CLASSES), np.ones(CLASSES)])
        assert "weights_replaced" in str(head.privacy_metadata())


def test_rows_that_count_as_nothing_are_warned_of(data):
    x, y = data[0].copy(), data[1].copy()
    x[0, 0], y[1] = np.nan, 99
    with pytest.warns(UserWarning, match="count as nothing"):
        head = released((x, y))
    assert np.isfinite(head.model.get_weights()[0]).all()


X, Y = np.ones((4, 3)), np.array([0, 1, 2, 1])
MISTAKES = {
    "no axes": (dict(features=np.ones(4)), "numbers .examples, features."),
    "images": (dict(features=np.ones((4, 2, 2))), "Flatten"),
    "texts": (dict(features=np.array([["a"]] * 4)), "numbers"),
    "no examples": (dict(features=np.ones((0, 3)), labels=np.zeros(0, int)), "at least one"),
    "no features": (dict(features=np.ones((4, 0))), "at least one"),
    "fewer labels": (dict(labels=Y[:3]), "a label for each of 4"),
    "one-hot": (dict(labels=np.eye(4)), "argmax"),
    "float labels": (dict(labels=Y.astype(float)), "whole numbers"),
    "neither": (dict(num_classes=None), "exactly one of num_classes"),
    "both": (dict(target_norm_clip=1.0), "exactly one of num_classes"),
    "one class": (dict(num_classes=1), "num_classes to be an integer >= 2"),
    "no bound": (dict(num_classes=None, target_norm_clip=float("inf")), "target_norm_clip in"),
    "clip": (dict(l2_norm_clip=0), "l2_norm_clip in"),
    "infinite clip": (dict(l2_norm_clip=float("inf")), "l2_norm_clip in"),
    "one bound": (dict(bounds=3.0), "a pair"),
    "bounds of other columns": (dict(bounds=([0, 0], [1, 1])), "one for each column"),
    "bounds turned round": (dict(bounds=(1.0, 0.0)), "low < high"),
    "generator": (dict(noise_generator="fast"), "noise_generator to be one of"),
    "budget": (dict(budget=1.0), "budget to be a PrivacyBudget"),
    "two budgets": (dict(noise_multiplier=1.0), "exactly one of budget and noise_multiplier"),
    "no delta": (dict(budget=None, noise_multiplier=1.0), "delta with noise_multiplier"),
    "person alone": (dict(person=Y), "person and most_per_person together"),
    "most alone": (dict(most_per_person=2), "person and most_per_person together"),
    "persons": (dict(person=Y[:2], most_per_person=2), "one for each row"),
    "accountant": (dict(accountant="gdp"), "accountant to be one of"),
    "seed": (dict(insecure_seed=-1), "insecure_seed"),
}


@each("mistake", MISTAKES)
def test_mistakes_are_answered_in_words(mistake):
    settings, message = MISTAKES[mistake]
    given = {"features": X, "labels": Y, "num_classes": 3, "budget": BUDGET, **settings}
    with pytest.raises(ValueError, match=message) as caught:
        private_least_squares(given.pop("features"), given.pop("labels"), **given)
    assert str(caught.value).startswith("Expected ")
