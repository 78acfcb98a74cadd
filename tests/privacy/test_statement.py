"""The statement says what holds, and where nothing holds says that first."""

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfdpnorm.privacy import PrivacyLedger, make_plan, privacy_statement
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.entries import Finish, Query, Resume, Search, Updates
from tfdpnorm.privacy.floating_point import floating_point_loss
from tfdpnorm.privacy.rounding import ceil_float, ceil_text
from tfdpnorm.privacy.search import SearchPlan

SETTINGS = {
    "num_examples": 60_000,
    "expected_batch_size": 600,
    "steps": 4000,
    "l2_norm_clip": 1.25,
    "noise_multiplier": 2.684,
    "delta": 1e-5,
}
CLAIM = re.compile(r"epsilon[^.]*?(\d+\.\d+)")


def ledger_of(updates, **changes):
    ledger = PrivacyLedger(make_plan(**{**SETTINGS, **changes}))
    if updates:
        ledger.record(Updates(updates))
    return ledger


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_a_finished_run(accountant):
    ledger = ledger_of(4000, accountant=accountant)
    ledger.record(caveat("not_covered", sentence="The vocabulary was built from the data."))
    text = privacy_statement(ledger)
    printed = float(re.search(r"epsilon = ([\d.]+) \(rounded up\)", text)[1])
    assert ledger.epsilon() <= printed <= 1.001 * ledger.epsilon()
    for part in (
        "delta = 1e-05",
        "60000 private training examples",
        "one person owns several",
        "add or remove one example (add_or_remove_one)",
        "sampling rate, the expected batch size",
        "are public constants",
        "Against whom: anybody who sees the weights after every update",
        "preprocessing, a vocabulary, sample weights",
        "how long training takes",
        "q = 0.01 (600 of 60000 examples expected)",
        "Poisson",
        "T = 4000 done of 4000 planned",
        "z = 2.684",
        "C = 1.25",
        accountant.upper(),
        "weights",
        "every function of them",
        "Not covered",
        "Hyperparameter search",
        "training loss",
        "rivate validation data",
        "Mironov 2012",
        "cryptographic",
        "key of the noise",
        "sampled lots",
        "- The vocabulary was built from the data.",
    ):
        assert part in text, part
    assert "NO GUARANTEE" not in text and "claimed" not in text and "Weak" not in text
    assert "whole plan" not in text


def test_an_unfinished_run_gives_the_whole_plans_epsilon_too():
    ledger = ledger_of(1000)
    text = privacy_statement(ledger)
    so_far, whole = ceil_text(ledger.epsilon()), ceil_text(ledger.plan.epsilon_after(4000))
    assert so_far != whole
    assert f"epsilon = {so_far} (rounded up)" in text
    assert f"whole plan instead: {whole} (rounded up)" in text
    assert "T = 1000 done of 4000 planned" in text


def test_before_the_first_update():
    text = privacy_statement(ledger_of(0))
    first = text.splitlines()[0]
    assert first.startswith("No update has been made: ") and "whole plan" not in text
    assert "If its weights were freshly initialised, epsilon = 0; what any others" in first


@pytest.mark.parametrize("updates", [0, 10])
@pytest.mark.parametrize("recorded", [True, False])
def test_weights_from_elsewhere_come_right_after_the_first_line(updates, recorded):
    ledger, sentence = ledger_of(updates), "Weights that come from elsewhere: loaded."
    if recorded:
        ledger.record(caveat("foreign_weights", sentence=sentence))
    else:
        before = ledger
        ledger = ledger.with_caveats([caveat("foreign_weights", sentence=sentence)])
        assert sentence not in privacy_statement(before) and ledger.run_id == before.run_id
    text = privacy_statement(ledger)
    first, second = text.splitlines()[:2]
    assert second == f"- {sentence}" and text.count(sentence) == 1
    assert first.startswith("Training satisfies" if updates else "No update has been made: ")
    assert updates or "epsilon = " not in text and "no epsilon can be stated" in first
    ledger.record(caveat("no_guarantee", sentence="a reason"))
    ledger.record(caveat("foreign_weights", sentence=sentence))
    assert f"- {sentence}" in privacy_statement(ledger)


def test_a_run_that_was_ended_says_so():
    ledger = ledger_of(10)
    assert "was ended" not in privacy_statement(ledger)
    ledger.record(Finish())
    assert "- The run was ended: no further update can be made." in privacy_statement(ledger)


def test_full_batches_are_not_called_sampled():
    text = privacy_statement(ledger_of(10, expected_batch_size=60_000))
    assert "every example is in every lot" in text and "Poisson" not in text


@pytest.mark.filterwarnings("ignore:delta")
def test_a_large_delta_is_called_weak():
    text = privacy_statement(ledger_of(10, delta=1e-3))
    assert "Weak: delta is not below 1 / 60000" in text


@pytest.mark.parametrize("when", ["plan", "run", "noise", "sampling"])
def test_without_a_guarantee_it_says_so(when):
    ledger = ledger_of(
        4000,
        no_guarantee_because=("lot statistics mix examples",) if when == "plan" else (),
        noise_multiplier=0 if when == "noise" else 2.684,
        sampling="shuffled" if when == "sampling" else "poisson",
    )
    if when == "run":
        ledger.record(
            caveat("no_guarantee", sentence="lots were not Poisson sampled by this library")
        )
    ledger.record(caveat("not_covered", sentence="one more thing"))
    text = privacy_statement(ledger)
    assert text.startswith("NO GUARANTEE")
    assert all(f"- {reason}\n" in text for reason in ledger.state.sentences("no_guarantee"))
    assert "- one more thing" in text
    assert "satisfies" not in text and "rounded up" not in text
    lines = [line for line in text.splitlines() if CLAIM.search(line)]
    if when == "noise":
        assert lines == [] and "claimed" not in text
    else:
        assert len(lines) == 1
        assert re.search(r"claimed epsilon = [\d.]+ at delta = 1e-05 \(not a guarantee\)", lines[0])
        assert float(CLAIM.search(lines[0])[1]) == float(ceil_text(ledger.claimed_epsilon()))


def resumed():
    ledger = PrivacyLedger(make_plan(**SETTINGS))
    ledger.record(Updates(10))
    ledger.record(Resume(8))
    ledger.record(Updates())
    return ledger


def test_a_resumed_run():
    ledger = resumed()
    text = privacy_statement(ledger)
    assert "T = 11 spent, of 4000 planned; the present weights have seen 9." in text
    assert "resumed once; 2 updates were lost and are charged. Each resumption drew new" in text
    assert f"epsilon = {ceil_text(ledger.plan.epsilon_after(11))} (rounded up)" in text
    ledger.record(Resume(9))
    text = privacy_statement(ledger)
    assert "T = 11 spent" in text and "resumed 2 times; 2 updates were lost" in text


def test_a_resumed_run_that_lost_nothing():
    ledger = PrivacyLedger(make_plan(**SETTINGS))
    ledger.record(Updates(10))
    ledger.record(Resume(10))
    text = privacy_statement(ledger)
    assert "T = 10 done of 4000 planned." in text and "once; 0 updates were lost" in text


@pytest.mark.parametrize("noise", [15.0, 20.0, 25.0, 30.0, 35.0])
def test_the_validation_examples_epsilon_is_rounded_up(noise):
    ledger = ledger_of(4000)
    ledger.record(Query("accuracy", noise_multiplier=noise, examples=5000))
    printed = re.search(r"answers, with epsilon = ([\d.]+) \(", privacy_statement(ledger))[1]
    assert ledger.validation_epsilon() <= float(printed) <= 1.001 * ledger.validation_epsilon()


def test_validation_examples_have_a_guarantee_of_their_own():
    ledger = ledger_of(4000)
    trained = ceil_text(ledger.epsilon())
    for _ in range(3):
        ledger.record(Query("accuracy", noise_multiplier=20.0, examples=5000))
    text = privacy_statement(ledger)
    second = ceil_text(ledger.validation_epsilon())
    assert second != trained
    assert f"epsilon = {trained} (rounded up) and delta" in text
    assert (
        f"(3 so far) and whatever was chosen by the answers, with epsilon = {second} (rounded"
        in text
    )
    assert "assumes that no validation example is a training example" in text
    assert "anything but the noisy answers" in text and "does not protect" not in text


ADDED = re.compile(r"To this delta, at most (\S+) is added: (.*)\.")
OF_SLOTS = re.compile(r"(\S+) for batches that do not fit into their slots")
OF_NOISE = re.compile(r"(\S+) for noise rounded to a grid")


@pytest.mark.parametrize("generator", ["philox", "shake256", "fast", None])
@pytest.mark.parametrize("engine", ["book_keeping", "tfp_model"])
def test_batches_that_do_not_fit_are_added_to_delta_whatever_draws_the_noise(generator, engine):
    """A thousandth of delta a run, and what the noise adds only where it lies on a grid."""
    settings = {"engine": engine}
    if generator is not None:
        settings |= {"noise_generator": generator}
        settings |= {"noise_grid": None if generator == "fast" else "stddev / 32"}
    ledger = PrivacyLedger(make_plan(**SETTINGS), settings)
    ledger.record(Updates(2))
    settled, _ = privacy_statement(ledger).split("Settings, as planned:")
    (total, parts) = ADDED.search(settled).groups()
    assert float(OF_SLOTS.search(parts)[1]) == pytest.approx(1e-8, rel=1e-3)
    of_noise = OF_NOISE.search(parts)
    assert (of_noise is not None) == (settings.get("noise_grid") is not None)
    expected = 1e-8 + (float(of_noise[1]) if of_noise else 0.0)
    assert expected <= float(total) * (1 + 1e-9) and float(total) < 1.002 * expected


def test_a_batch_of_all_examples_always_fits():
    ledger = ledger_of(2, expected_batch_size=SETTINGS["num_examples"])
    assert "To this delta" not in privacy_statement(ledger)


@pytest.mark.parametrize("shape", [None, 1.0])
def test_all_trials_of_a_search_have_batches(shape):
    ledger = ledger_of(0)
    trial = (0.01, SETTINGS["noise_multiplier"], SETTINGS["steps"])
    ledger.record(Search(SearchPlan(20, shape, (trial,))))
    ledger.record(Updates(2))
    _, parts = ADDED.search(privacy_statement(ledger)).groups()
    assert float(OF_SLOTS.search(parts)[1]) == pytest.approx(20 * 1e-8, rel=1e-3)


def test_answers_that_may_have_decided_when_to_stop_are_those_of_the_plan():
    def text(**settings):
        for _ in range(3):
            query = dict(noise_multiplier=20.0, examples=5000, **settings)
            ledger.record(Query("accuracy", **query))
        return privacy_statement(ledger)

    ledger, whole = ledger_of(4000), ledger_of(4000)
    assert "that number was not fixed before" in text() and "decided when to stop" not in text()
    ledger = ledger_of(4000)
    said = text(queries_planned=40)
    for _ in range(40):
        whole.record(Query("accuracy", noise_multiplier=20.0, examples=5000))
    epsilon = ceil_text(whole.validation_epsilon())
    assert "40 answers were planned. If the answers decided when to stop asking, " in said
    assert f"state the epsilon of all of them instead: {epsilon} (rounded up)." in said
    ledger.record(caveat("held_to_plan", sentence="EarlyStopping looks at the answers"))
    assert "It is the epsilon of all 40 answers that were planned." in privacy_statement(ledger)
    assert f"by the answers, with epsilon = {epsilon} (rounded" in privacy_statement(ledger)

    ledger, whole = ledger_of(4000), ledger_of(4000)
    said = text(queries_planned=40, disjoint=False)
    for _ in range(40):
        whole.record(Query("accuracy", noise_multiplier=20.0, examples=5000, disjoint=False))
    assert "planned for 4000 updates and 40 answers. If the decision to stop earlier" in said
    assert f"whole plan instead: {ceil_text(whole.epsilon())} (rounded up)." in said
    assert ledger.epsilon() < whole.epsilon()


def test_answers_about_training_examples_are_included():
    ledger = ledger_of(4000)
    ledger.record(Query("accuracy", noise_multiplier=20.0, examples=500, disjoint=False))
    text = privacy_statement(ledger)
    assert "Includes: the noisy answers (1 so far)" in text and "Validation:" not in text
    assert f"epsilon = {ceil_text(ledger.epsilon())} (rounded up)" in text
    assert ledger.epsilon() > ledger_of(4000).epsilon()


def test_only_answers_before_the_first_update():
    ledger = ledger_of(0)
    ledger.record(Query("accuracy", noise_multiplier=1.0, examples=500, disjoint=False))
    text = privacy_statement(ledger)
    assert text.startswith("Training satisfies") and "No update" not in text


@pytest.mark.parametrize("updates", [0, 1000, 4000])
def test_a_run_that_is_held_to_its_plan(updates):
    ledger = ledger_of(updates)
    ledger.record(caveat("held_to_plan", sentence="training stops when the noisy accuracy falls"))
    text = privacy_statement(ledger)
    assert f"epsilon = {ceil_text(ledger.plan.epsilon_after(4000))} (rounded up)" in text
    assert "whole plan of 4000 updates" in text and "No update has been made" not in text
    assert "because: training stops when the noisy accuracy falls." in text
    assert "If the decision to stop" not in text


def test_the_ledgers_exclusions_are_listed_once():
    ledger = ledger_of(1)
    ledger.record(caveat("not_covered", sentence="The vocabulary was built from the data."))
    ledger.record(caveat("not_covered", sentence="The vocabulary was built from the data."))
    text = privacy_statement(ledger)
    assert text.count("The vocabulary was built") == 1
    assert text.index("Not covered by this guarantee") < text.index("The vocabulary")
    ledger.record(caveat("no_guarantee", sentence="a reason"))
    assert "The vocabulary was built" in privacy_statement(ledger)


@pytest.mark.parametrize("generator", [None, "philox", "shake256", "another"])
def test_the_noise_generator_is_the_runs(generator):
    settings = None if generator is None else {"noise_generator": generator}
    ledger = PrivacyLedger(make_plan(**SETTINGS), settings)
    text = privacy_statement(ledger)
    weak = "The noise generator, Philox, is not a cryptographic one" in text
    assert weak == (generator != "shake256")
    assert ("is a cryptographic one (SHAKE256" in text) != weak
    for part in ("Floating-point effects (Mironov 2012)", "float32", "key of the noise"):
        assert part in text


@pytest.mark.parametrize("grid", [None, "stddev / 32"])
def test_noise_without_a_grid_tells_sums_apart(grid):
    """Runs of older versions have no entry of that name."""
    for settings in (
        {"noise_generator": "fast", "noise_grid": grid},
        {"noise_generator": "philox"},
    ):
        ledger = PrivacyLedger(make_plan(**SETTINGS), settings)
        ledger.record(Updates(2))
        exact = settings.get("noise_grid") is not None
        text = privacy_statement(ledger)
        assert ("can tell from the bits of what was released" in text) != exact
        assert ("have the distribution that the accountant assumes" in text) == exact
        more, _ = floating_point_loss(1e11, ledger.epsilon(), ledger.plan.delta)
        assert (f"add at most {ceil_text(more)} to epsilon" in text) == exact


@pytest.mark.parametrize("rounding", [None, 0.01234])
def test_what_rounding_does_to_the_sums_is_paid_for_or_not_covered(rounding):
    settings = {"noise_generator": "philox", "noise_grid": "stddev / 32", "sum_rounding": rounding}
    ledger = PrivacyLedger(make_plan(**SETTINGS), settings)
    ledger.record(Updates(2))
    text = privacy_statement(ledger)
    settled, excluded = text.split("Not covered by this guarantee:")
    paid = rounding is not None
    assert ("the standard deviation of the noise is z C (1 + 0.013)" in settled) == paid
    assert ("For this engine there is no bound" in excluded) != paid
    assert ("each operation rounded as IEEE 754 says" in excluded) == paid


def test_only_a_ledger_can_be_stated():
    with pytest.raises(ValueError, match="Expected ledger to be a PrivacyLedger"):
        privacy_statement(make_plan(**SETTINGS))


@given(st.floats(1e-12, 1e12), st.integers(1, 9))
def test_rounding_is_upwards_and_close(value, digits):
    text = ceil_text(value, digits)
    exact = Decimal(value)
    assert exact <= Decimal(text) < exact * (1 + Decimal(10) ** (1 - digits))
    assert ceil_float(value, digits) >= value


def test_rounding_of_the_ends():
    assert ceil_text(0.0) == "0" and ceil_text(float("inf")) == "inf"
    assert ceil_text(0.99991) == "1.000" and ceil_text(12345.6) == "12350"


class TestPersons:
    SETTINGS = {
        "num_examples": 1000,
        "expected_batch_size": 100,
        "steps": 50,
        "l2_norm_clip": 1.0,
        "noise_multiplier": 2.0,
        "delta": 1e-5,
    }

    def trained(self, plan, settings=None):
        ledger = PrivacyLedger(plan, settings)
        ledger.record(Updates(50))
        return ledger

    def test_of_persons_it_says_whom_it_protects(self):
        plan = make_plan(**self.SETTINGS, most_per_person=4)
        text = privacy_statement(self.trained(plan))
        assert "any one person of the 1000 whose rows were trained on, with any number" in text
        assert "up to 4 of their rows, clipped once" in text
        assert "does not cover them jointly" not in text

    def test_of_rows_it_has_a_figure_for_persons(self):
        ledger = self.trained(make_plan(**self.SETTINGS), {"most_rows_per_person": 3})
        text = privacy_statement(ledger)
        figure = ceil_text(ledger.person_epsilon())
        assert f"who owns up to 3 of them, epsilon = {figure} (rounded up)" in text
        assert ledger.person_epsilon() > 1.5 * ledger.epsilon()
        assert "does not cover them jointly" not in text
