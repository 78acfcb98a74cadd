"""The ledger file against a plain model of its rules, over random calls and crashes.

The model keeps a list of all updates that were ever announced, and composes epsilon from one event
for each of them.
"""

import random
from collections import Counter

import pytest

from tfdpnorm.privacy import (
    BudgetExhaustedError,
    create_ledger,
    dp_sgd_event,
    make_plan,
    read_ledger,
    reopen_ledger,
)
from tfdpnorm.privacy.accountants import rdp_of, rdp_to_epsilon
from tfdpnorm.privacy.entries import Answer, Query, Resume, Updates

LONG, SHORT = (
    make_plan(
        num_examples=1000,
        expected_batch_size=50,
        steps=steps,
        l2_norm_clip=1.0,
        noise_multiplier=2.0,
        delta=1e-5,
        most_per_batch=1000,
    )
    for steps in (400, 60)
)
UPDATE_RDP = rdp_of(dp_sgd_event(0.05, 2.0, 1))
QUERY_RDP = rdp_of(dp_sgd_event(1.0, 20.0, 1))


class Model:
    """The documented rules, update by update."""

    def __init__(self, plan):
        self.plan, self.resumes = plan, 0
        self.announced = []  # All of them, as (process, position).
        self.history = []  # Those that the present weights have seen.
        self.asked, self.open_question, self.answers = Counter(), {}, {}

    def record_updates(self, count):
        for _ in range(count):
            self.history = [*self.history, (self.resumes, len(self.history))]
            self.announced.append(self.history[-1])

    def resume(self, position):
        self.resumes += 1
        self.history, self.open_question = self.history[:position], {}
        # Below a position that is beyond this history, what an older copy has seen is unknown.
        self.history += [None] * (position - len(self.history))
        self.answers = {at: answer for at, answer in self.answers.items() if at <= position}

    def record_query(self, disjoint):
        self.asked[disjoint] += 1
        self.open_question = {"at": len(self.history)}

    def record_answer(self, value):
        self.answers[self.open_question.pop("at")] = value

    def epsilon(self):
        events = len(self.announced) * [UPDATE_RDP] + self.asked[False] * [QUERY_RDP]
        return rdp_to_epsilon(sum(events), 1e-5) if events else 0.0


def seen(ledger):
    return {
        "updates": ledger.updates,
        "position": ledger.state.position,
        "lost": ledger.state.lost_updates,
        "remaining": ledger.state.remaining_updates,
        "resumes": ledger.state.resumes,
        "queries": (ledger.state.queries(disjoint=True), ledger.state.queries(disjoint=False)),
        "answer": ledger.state.answer("accuracy"),
    }


def expected(model):
    spent = len(set(model.announced))
    assert spent == len(model.announced), "no update is announced twice"
    return {
        "updates": spent,
        "position": len(model.history),
        "lost": spent - len(model.history),
        "remaining": model.plan.steps - spent,
        "resumes": model.resumes,
        "queries": (model.asked[True], model.asked[False]),
        "answer": model.answers.get(len(model.history)),
    }


def call_at_random(rng, ledger, model, blocks):
    """Returns the ledger, which is another one after a crash."""
    act = rng.random()
    if act < 0.55:
        count = rng.choice(blocks)
        if count > model.plan.steps - len(model.announced):
            with pytest.raises(BudgetExhaustedError):
                ledger.record(Updates(count))
        else:
            ledger.record(Updates(count))
            model.record_updates(count)
    elif act < 0.65:
        disjoint = rng.random() < 0.7
        ledger.record(Query("accuracy", noise_multiplier=20.0, examples=9, disjoint=disjoint))
        model.record_query(disjoint)
    elif act < 0.75:
        value = rng.gauss(0, 1)
        if not model.open_question:
            with pytest.raises(ValueError, match="There is no open query"):
                ledger.record(Answer("accuracy", value))
        else:
            ledger.record(Answer("accuracy", value))
            model.record_answer(value)
    else:
        # Near the present end mostly; else anywhere, as from an old copy of a checkpoint.
        position = max(0, len(model.history) - rng.randrange(8))
        position = position if rng.random() < 0.8 else rng.randrange(len(model.announced) + 1)
        ledger.close()
        ledger = reopen_ledger(ledger.file.path, model.plan)
        ledger.record(Resume(position))
        model.resume(position)
    return ledger


@pytest.mark.parametrize("blocks", [[1], [3], [1, 2, 5]], ids=str)
def test_the_ledger_follows_its_rules(blocks, tmp_path):
    lost = []
    for seed in range(8):
        rng = random.Random(f"{blocks} {seed}")
        plan = rng.choice([LONG, SHORT])
        path = tmp_path / f"{seed}.jsonl"
        ledger, model = create_ledger(path, plan), Model(plan)
        for _ in range(120):
            ledger = call_at_random(rng, ledger, model, blocks)
            assert seen(ledger) == expected(model)
        assert read_ledger(path).state == ledger.state
        assert ledger.epsilon() == pytest.approx(model.epsilon(), rel=1e-9)
        lost.append(ledger.state.lost_updates)
    assert sum(count > 3 for count in lost) > 2, "hardly anything was lost"
