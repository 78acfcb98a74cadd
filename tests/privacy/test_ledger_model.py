"""The ledger against a plain model of its rules, over random sequences of calls.

The model keeps sets of positions and looks at each position by itself. It knows no ranges and no
cursors, and composes epsilon from one event for each lot.
"""

import random
from collections import Counter

import pytest

from tfdpnorm.privacy import BudgetExhaustedError, PrivacyLedger, dp_sgd_event, make_plan
from tfdpnorm.privacy.accountants import rdp_of, rdp_to_epsilon

LONG, SHORT = (
    make_plan(
        num_examples=1000,
        expected_batch_size=50,
        steps=steps,
        l2_norm_clip=1.0,
        noise_multiplier=2.0,
        delta=1e-5,
    )
    for steps in (400, 60)
)
UPDATE_RDP = {m: rdp_of(dp_sgd_event(0.05, 2.0 / m**0.5, 1)) for m in range(1, 60)}
QUERY_RDP = rdp_of(dp_sgd_event(1.0, 20.0, 1))


class Model:
    """The documented rules, position by position."""

    def __init__(self, plan):
        self.plan = plan
        self.position = self.keys = self.resumes = 0
        self.ever_announced = set()
        # With the present keys, since they are in use: what was announced, what may have been seen
        # outside of the process, and what it came out as.
        self.announced, self.shown, self.digests = set(), set(), {}
        # In the present process:
        self.repetitions, self.compared = set(), set()
        self.unconfirmed, self.waiting, self.last_equal = [], None, 0
        # How many updates were drawn from a lot, by (keys, position), where it is more than one;
        # and the positions whose lots, of the present keys, were used.
        self.lots, self.drawn, self.first_uses = Counter(), set(), 0
        self.asked, self.open_question, self.answers = Counter(), {}, {}

    @property
    def updates(self):
        return self.first_uses + sum(uses - 1 for uses in self.lots.values())

    def count(self, position):
        if position not in self.drawn:
            self.drawn.add(position)
            self.first_uses += 1
            return
        lot = self.keys, position
        self.lots[lot] = self.lots.get(lot, 1) + 1

    def count_waiting(self):
        for position in sorted(self.waiting):
            self.count(position)
            self.unconfirmed.append(position)
        self.waiting = set()

    def rely(self):
        if self.waiting is not None:
            self.count_waiting()
            self.shown |= set(range(1, self.position + 1))

    def allows(self, count):
        """Whether `count` updates after the free ones fit, when those that wait are counted."""
        uses = Counter({(self.keys, position): 1 for position in self.drawn})
        uses.update({lot: n - uses[lot] for lot, n in self.lots.items() if n > uses[lot]})
        first_uses = self.first_uses
        coming = range(self.position + self.free() + 1, self.position + self.free() + count + 1)
        for position in [*(self.waiting or ()), *coming]:
            first_uses += not uses[self.keys, position]
            uses[self.keys, position] += 1
        updates = first_uses + sum(n - 1 for n in uses.values() if n > 1)
        if all(n < 2 for n in uses.values()):
            return updates <= self.plan.steps
        shared = [n for n in uses.values() if n > 1]
        epsilon = self.epsilon_of(max(0, updates - sum(shared)), shared)
        return updates <= self.plan.steps and epsilon <= self.planned()

    def free(self):
        return sum(position > self.position for position in self.repetitions)

    def is_the_most(self, remaining):
        count = remaining - self.free()
        # Where too much was counted already, none.
        return (count == 0 or self.allows(count)) and not self.allows(count + 1)

    def is_refused(self, digest):
        """Whether the announced updates may not be shown; `digest` None: nobody knows them."""
        known = self.digests.get(self.position)
        if not self.waiting or (known is not None and known == digest):
            return False
        lots = Counter(self.lots)
        for position in self.waiting:
            lots[self.keys, position] = max(1, lots[self.keys, position]) + 1
        shared = [n for n in lots.values() if n > 1]
        single = self.first_uses + sum(n - 1 for n in shared) - sum(shared)
        return self.epsilon_of(max(0, single), shared) > self.planned()

    def record_updates(self, count):
        self.rely()
        self.waiting = set()
        for _ in range(count):
            self.position += 1
            if self.position not in self.repetitions:
                self.count(self.position)
            elif self.position in self.compared:
                self.waiting.add(self.position)
            self.announced.add(self.position)
            self.ever_announced.add(self.position)

    def record_interrupted(self):
        self.rely()
        self.waiting = None

    def record_made(self, digest):
        known = self.digests.get(self.position)
        if known is not None and known == digest:
            for position in self.unconfirmed:
                self.lots[self.keys, position] -= 1
            self.unconfirmed, self.last_equal = [], self.position
        else:
            self.count_waiting()
            if known is not None:  # Another result: nothing repeats anything any more.
                self.forget(self.last_equal)
                self.repetitions = set()
                self.announced = self.shown = set(range(1, self.position + 1))
        self.waiting = None
        self.digests[self.position] = digest
        self.shown = self.shown | set(range(1, self.position + 1))

    def resume(self, position, same):
        self.resumes += 1
        self.waiting, self.unconfirmed, self.open_question = None, [], {}
        before = set(range(1, position + 1))
        if not same:
            self.keys += 1
            self.announced, self.shown, self.drawn = set(), set(), set()
            self.forget(position)
        self.announced, self.shown = self.announced | before, self.shown | before
        self.drawn |= before
        self.repetitions, self.compared = set(self.announced), set(self.shown)
        self.position = self.last_equal = position

    def forget(self, after):
        self.digests = {p: d for p, d in self.digests.items() if p <= after}
        self.answers = {p: a for p, a in self.answers.items() if p <= after}

    def record_query(self, disjoint):
        self.rely()
        self.asked[disjoint] += 1
        self.open_question = {"at": self.position}

    def record_answer(self, value):
        self.answers[self.open_question.pop("at")] = value

    def epsilon(self):
        shared = [uses for uses in self.lots.values() if uses > 1]
        return self.epsilon_of(max(0, self.updates - sum(shared)), shared)

    def planned(self):
        return self.epsilon_of(self.plan.steps, [])

    def epsilon_of(self, single, shared):
        if not single and not shared and not self.asked[False]:
            return 0.0
        rdp = single * UPDATE_RDP[1] + self.asked[False] * QUERY_RDP
        return rdp_to_epsilon(rdp + sum(UPDATE_RDP[uses] for uses in shared), 1e-5)


def seen(ledger):
    return {
        "updates": ledger.updates,
        "position": ledger.position,
        "recounted": ledger.recounted,
        "resumes": ledger.resumes,
        "queries": (ledger.queries_of(disjoint=True), ledger.queries_of(disjoint=False)),
        "answer": ledger.answer("accuracy"),
    }


def expected(model):
    return {
        "updates": model.updates,
        "position": model.position,
        "recounted": model.updates - max(model.ever_announced, default=0),
        "resumes": model.resumes,
        "queries": (model.asked[True], model.asked[False]),
        "answer": model.answers.get(model.position),
    }


def call_at_random(rng, ledger, model, blocks, differing):
    # Most announced updates are made next, as a sound process does.
    act = 0.5 if model.waiting is not None and rng.random() < 0.7 else rng.random()
    if act < 0.45:
        count = rng.choice(blocks)
        if count > ledger.remaining_updates:
            with pytest.raises(BudgetExhaustedError):
                ledger.record_updates(count)
        else:
            ledger.record_updates(count)
            model.record_updates(count)
    elif act < 0.6:
        digest = 1000 * model.keys + model.position
        if rng.random() < differing:
            digest = rng.randrange(-(2**63), 2**64)
        if model.waiting is None:
            with pytest.raises(ValueError, match="an announced update"):
                ledger.record_made(digest)
        elif model.is_refused(digest):
            with pytest.raises(BudgetExhaustedError, match="must be discarded"):
                ledger.record_made(digest)
        else:
            ledger.record_made(digest)
            model.record_made(digest)
    elif act < 0.63:
        if model.is_refused(None):
            with pytest.raises(BudgetExhaustedError, match="cut short.*must be discarded"):
                ledger.record_interrupted()
        else:
            ledger.record_interrupted()
            model.record_interrupted()
    elif act < 0.7:
        disjoint = rng.random() < 0.7
        ledger.record_query("accuracy", noise_multiplier=20.0, examples=9, disjoint=disjoint)
        model.record_query(disjoint)
    elif act < 0.8:
        value = rng.gauss(0, 1)
        if not model.open_question:
            with pytest.raises(ValueError, match="without answer"):
                ledger.record_answer("accuracy", value)
        else:
            ledger.record_answer("accuracy", value)
            model.record_answer(value)
    else:
        # Near the present end mostly; else anywhere, as from an old copy of a checkpoint.
        highest = max(model.ever_announced, default=0)
        position = max(0, model.position - rng.randrange(8))
        position = position if rng.random() < 0.8 else rng.randrange(highest + 1)
        same = rng.random() < 0.75
        ledger.resume(position, same_randomness=same)
        model.resume(position, same)


@pytest.mark.parametrize("differing", [0.0, 0.05, 0.4])
@pytest.mark.parametrize("blocks", [[1], [3], [1, 2, 5]], ids=str)
def test_the_ledger_follows_its_rules(blocks, differing):
    recounted = []
    for seed in range(12):
        rng = random.Random(f"{blocks} {differing} {seed}")
        plan = rng.choice([LONG, SHORT])
        ledger, model = PrivacyLedger(plan), Model(plan)
        for _ in range(120):
            call_at_random(rng, ledger, model, blocks, differing)
            assert seen(ledger) == expected(model)
            assert model.is_the_most(ledger.remaining_updates)
        assert ledger.epsilon() == pytest.approx(model.epsilon(), rel=1e-9)
        recounted.append(ledger.recounted)
    assert sum(count > 3 for count in recounted) > 4, "hardly anything was counted again"
