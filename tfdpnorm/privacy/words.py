"""Words that several parts of a statement share."""

from typing import NamedTuple

from tfdpnorm.privacy.rounding import ceil_text


class Unit(NamedTuple):
    """The sampled and protected unit, in words.

    Attributes:
        one: One of them.
        many: Several of them.
        protected: The plural, as the protected data.
        neighbours: What one of two neighbouring data sets has more than the other.
    """

    one: str
    many: str
    protected: str
    neighbours: str


UNITS = {
    "row": Unit(
        "example",
        "examples",
        "private training examples (rows, such as one image each)",
        "one example",
    ),
    "person": Unit(
        "person",
        "persons",
        "persons, with any number of rows (training examples) each",
        "one person with any number of rows",
    ),
}


def unit_of(ledger):
    """Returns the `Unit` of a `PrivacyLedger`."""
    return UNITS[ledger.unit]


def has_weak_delta(plan):
    """Whether the delta of a `PrivacyPlan` allows publishing one of the protected."""
    return plan.delta >= 1 / plan.num_examples


class Manner(NamedTuple):
    """What a run did with the private data, in words.

    Attributes:
        it: The run, as the subject of a sentence.
        published: What it released.
        weights: The same, as an attacker sees it.
        without_noise: What it may have printed without noise, and "; ", or "".
        in_memory: What the memory of the process held.
        contribution: What is clipped of each of the protected, before "of each example".
        mechanism: How noise was added.
        counted: A noun for what is counted, before its number is known.
    """

    it: str
    published: str
    weights: str
    without_noise: str
    in_memory: str
    contribution: str
    mechanism: str
    counted: str


_TRAINING = Manner(
    "Training",
    "the model, with its weights after any of the updates",
    "the weights after every update",
    "the loss and the metrics that training printed or logged, which have no noise; ",
    "the noise key, the members of the sampled batches, exact sums and exact gradients",
    "a gradient",
    "DP-SGD (Abadi et al. 2016): each update releases the sum of clipped gradients of a random "
    "batch, with Gaussian noise.",
    "update",
)
_ONE_RELEASE = Manner(
    "The release",
    "the model, and the noisy sum that its weights are a function of",
    "the noisy sum",
    "",
    "the noise key and the exact sum",
    "a contribution",
    "Gaussian mechanism: one sum of contributions of bounded norm, with Gaussian noise.",
    "release",
)


def manner_of(ledger):
    """Returns the `Manner` of a `PrivacyLedger`."""
    is_one_release = ledger.state.has_code("one_release")
    return _ONE_RELEASE if is_one_release else _TRAINING


def number(count, noun):
    """A count with its noun, such as "1 update" and "2 updates"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def at_most(count):
    """How many examples a person owns: "at most one", or such as "up to 3"."""
    return "at most one" if count == 1 else f"up to {count}"


def item(text):
    """Returns a line of a list."""
    return f"- {text}"


def percent(share):
    """A share in percent, rounded upwards to three digits, such as "4.79 %"; more near 100 %."""
    digits = 3 if share < 0.99 else 5
    return f"{ceil_text(min(100 * share, 100.0), digits)} %"


def counted(ledger):
    """Returns what an epsilon counts, in words."""
    plan, state = ledger.plan, ledger.state
    if state.search is not None:
        return f"the search that chose this model ({state.search.in_words}), with all its updates"
    updates = plan.steps if state.is_held_to_plan else state.updates
    manner = manner_of(ledger)
    of = " of the weights" if manner is _TRAINING else ""
    parts = [number(updates, manner.counted) + of]
    if updates != state.updates:
        parts = [f"{parts[0]} charged, {state.updates} of them made"]
    if state.lost_updates:
        parts.append(f"{state.lost_updates} of them lost in crashes")
    if plan.statistics_queries:
        parts.append("the running averages of normalisation layers")
    if state.queries():
        parts.append(number(state.queries(), "noisy answer") + " about validation examples")
    if plan.earlier:
        parts.append(number(len(plan.earlier), "earlier phase") + " of the training")
    return ", ".join(parts)
