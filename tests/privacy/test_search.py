"""What a whole search costs: by the published formulas, by simulation, and in the ledger."""

import dataclasses
import math
import re

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from scipy import stats

from tfdpnorm.privacy import (
    BudgetExhaustedError,
    PrivacyBudget,
    PrivacyLedger,
    create_ledger,
    dp_sgd_event,
    make_plan,
    read_ledger,
)
from tfdpnorm.privacy.accountants import RDP_ORDERS, rdp_of, rdp_of_update, rdp_to_epsilon
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.entries import Query, Resume, Search, Trial, Updates
from tfdpnorm.privacy.search import SearchPlan, selection_rdp
from tfdpnorm.privacy.search_calibration import calibrate_search, describe_search

DELTA = 1e-5
FULL = (1.0, 6.0, 10)  # Full lots: ten Gaussian mechanisms, whose divergence has a formula.
PLAN = dict(num_examples=100, expected_batch_size=100, l2_norm_clip=1.0, delta=DELTA)
ORDERS = np.geomspace(1.01, 2000, 4000)


def divergence(order, noise=6.0, count=10):
    """Of Gaussian mechanisms, alpha / (2 sigma^2) each (Mironov 2017)."""
    return count * order / (2 * noise**2)


def converted(rdp, orders=ORDERS, delta=DELTA):
    """Epsilon of Renyi bounds (Canonne, Kamath and Steinke 2020, Proposition 12)."""
    return np.min(rdp + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1))


def test_a_geometric_number_of_trials_by_the_theorem():
    """Papernot and Steinke (2022), Theorem 2: eta = 1, gamma = 1 / E[K]."""
    mean, eta = 8.0, 1.0
    gamma = 1 / mean
    hats = np.geomspace(1.01, 5000, 20_000)
    at_hat = (1 + eta) * np.min((1 - 1 / hats) * divergence(hats) - np.log(gamma) / hats)
    by_hand = converted(divergence(ORDERS) + at_hat + math.log(mean) / (ORDERS - 1))
    found = SearchPlan(mean, eta, (FULL,)).epsilon(DELTA)
    assert by_hand * (1 - 1e-6) <= found <= 1.01 * by_hand


def test_a_poisson_number_of_trials_by_the_theorem():
    """The same, Theorem 6: delta-hat at epsilon-hat = log(1 + 1 / (order - 1)), by Renyi DP."""
    mean = 8.0
    hats = np.log1p(1 / (ORDERS - 1))
    orders = ORDERS[:, None]
    log_delta = (orders - 1) * (divergence(orders) - hats + np.log1p(-1 / orders)) - np.log(orders)
    deltas = np.minimum(1, np.exp(log_delta.min(axis=0)))
    by_hand = converted(divergence(ORDERS) + mean * deltas + math.log(mean) / (ORDERS - 1))
    found = SearchPlan(mean, math.inf, (FULL,)).epsilon(DELTA)
    assert by_hand * (1 - 1e-6) <= found <= 1.03 * by_hand


@pytest.mark.parametrize("shape", [1.0, math.inf])
@pytest.mark.parametrize("mean", [1.0, 9.0])
def test_the_number_of_trials(shape, mean):
    """Its cost is that of dp_accounting, and its draws have its distribution."""
    event = dp_sgd_event(0.01, 1.1, 1000)
    accountant = RdpAccountant(orders=RDP_ORDERS)
    expected = accountant.compose(dp_accounting.dp_event.RepeatAndSelectDpEvent(event, mean, shape))
    found = rdp_to_epsilon(selection_rdp(rdp_of(event), mean, shape), DELTA)
    assert found == pytest.approx(expected.get_epsilon(DELTA), rel=1e-6)
    plan, rng = SearchPlan(mean, shape, (FULL,)), np.random.default_rng(0)
    draws = np.array([plan.draw(rng) for _ in range(20_000)])
    law = stats.poisson(mean) if math.isinf(shape) else stats.geom(1 / mean)
    for number in (0, 1, 2, 9):
        p = law.pmf(number)
        assert abs((draws == number).mean() - p) <= 5 * math.sqrt(p * (1 - p) / len(draws))


def test_all_trials_composed_by_hand():
    by_hand = converted(8 * divergence(ORDERS))
    found = SearchPlan(8, None, (FULL,)).epsilon(DELTA)
    assert by_hand * (1 - 1e-6) <= found <= 1.01 * by_hand
    assert found == SearchPlan(8, math.inf, (FULL,)).composed_epsilon(DELTA)


@pytest.mark.parametrize("shape", [None, 1.0, math.inf])
def test_differing_trials_cost_the_largest_rdp_at_each_order(shape):
    many, large = (1.0, 9.0, 30), (1.0, 5.0, 8)
    alone = [SearchPlan(4, shape, (trial,)).epsilon(DELTA) for trial in (many, large)]
    both = SearchPlan(4, shape, (many, large)).epsilon(DELTA)
    assert both >= max(alone) * (1 - 1e-12)


def test_updates_of_a_trial_beyond_its_plan_count():
    plan = SearchPlan(4, math.inf, (FULL,))
    assert plan.epsilon(DELTA, [(1.0, 6.0, 10)]) == plan.epsilon(DELTA)
    assert plan.epsilon(DELTA, [(1.0, 6.0, 12)]) > plan.epsilon(DELTA)
    assert plan.epsilon(DELTA, [(1.0, 0.0, 1)]) == math.inf


def test_scores_cost_validation_examples_the_same_way():
    plan = SearchPlan(4, math.inf, (FULL,), score_noise_multiplier=5.0)
    assert plan.score_epsilon(DELTA) == SearchPlan(4, math.inf, ((1.0, 5.0, 1),)).epsilon(DELTA)
    assert dataclasses.replace(plan, score_noise_multiplier=None).score_epsilon(DELTA) == 0
    assert plan.score_epsilon(DELTA, [(1.0, 5.0, 2)]) > plan.score_epsilon(DELTA)


@pytest.mark.parametrize("rows", [1, 2])
def test_delta_has_room_for_overflows_of_all_trials(rows):
    search = SearchPlan(4, math.inf, ((0.1, 2.0, 50),))
    rdp = selection_rdp(50 * rdp_of_update(0.1, 2.0), 4, math.inf)
    assert search.epsilon(DELTA) == rdp_to_epsilon(rdp, 0.999 * DELTA)
    most = search.most_per_batch(DELTA, 100, 0.1, 50, rows)
    assert 4 * 50 * stats.binom.sf(most - rows, 100, 0.1) <= 1e-3 * DELTA
    trial = {**PLAN, "expected_batch_size": 10, "noise_multiplier": 2.0, "steps": 50}
    of_rows = make_plan(**trial, most_per_batch=most, most_per_person=rows, unit="row")
    assert search.covers(of_rows)
    # Without overflows, it would be below 1e-200.
    assert search.profile(of_rows, rows)(np.array([600.0])) == pytest.approx(1e-3 * DELTA)
    with pytest.raises(ValueError, match="most_per_person=3"):
        search.profile(of_rows, 3)
    fewer = make_plan(**trial, most_per_batch=most - 8, most_per_person=rows, unit="row")
    assert not search.covers(fewer)


def test_which_runs_a_search_covers():
    plan = SearchPlan(4, math.inf, ((0.1, 2.0, 50), (0.2, 3.0, 30)))

    def run(size, noise, steps, most=100):
        return make_plan(
            **{**PLAN, "expected_batch_size": size}, noise_multiplier=noise, steps=steps,
            most_per_batch=most,
        )  # fmt: skip

    assert plan.covers(run(10, 2.0, 50)) and plan.covers(run(10, 2.5, 20))
    assert plan.covers(run(20, 3.0, 30))
    assert not plan.covers(run(10, 1.99, 50)) and not plan.covers(run(10, 2.0, 51))
    assert not plan.covers(run(11, 2.0, 50)) and not plan.covers(run(20, 2.0, 30))
    most = plan.most_per_batch(DELTA, 100, 0.1, 50)
    assert plan.covers(run(10, 2.0, 50, most)) and not plan.covers(run(10, 2.0, 50, most - 8))
    assert plan.noise_for(0.1, 50) == plan.noise_for(0.1, 7) == 2.0
    for lot in ((0.1, 51), (0.15, 20)):
        with pytest.raises(ValueError, match="planned for"):
            plan.noise_for(*lot)


@pytest.mark.parametrize(
    "fields",
    [
        dict(expected_trials=0.5),
        dict(expected_trials=math.inf),
        dict(expected_trials=2.5, shape=None),
        dict(shape=0.5),
        dict(trials=()),
        dict(trials=((0.0, 1.0, 1),)),
        dict(trials=((0.5, -1.0, 1),)),
        dict(trials=((0.5, 1.0, 0),)),
        dict(score_noise_multiplier=0.0),
    ],
)
def test_invalid_search_plans_are_rejected(fields):
    with pytest.raises(ValueError, match="Expected|no kind of trial"):
        SearchPlan(**{"expected_trials": 4, "shape": 1.0, "trials": (FULL,), **fields})


def test_the_chance_of_no_trial_is_told():
    poisson, geometric = (SearchPlan(2, shape, (FULL,)) for shape in (math.inf, 1.0))
    budget = PrivacyBudget(8.0, 1e-5)
    assert "with probability 0.14 no trial is drawn" in describe_search(poisson, budget)
    assert "no trial" not in describe_search(geometric, budget)


# --- from a budget ---


@pytest.mark.parametrize("shape", [None, 1.0, math.inf])
@pytest.mark.parametrize("lots", [[(100, 10)], [(100, 10), (100, 40)]])
def test_the_search_costs_the_budget(shape, lots):
    budget = PrivacyBudget(3.0, DELTA)
    plan = calibrate_search(budget, num_examples=100, lots=lots, expected_trials=4, shape=shape)
    assert 0.98 * 3 <= plan.epsilon(DELTA) <= 3 and 0.98 * 3 <= plan.score_epsilon(DELTA) <= 3
    assert [(rate, updates) for rate, _, updates in plan.trials] == [(s / 100, t) for s, t in lots]
    if shape is None:  # All trials may be seen, and are paid for.
        assert plan.composed_epsilon(DELTA) == plan.epsilon(DELTA)
    else:
        assert plan.composed_epsilon(DELTA) > 3
    assert plan.trial_epsilon(DELTA) < 3
    text = describe_search(plan, budget)
    assert "no search" in text and "public" in text
    assert re.search(r"of one trial alone [\d.]+, by Renyi DP; noise", text)
    public = calibrate_search(
        budget,
        num_examples=100,
        lots=lots,
        expected_trials=4,
        shape=shape,
        score_is_private=False,
    )
    assert public == dataclasses.replace(plan, score_noise_multiplier=None)


@pytest.mark.parametrize("lots", [[], [(101, 10)], [(0, 10)]])
def test_lots_that_cannot_be(lots):
    with pytest.raises(ValueError, match="Expected batches|The search has no batches"):
        calibrate_search(PrivacyBudget(3.0, DELTA), num_examples=100, lots=lots, expected_trials=4)


def test_an_epsilon_that_no_noise_reaches():
    budget = PrivacyBudget(1e-5, DELTA)
    with pytest.raises(ValueError, match="the Renyi DP accountant") as refused:
        calibrate_search(budget, num_examples=100, lots=[(100, 10)], expected_trials=8)
    assert "pld" not in str(refused.value)


def test_a_search_without_privacy_is_none():
    with pytest.raises(ValueError, match="epsilon"):
        calibrate_search(
            PrivacyBudget(math.inf, DELTA), num_examples=9, lots=[(9, 1)], expected_trials=4
        )


# --- in the ledger and the statement ---

SEARCH = SearchPlan(8, math.inf, (FULL,), score_noise_multiplier=7.0)


def trial(search=SEARCH, **changes):
    ledger = PrivacyLedger(make_plan(**{**PLAN, "noise_multiplier": 6.0, "steps": 10, **changes}))
    ledger.record(Search(search))
    return ledger


def test_every_epsilon_of_a_trial_is_that_of_the_search():
    ledger, epsilon = trial(), SEARCH.epsilon(DELTA)
    assert ledger.epsilon() == epsilon  # before the first update: the others may have been made
    ledger.record(Updates(4))
    for found in (ledger.epsilon(), ledger.epsilon("pld"), ledger.epsilon(whole_plan=True)):
        assert found == epsilon
    assert ledger.validation_epsilon() == SEARCH.score_epsilon(DELTA)
    ledger.record(Query("score", noise_multiplier=7.0, examples=9, queries_planned=1))
    assert ledger.validation_epsilon() == SEARCH.score_epsilon(DELTA)
    ledger.record(Query("score", noise_multiplier=7.0, examples=9, queries_planned=1))
    assert ledger.validation_epsilon() > SEARCH.score_epsilon(DELTA)
    ledger.record(Query("own", noise_multiplier=9.0, examples=9, disjoint=False))
    assert ledger.epsilon() > epsilon
    ledger.record(caveat("no_guarantee", sentence="a reason"))
    assert ledger.epsilon() == ledger.validation_epsilon() == math.inf


def test_lost_updates_are_of_those_that_the_search_has_planned():
    ledger = trial()
    ledger.record(Updates(3))
    ledger.record(Resume(0))
    ledger.record(Updates(ledger.state.remaining_updates))
    assert ledger.epsilon() == SEARCH.epsilon(DELTA)
    with pytest.raises(BudgetExhaustedError):
        ledger.record(Updates())


def test_a_search_is_recorded_once_and_not_replaced():
    ledger = trial()
    ledger.record(Search(SEARCH))
    with pytest.raises(ValueError, match="Expected the search that the run belongs to"):
        ledger.record(Search(dataclasses.replace(SEARCH, expected_trials=4)))
    assert ledger.state.search == SEARCH


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(noise_multiplier=5.9), "costs at most what a trial"),
        (dict(steps=11), "costs at most what a trial"),
        (dict(accountant="pld"), 'accountant="rdp"'),
    ],
)
def test_runs_that_are_no_trials_of_it(changes, message):
    with pytest.raises(ValueError, match=message):
        trial(**changes)


def test_the_file_has_it(tmp_path):
    path = tmp_path / "ledger.jsonl"
    with pytest.raises(ValueError, match="ledger of a search"):
        PrivacyLedger(make_plan(**PLAN, noise_multiplier=6.0, steps=10)).record(Trial(0))
    for search in (SEARCH, SearchPlan(2, None, (FULL,))):
        path.unlink(missing_ok=True)
        ledger = create_ledger(path, make_plan(**PLAN, noise_multiplier=6.0, steps=10))
        ledger.record(Search(search))
        for number in (0, 1, 1, 0):
            ledger.record(Trial(number))
        read = read_ledger(path)
        assert read.state.search == search and read.state.trials == (0, 1)
        assert read.epsilon() == search.epsilon(DELTA)
        if search.is_composed:
            with pytest.raises(BudgetExhaustedError, match="at most 2 trials"):
                ledger.record(Trial(2))
        else:
            ledger.record(Trial(2))
        ledger.close()
