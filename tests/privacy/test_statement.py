"""The statement says what holds, and where nothing holds says that first."""

import hashlib
import inspect
import math
import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.each import each
from tests.statements import headings, section, summary
from tfdpnorm.privacy import (
    Declaration,
    PrivacyLedger,
    caveats,
    create_ledger,
    epsilons,
    make_plan,
    privacy_statement,
    profiles,
    read_ledger,
)
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.entries import ANSWERS, Finish, Query, Resume, Search, Updates
from tfdpnorm.privacy.figures import Figures
from tfdpnorm.privacy.floating_point import floating_point_loss
from tfdpnorm.privacy.rounding import ceil_float, ceil_text, delta_text
from tfdpnorm.privacy.search import SearchPlan
from tfdpnorm.privacy.statement_as_json import statement_json

SETTINGS = {
    "num_examples": 60_000,
    "expected_batch_size": 600,
    "steps": 4000,
    "l2_norm_clip": 1.25,
    "noise_multiplier": 2.684,
    "delta": 1e-5,
}
TRIAL = (0.01, SETTINGS["noise_multiplier"], SETTINGS["steps"])
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
        "Attacker: sees the weights after every update",
        "preprocessing, a vocabulary, sample weights",
        "the duration of training",
        "q = 0.01 (600 of 60000 examples expected)",
        "Poisson",
        "T = 4000 made, of 4000 planned",
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
        "noise key",
        "sampled batches",
        "- The vocabulary was built from the data.",
    ):
        assert part in text, part
    assert "NO GUARANTEE" not in text and "claimed" not in text and "Weak" not in text
    assert "whole plan" not in text
    assert headings(text) == HEADINGS and len(summary(text)) == 10


@each(
    "recorded, first, relied_on",
    [
        (
            [],
            "Unconfirmed: that the settings",
            "(not declared by the data holder); and",
        ),
        (
            [Declaration("Jane Doe")],
            "Unconfirmed: that the settings",
            "(not declared by the data holder)",
        ),
        (
            [Declaration(search="two runs before, on the same images")],
            "Unconfirmed: that the settings",
            "(not declared by the data holder)",
        ),
        (
            [Declaration(search="two runs before", settings_used_private_data=True)],
            "Settings were chosen using the private data, and epsilon does",
            "settings that are public: that they were chosen using the private data is not cov",
        ),
        (
            [Declaration(settings_used_private_data=False)],
            "the conditions below.",
            "were not chosen using the private data (as declared); and",
        ),
    ],
)
def test_it_says_whether_anybody_answers_for_the_settings(recorded, first, relied_on):
    ledger = ledger_of(4000)
    for entry in recorded:
        ledger.record(entry)
    lines = summary(privacy_statement(ledger))
    assert first in lines[0] and relied_on in lines[6]
    assert ("Unconfirmed" in lines[0]) == ("not declared" in lines[6])
    assert ("Settings were chosen" in lines[0]) == ("is not covered" in lines[6])


@each(
    "changes, whom",
    [
        ({}, "for any one example, not one person, on the conditions below."),
        (
            {"most_per_person": 4},
            "for any one person with all their rows, on the conditions below.",
        ),
    ],
)
def test_the_first_line_says_for_whom(changes, whom):
    assert whom in summary(privacy_statement(ledger_of(4000, **changes)))[0]


@each(
    "delta, words",
    [
        (1e-5, "at most 1 in 100,000. An"),
        (3e-6, "at most 1 in 333,333. An"),
        (1e-6, "at most 1 in 1,000,000. An"),
    ],
)
def test_delta_is_said_as_a_number_of_cases(delta, words):
    assert words in summary(privacy_statement(ledger_of(4000, delta=delta)))[1]


def test_a_ledger_that_is_no_file_is_not_named_for_publication(tmp_path):
    in_memory = summary(privacy_statement(ledger_of(4000)))
    assert "this statement. This is not a legal permission" in in_memory[3]
    ledger = create_ledger(tmp_path / "ledger.jsonl", make_plan(**SETTINGS))
    ledger.record(Updates(10))
    assert "this statement, and the ledger. This" in summary(privacy_statement(ledger))[3]


HEADINGS = [
    "Guarantee",
    "Unit and neighbouring relation",
    "Released",
    "Threat model and assumptions",
    "Mechanism and settings",
    "Accounting",
    "Not covered",
    "Numerical safety",
    "Provenance",
]


def test_the_summary_in_ten_lines():
    ledger = ledger_of(4000)
    figures, lines = Figures(ledger), summary(privacy_statement(ledger, "ab" * 32))
    assert [line.partition(":")[0] for line in lines[1:]] == [
        "What it means",
        "Who is protected",
        "What may be published",
        "What must stay secret, or be deleted",
        "What was counted",
        "What it relies on",
        "How to check it",
        "What it is about",
        "Responsible person",
    ]
    percent = [float(x) / 100 for x in re.findall(r"at most ([\d.]+) %", lines[1])]
    exact = (figures.certainty, *figures.true_positive_rates.values())
    assert all(e <= p <= 1.01 * e for e, p in zip(exact, percent, strict=True))
    odds = float(re.search(r"a factor of at most ([\d.]+)\. ", lines[1])[1])
    assert figures.odds <= odds <= 1.01 * figures.odds
    assert math.exp(figures.epsilon) < figures.odds < 1.5 * math.exp(figures.epsilon)
    mu = float(re.search(r"mu = ([\d.]+)\.$", lines[1])[1])
    assert figures.mu <= mu <= 1.01 * figures.mu
    assert ledger.run_id in lines[8] and "ab" * 32 in lines[8]
    assert lines[9] == "Responsible person: not given. Contact: not given."


def test_figures_for_attackers_include_what_is_added_to_delta():
    ledger = ledger_of(4000)
    plain = profiles.true_positive_rate(epsilons.profile(ledger.state), 0.001)
    assert Figures(ledger).true_positive_rates[0.001] >= plain + 0.9e-8


def test_declarations_of_the_data_holder_are_stated():
    ledger = ledger_of(10)
    ledger.record(Declaration("Jane  Doe\n", "jane@example.org", "the best of 20 runs"))
    lines = summary(privacy_statement(ledger))
    assert lines[-1] == "Responsible person: Jane Doe. Contact: jane@example.org."
    assert 'the data holder states: "the best of 20 runs"' in lines[5]
    ledger.record(Declaration("Joe"))
    lines = summary(privacy_statement(ledger))
    assert lines[-1] == "Responsible person: Joe. Contact: not given."
    assert 'the data holder states: "the best of 20 runs")' in lines[5]


def test_what_was_declared_of_the_settings_cannot_be_withdrawn():
    ledger = ledger_of(10)
    ledger.record(Declaration(search="the best of 20 runs", settings_used_private_data=True))
    ledger.record(Declaration(search="none", settings_used_private_data=False))
    lines = summary(privacy_statement(ledger))
    assert "Settings were chosen using the private data" in lines[0]
    assert 'the data holder states: "the best of 20 runs; later: none")' in lines[5]
    assert statement_json(ledger)["settings_used_private_data"] is True
    ledger.record(Declaration(search="none"))
    assert summary(privacy_statement(ledger))[5] == lines[5]


@each("fields", [{"responsible": ""}, {"contact": 3}, {"search": "  "}])
def test_a_blank_declaration(fields):
    with pytest.raises(ValueError, match=f"Expected {next(iter(fields))} to be a string"):
        Declaration(**fields)


@each("answer", ["no", 0, 1])
@each("question", ANSWERS)
def test_an_answer_that_is_no_boolean(question, answer):
    with pytest.raises(ValueError, match=f"{question} to be True, False or None"):
        Declaration(**{question: answer})


def test_that_private_data_trained_the_weights_cannot_be_withdrawn():
    ledger = ledger_of(10)
    for used in (True, False):
        ledger.record(Declaration(initial_weights_used_private_data=used))
    assert statement_json(ledger)["initial_weights_used_private_data"] is True
    assert "Private data trained the initial weights" in summary(privacy_statement(ledger))[0]


def test_the_ledger_is_named_by_its_digest(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger = create_ledger(path, make_plan(**SETTINGS))
    ledger.record(Updates(3))
    ledger.record(Declaration("Jane"))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    said = summary(privacy_statement(ledger))[7]
    assert "--ledger=ledger.jsonl " in said and f"first 3 lines have the SHA-256 {digest}. " in said
    assert said.endswith(
        "compare this number of lines and the SHA-256 with the statement that the run itself gave."
    )
    assert str(tmp_path) not in said
    assert privacy_statement(read_ledger(path)) == privacy_statement(ledger)
    ledger.close()
    more = ledger.with_caveats([caveat("foreign_weights", sentence="Loaded.")])
    assert summary(privacy_statement(more))[8] == said
    with open(path, "ab") as file:
        file.write(b'{"line":4,"ki')
    assert summary(privacy_statement(read_ledger(path)))[7] == said
    assert "in memory only" in summary(privacy_statement(ledger_of(3)))[7]


@pytest.fixture(scope="module")
def examples():
    """Statements of every kind of run."""
    with_answers, with_search, without = ledger_of(40), ledger_of(0), ledger_of(40)
    by_person = ledger_of(40, most_per_person=3)
    with_answers.record(Query("accuracy", 20.0, 500, queries_planned=4))
    with_search.record(Search(SearchPlan(20, 1.0, (TRIAL,))))
    without.record(caveat("no_guarantee", sentence="a reason"))
    ledgers = {
        "plain": ledger_of(4000),
        "nothing": ledger_of(0),
        "exact": with_settings(most_rows_per_person=2),
        "statistics": ledger_of(9, statistics_queries=2, statistics_budget_share=0.1),
        "resumed": resumed(),
        "answers": with_answers,
        "search": with_search,
        "no guarantee": without,
        "persons": by_person,
    }
    return {name: privacy_statement(ledger) for name, ledger in ledgers.items()}


@each(
    "codes, verified",
    [
        ({}, False),
        ({"verified_from_graph": {"rows": 8}}, True),
        ({"computed_per_example": {"engine": "per_example"}}, True),
        ({"randomized_check_only": {"why": "a layer"}}, False),
        (
            {"verified_from_graph": {"rows": 8}, "randomized_check_only": {"why": "another layer"}},
            False,
        ),
    ],
)
def test_independence_is_verified_where_nothing_was_only_tried(codes, verified):
    ledger = ledger_of(40)
    for code, fields in codes.items():
        ledger.record(caveat(code, **fields))
    (line,) = [x for x in summary(privacy_statement(ledger)) if x.startswith("What it relies on")]
    assert ("(verified);" in line) == verified
    assert ("(not fully verified);" in line) != verified


def test_the_computation_of_given_features_is_not_verified():
    ledger = ledger_of(40)
    for known in (caveat("verified_from_graph", rows=8), caveat("given_features")):
        ledger.record(known)
    text = privacy_statement(ledger)
    (line,) = [x for x in summary(text) if x.startswith("What it relies on")]
    assert "(verified, but for the computation of the features);" in line
    assert "The computation of the features. It is assumed" in text.split("\nNot covered\n")[1]


def test_statements_do_not_refer_to_files_of_the_code(examples):
    for text in examples.values():
        assert "docs/" not in text and ".md" not in text and ".py" not in text
    assert "docs/" not in inspect.getsource(caveats)


def test_not_covered_has_only_what_is_not_covered(examples):
    """What holds is elsewhere: the grid, the generator, secrets, what is presumed."""
    for name, text in examples.items():
        for line in section(text, "Not covered"):
            for holds in ("have the distribution", "is cryptographic", "noise key"):
                assert holds not in line, name
        assert not any("Not covered" in line for line in section(text, "Not covered"))


def with_settings(**settings):
    grid = {"noise_generator": "philox", "noise_grid": "stddev / 32", "sum_rounding": 0.01}
    ledger = PrivacyLedger(make_plan(**SETTINGS), {**grid, **settings})
    ledger.record(Updates(4000))
    return ledger


@pytest.mark.parametrize("rows", [2, 3])
def test_persons_with_several_examples(rows):
    ledger = with_settings(most_rows_per_person=rows)
    text, epsilon = privacy_statement(ledger), ledger.person_epsilon()
    said = summary(text)[2]
    assert f"up to {rows} of them, with epsilon = {ceil_text(epsilon)} (rounded up)" in said
    person = Figures(ledger, rows)
    found = float(re.search(r"identifies at most ([\d.]+) % of such persons", said)[1]) / 100
    assert person.true_positive_rates[0.01] <= found <= 1.01 * person.true_positive_rates[0.01]
    assert person.true_positive_rates[0.01] > Figures(ledger).true_positive_rates[0.01]
    second = f"Second unit: one person with up to {rows} of these examples, see Guarantee."
    assert second in section(text, "Unit and neighbouring relation")
    (line,) = [x for x in section(text, "Guarantee") if x.startswith("For a person who owns up to")]
    assert f"({ceil_text(epsilon)}, 1e-05), with at most " in line
    assert any("mixture of Gaussians" in x for x in section(text, "Accounting"))
    assert "no person owns more than" in "".join(section(text, "Threat model and assumptions"))


def test_persons_with_one_example():
    ledger = with_settings(most_rows_per_person=1)
    text, epsilon = privacy_statement(ledger), ceil_text(ledger.person_epsilon())
    assert "(a person, who owns at most one: see below)" in summary(text)[0]
    said = f"any person who owns at most one of them, with epsilon = {epsilon} (rounded up)"
    assert said in summary(text)[2]
    assert "that no person owns more than 1 example, unless" in text
    assert "1 examples" not in text and "up to 1 " not in text


def test_an_unfinished_run_has_the_whole_plan_for_persons_too():
    ledger = PrivacyLedger(make_plan(**SETTINGS), {"most_rows_per_person": 2})
    ledger.record(Updates(1000))
    whole = ceil_text(ledger.person_epsilon(whole_plan=True))
    assert f"(rounded up), for a person {whole}." in privacy_statement(ledger)


def test_persons_without_protection_or_known_epsilon():
    many = with_settings(most_rows_per_person=400)
    assert "A person who owns 400 of them is not protected." in summary(privacy_statement(many))[2]
    ledger = PrivacyLedger(make_plan(**SETTINGS), {"most_rows_per_person": 3})
    ledger.record(Search(SearchPlan(2, None, (TRIAL,), score_noise_multiplier=9.0)))
    ledger.record(Updates(5))
    text = privacy_statement(ledger)
    assert "Epsilon for persons is not available for searches" in summary(text)[2]
    assert any("not available for searches" in line for line in section(text, "Accounting"))


def test_persons_who_are_sampled():
    text = privacy_statement(ledger_of(4000, most_per_person=4))
    one = "one person with any number of rows"
    (protected,) = [x for x in summary(text) if x.startswith("Who is protected: ")]
    assert protected == (
        "Who is protected: any one of 60000 persons, with any number of rows (training examples) "
        "each, persons as identified by the data holder's ids. The number counts persons, not "
        "rows."
    )
    unit = section(text, "Unit and neighbouring relation")
    assert unit[0].startswith(f"Unit: {one}, of 60000 persons") and f"remove {one}" in unit[1]
    assert "The number of persons, the sampling rate" in unit[1]
    (sampling,) = [x for x in section(text, "Mechanism and settings") if x[:9] == "Sampling:"]
    assert "each person enters each batch independently with probability q = 0.01" in sampling
    assert "(600 of 60000 persons expected)" in sampling
    assert "the mean gradient of up to 4 of their rows, clipped once" in sampling
    for other in ("any one example", "jointly", "Persons with several", "owns"):
        assert other not in text, other


def test_an_unfinished_run_gives_the_whole_plans_epsilon_too():
    ledger = ledger_of(1000)
    text = privacy_statement(ledger)
    so_far, whole = ceil_text(ledger.epsilon()), ceil_text(ledger.plan.epsilon_after(4000))
    assert so_far != whole
    assert f"epsilon = {so_far} (rounded up)" in text
    assert f"full plan instead: {whole} (rounded up)" in text
    assert "T = 1000 made, of 4000 planned" in text


def test_before_the_first_update():
    text = privacy_statement(ledger_of(0))
    first = text.splitlines()[0]
    assert first.startswith("1. No update has been made: ") and "whole plan" not in text
    assert "If its weights were freshly initialised, epsilon = 0. The ledger does not" in first


@pytest.mark.parametrize("updates", [0, 10])
@pytest.mark.parametrize("recorded", [True, False])
def test_weights_from_elsewhere_come_right_after_the_first_line(updates, recorded):
    ledger, sentence = ledger_of(updates), "Weights of unknown provenance: loaded."
    if recorded:
        ledger.record(caveat("foreign_weights", sentence=sentence))
    else:
        before = ledger
        ledger = ledger.with_caveats([caveat("foreign_weights", sentence=sentence)])
        assert sentence not in privacy_statement(before) and ledger.run_id == before.run_id
    text = privacy_statement(ledger)
    first, second = text.splitlines()[:2]
    assert second == f"- {sentence}" and text.count(sentence) == 1
    assert first.startswith("1. Training satisfies" if updates else "1. No update has been made: ")
    assert updates or "epsilon = " not in text and "no epsilon can be stated" in first
    ledger.record(caveat("no_guarantee", sentence="a reason"))
    ledger.record(caveat("foreign_weights", sentence=sentence))
    assert f"- {sentence}" in privacy_statement(ledger)


def test_a_run_that_was_ended_says_so():
    ledger = ledger_of(10)
    assert "run has ended" not in privacy_statement(ledger)
    ledger.record(Finish())
    assert "- The run has ended: no further update is possible." in privacy_statement(ledger)


def test_full_batches_are_not_called_sampled():
    text = privacy_statement(ledger_of(10, expected_batch_size=60_000))
    assert "every example is in every batch" in text and "Poisson" not in text


@pytest.mark.filterwarnings("ignore:delta")
def test_a_large_delta_is_called_weak():
    text = privacy_statement(ledger_of(10, delta=1 / 3000))
    assert "Weak: delta is not below 1 / 60000" in text
    first = summary(text)[0]
    assert "Weak: so large a delta allows publishing a whole example." in first
    assert "delta = 0.000334, for any" in first and "0.00033333" not in text


@each(
    "delta, told", [(1e-5, "1e-05"), (1 / 3000, "0.000334"), (0.1, "0.1"), (1.001e-7, "1.01e-07")]
)
def test_deltas_are_rounded_upwards(delta, told):
    assert delta_text(delta) == told and float(told) >= delta


def test_updates_charged_but_not_made():
    ledger = ledger_of(40)
    assert "What was counted: 40 updates of the weights. What" in privacy_statement(ledger)
    ledger.record(caveat("held_to_plan", sentence="A callback decided"))
    text = privacy_statement(ledger)
    assert "What was counted: 4000 updates of the weights charged, 40 of them made. What" in text
    assert "T = 40 made, of 4000 planned" in text


def test_the_epsilon_of_more_updates_than_were_made():
    said = "the epsilon stated is that of slightly more updates than were made"
    assert said in privacy_statement(ledger_of(40, accountant="pld"))
    assert said not in privacy_statement(ledger_of(4000, accountant="pld"))


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
    assert "T = 11 spent, of 4000 planned; the present weights are the result of 9." in text
    assert (
        "resumed once; 2 updates were lost and are charged to the budget. Each resumption drew new"
        in text
    )
    assert f"epsilon = {ceil_text(ledger.plan.epsilon_after(11))} (rounded up)" in text
    ledger.record(Resume(9))
    text = privacy_statement(ledger)
    assert "T = 11 spent" in text and "resumed 2 times; 2 updates were lost" in text


def test_a_resumed_run_that_lost_nothing():
    ledger = PrivacyLedger(make_plan(**SETTINGS))
    ledger.record(Updates(10))
    ledger.record(Resume(10))
    text = privacy_statement(ledger)
    assert "T = 10 made, of 4000 planned." in text and "once; 0 updates were lost" in text


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
        f"(3 so far) and every choice based on the answers, with epsilon = {second} (rounded"
        in text
    )
    assert "assumes that no validation example is a training example" in text
    assert "anything other than the noisy answers" in text and "does not protect" not in text


ADDED = re.compile(r"To this delta, at most (\S+) is added: (.*)\.")
OF_SLOTS = re.compile(r"(\S+) for batches that do not fit into their slots")
OF_NOISE = re.compile(r"(\S+) for noise rounded to a grid")


@pytest.mark.parametrize("grid", ["stddev / 32", None])
@pytest.mark.parametrize("engine", ["book_keeping", "tfp_model"])
def test_batches_that_do_not_fit_add_to_delta(grid, engine):
    """A thousandth of delta a run, and what the noise adds only where it lies on a grid."""
    settings = {"engine": engine, "noise_grid": grid}
    ledger = PrivacyLedger(make_plan(**SETTINGS), settings)
    ledger.record(Updates(2))
    (total, parts) = ADDED.search(privacy_statement(ledger)).groups()
    assert float(OF_SLOTS.search(parts)[1]) == pytest.approx(1e-8, rel=1e-3)
    of_noise = OF_NOISE.search(parts)
    assert (of_noise is not None) == (grid is not None)
    expected = 1e-8 + (float(of_noise[1]) if of_noise else 0.0)
    assert expected <= float(total) * (1 + 1e-9) and float(total) < 1.002 * expected


def test_a_batch_of_all_examples_always_fits():
    ledger = ledger_of(2, expected_batch_size=SETTINGS["num_examples"])
    assert "To this delta" not in privacy_statement(ledger)


@pytest.mark.parametrize("shape", [None, 1.0])
def test_all_trials_of_a_search_have_batches(shape):
    ledger = ledger_of(0)
    ledger.record(Search(SearchPlan(20, shape, (TRIAL,))))
    ledger.record(Updates(2))
    _, parts = ADDED.search(privacy_statement(ledger)).groups()
    assert float(OF_SLOTS.search(parts)[1]) == pytest.approx(20 * 1e-8, rel=1e-3)


def test_statement_names_the_epsilon_of_all_planned_answers():
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
    assert "40 answers were planned. If the answers decided when to stop, " in said
    assert f"state the epsilon of all of them instead: {epsilon} (rounded up)." in said
    ledger.record(caveat("held_to_plan", sentence="EarlyStopping looks at the answers"))
    assert "It is the epsilon of all 40 planned answers." in privacy_statement(ledger)
    assert f"based on the answers, with epsilon = {epsilon} (rounded" in privacy_statement(ledger)

    ledger, whole = ledger_of(4000), ledger_of(4000)
    said = text(queries_planned=40, disjoint=False)
    for _ in range(40):
        whole.record(Query("accuracy", noise_multiplier=20.0, examples=5000, disjoint=False))
    assert "planned for 4000 updates and 40 answers. If the decision to stop earlier" in said
    assert f"full plan instead: {ceil_text(whole.epsilon())} (rounded up)." in said
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
    assert text.startswith("1. Training satisfies") and "No update" not in text


@pytest.mark.parametrize("updates", [0, 1000, 4000])
def test_a_run_that_is_held_to_its_plan(updates):
    ledger = ledger_of(updates)
    ledger.record(caveat("held_to_plan", sentence="training stops when the noisy accuracy falls"))
    text = privacy_statement(ledger)
    assert f"epsilon = {ceil_text(ledger.plan.epsilon_after(4000))} (rounded up)" in text
    assert "full plan of 4000 updates" in text and "No update has been made" not in text
    assert "because: training stops when the noisy accuracy falls." in text
    assert "If the decision to stop" not in text


def test_the_ledgers_exclusions_are_listed_once():
    ledger = ledger_of(1)
    ledger.record(caveat("not_covered", sentence="The vocabulary was built from the data."))
    ledger.record(caveat("not_covered", sentence="The vocabulary was built from the data."))
    text = privacy_statement(ledger)
    assert text.count("The vocabulary was built") == 1
    assert "The vocabulary was built from the data." in section(text, "Not covered")
    ledger.record(caveat("no_guarantee", sentence="a reason"))
    assert "The vocabulary was built" in privacy_statement(ledger)


@pytest.mark.parametrize("generator", [None, "openssl", "philox", "another"])
def test_the_noise_generator_is_the_runs(generator):
    settings = None if generator is None else {"noise_generator": generator}
    ledger = PrivacyLedger(make_plan(**SETTINGS), settings)
    text = privacy_statement(ledger)
    weak = "The noise generator, Philox, is not cryptographic" in text
    assert weak == (generator != "openssl")
    assert ("is cryptographic: that of OpenSSL" in text) != weak
    for part in ("Floating-point effects (Mironov 2012)", "float32", "noise key"):
        assert part in text
    assert any("noise generator" in line for line in section(text, "Numerical safety"))


@pytest.mark.parametrize("grid", [None, "stddev / 32"])
def test_noise_without_a_grid_tells_sums_apart(grid):
    """Runs of older versions have no entry of that name."""
    for settings in (
        {"noise_generator": "openssl", "noise_grid": grid},
        {"noise_generator": "philox"},
    ):
        ledger = PrivacyLedger(make_plan(**SETTINGS), settings)
        ledger.record(Updates(2))
        exact = settings.get("noise_grid") is not None
        text = privacy_statement(ledger)
        assert ("can tell from the bits of the release" in text) != exact
        assert ("have the distribution that the accountant assumes" in text) == exact
        more, _ = floating_point_loss(1e11, ledger.epsilon(), ledger.plan.delta)
        assert (f"add at most {ceil_text(more)} to epsilon" in text) == exact


@pytest.mark.parametrize("rounding", [None, 0.01234])
def test_rounding_of_sums_is_in_the_noise_or_not_covered(rounding):
    settings = {"noise_generator": "philox", "noise_grid": "stddev / 32", "sum_rounding": rounding}
    ledger = PrivacyLedger(make_plan(**SETTINGS), settings)
    ledger.record(Updates(2))
    text = privacy_statement(ledger)
    paid = rounding is not None
    settled, excluded, safe = (
        " ".join(section(text, heading))
        for heading in ("Mechanism and settings", "Not covered", "Numerical safety")
    )
    assert ("the standard deviation of the noise is z C (1 + 0.013)" in settled) == paid
    assert ("For this engine no bound is known" in excluded) != paid
    assert ("round each operation according to IEEE 754" in safe) == paid


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


_ELSEWHERE = "Unconfirmed: where the weights come from"


@each(
    "known",
    [
        caveat("weights_replaced", position=3, interventions=1),
        caveat("trained_before", steps=5),
        caveat("loaded_before_built"),
    ],
)
def test_weights_from_elsewhere_are_named_where_the_guarantee_is(known):
    ledger = ledger_of(10)
    ledger.record(known)
    lines = summary(privacy_statement(ledger))
    assert f"{_ELSEWHERE} (see the next line)." in lines[0] and lines[1].startswith("- Weights of")
    assert "without noise, NO guarantee holds for this model" in lines[1]
    assert lines[4].startswith("What may be published: ")
    assert f"{_ELSEWHERE} (see line 1)." in lines[4]


def test_training_without_noise_may_have_replaced_the_weights():
    said = caveat("weights_replaced", position=3, interventions=1).sentence
    assert "or by training without noise. If that used private data without noise, NO guar" in said
    ledger = ledger_of(0)
    ledger.record(caveat("weights_replaced", position=0, interventions=1))
    first = summary(privacy_statement(ledger))[0]
    assert "this run's own updates have used no private data." in first and "so far" not in first


def test_weights_of_a_private_run_are_not_unknown():
    assert "Unconfirmed: where" not in privacy_statement(ledger_of(10))
    fields = dict(run="ab", file=None, updates=3, unit="row", num_examples=9, delta=1e-5)
    fields |= dict(whole_plan_epsilon=None, validation_epsilon=0.0, reasons="", not_covered="")
    for epsilon, said in ((1.0, "Not included: what another run spent"), (None, _ELSEWHERE)):
        ledger = ledger_of(10)
        ledger.record(caveat("private_run", **fields, epsilon=epsilon))
        assert said in summary(privacy_statement(ledger))[0]


def test_a_test_accuracy_is_not_covered():
    assert "such as a test accuracy: they are exact" in privacy_statement(ledger_of(4000))
