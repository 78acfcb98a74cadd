"""Lot size and updates by rule: that they spend the budget, and waste little of it."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from tests.each import each
from tfdpnorm.privacy import PrivacyBudget
from tfdpnorm.privacy.calibration import calibrate_noise_multiplier
from tfdpnorm.privacy.command import main
from tfdpnorm.privacy.suggested_plan import gaussian_mu, length_of, suggest_plan


def budget(epsilon=3.0, delta=1e-5):
    return PrivacyBudget(epsilon, delta)


class TestGaussianMu:
    @each("epsilon", [1e-3, 0.05, 1.0, 8.0, 50.0, 500.0])
    @each("delta", [1e-12, 1e-5, 0.1])
    def test_its_mechanism_has_just_that_delta(self, epsilon, delta):
        mu = gaussian_mu(epsilon, delta)
        above = stats.norm.cdf(mu / 2 - epsilon / mu)
        below = np.exp(epsilon + stats.norm.logcdf(-mu / 2 - epsilon / mu))
        assert above - below == pytest.approx(delta, rel=1e-5)


class TestSpendsTheBudget:
    @pytest.mark.parametrize("num_examples, epsilon", [(20, 0.1), (60_000, 8.0)])
    def test_and_not_more(self, num_examples, epsilon):
        plan = suggest_plan(
            budget=budget(epsilon, 0.1 / num_examples**1.1), num_examples=num_examples
        ).plan
        assert 0.98 * epsilon <= plan.epsilon_after(plan.steps) <= epsilon
        assert plan.accountant == "pld" and plan.guarantee_holds
        assert 1 <= plan.expected_batch_size <= num_examples

    def test_plans_for_persons_count_persons(self):
        plan = suggest_plan(budget=budget(math.inf), num_examples=300, most_per_person=4).plan
        assert plan.unit == "person" and plan.num_examples == 300
        assert plan.noise_multiplier == 0 and not plan.guarantee_holds
        sizes = dict(num_examples=300, most_per_person=4, unit="row")
        assert suggest_plan(budget=budget(math.inf), **sizes).plan.stated_per_person == 4


class TestLength:
    """Of the batch, and of the training; from numbers alone."""

    def test_larger_lots_would_hardly_lessen_the_noise(self):
        suggested = suggest_plan(budget=budget(), num_examples=60_000)
        plan, reasons = suggested.plan, suggested.reasons
        of_all = calibrate_noise_multiplier(budget(), 1.0, plan.steps, "pld") / 60_000
        assert 1.0 <= plan.noise_multiplier / plan.expected_batch_size / of_all < 1.08
        assert set(reasons) == {"steps", "expected_batch_size", "accountant", "noise_multiplier"}
        assert all(reasons.values())

    def test_the_time_is_bounded(self):
        lot, steps, _ = length_of(1_000_000, gaussian_mu(8.0, 1e-5))
        assert steps * lot / 1_000_000 == pytest.approx(30)

    @pytest.mark.parametrize("epochs", [1, 12.5])
    def test_epochs_are_kept(self, epochs):
        lot, steps, _ = length_of(60_000, 1.0, epochs)
        assert steps * lot / 60_000 == pytest.approx(epochs, rel=0.01)

    def test_what_is_given_is_kept(self):
        assert length_of(60_000, 1.0, epochs=3, lot=600)[:2] == (600, 300)
        lot, steps, reasons = length_of(60_000, 1.0, steps=11, lot=500)
        assert (lot, steps) == (500, 11) and reasons["steps"] == "as given"

    def test_not_all_three(self):
        with pytest.raises(ValueError, match="two of epochs, steps and expected_batch_size"):
            suggest_plan(
                budget=budget(), num_examples=50, epochs=2, steps=3, expected_batch_size=10
            )

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"num_examples": 0}, "num_examples"),
            ({"epochs": 0}, "epochs"),
            ({"epochs": math.nan}, "epochs"),
            ({"steps": 1.5}, "steps"),
            ({"expected_batch_size": 1000}, "expected_batch_size"),
            ({"budget": 3.0}, "budget"),
        ],
    )
    def test_bad_values_are_rejected(self, settings, message):
        with pytest.raises((TypeError, ValueError), match=f"Expected {message}"):
            suggest_plan(**{"budget": budget(), "num_examples": 50, **settings})


class TestCommand:
    FLAGS = ("--suggest", "--num_examples=60000", "--epsilon=3", "--delta=1e-5")

    def test_prints_a_line_for_each(self, capsys):
        assert main(self.FLAGS) == 0
        lines = capsys.readouterr().out.splitlines()
        plan = suggest_plan(budget=budget(), num_examples=60_000).plan
        assert lines[0].startswith(f"expected_batch_size = {plan.expected_batch_size}: ")
        assert lines[3].startswith(f"noise_multiplier = {plan.noise_multiplier}: ")

    def test_json_holds_values_and_reasons(self, capsys):
        main([*self.FLAGS, "--steps=50", "--json"])
        values = json.loads(capsys.readouterr().out)
        assert values["steps"] == 50 and values["reasons"]["steps"] == "as given"

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (("--suggest", "--num_examples=60", "--delta=1e-5"), "needs --epsilon"),
            (("--suggest", "--epsilon=1", "--delta=1e-5"), "and --num_examples"),
            ((*FLAGS, "--accountant=rdp"), "--accountant cannot be given"),
        ],
    )
    def test_rejects(self, flags, message, capsys):
        with pytest.raises(SystemExit):
            main(flags)
        assert message in capsys.readouterr().err
