"""Caveats: what becomes known of a run besides its spending, as codes with fields.

A ledger stores the code and the fields. The words are here, and nowhere else.
"""

import dataclasses
import inspect
import string
from collections.abc import Mapping
from typing import NamedTuple

from tfdpnorm import arguments
from tfdpnorm.privacy.rounding import ceil_text, delta_text, number

NO_GUARANTEE = "no_guarantee"
NOT_COVERED = "not_covered"
FOREIGN_WEIGHTS = "foreign_weights"
ESTABLISHED = "established"
HELD_TO_PLAN = "held_to_plan"

KINDS = {
    NO_GUARANTEE: "Say in words why no guarantee holds.",
    NOT_COVERED: "Say in words what is not covered.",
    FOREIGN_WEIGHTS: "Say in words which weights are of unknown provenance.",
    ESTABLISHED: "Say in words what is known, and how.",
    HELD_TO_PLAN: "Say in words why the full plan is charged.",
}
"""The kinds of caveats, each with the remedy for a sentence that says nothing.

The first makes epsilon infinite, the last makes it that of the whole plan. Each kind is a code by
itself, with the field `sentence`, for the words of a user.
"""


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


_FOREIGN = "Weights of unknown provenance: "
_OF_ANOTHER_RUN = "Weights of another run: "
_UNKNOWN = (
    "If that used private data without noise, NO guarantee holds for this model; if it was a "
    "training under differential privacy on these data, its epsilon adds to this one."
)


def _weights_replaced(position, interventions):
    when = f"after update {position}" if position else "before the first update"
    times = f" ({interventions} times in total)" if interventions > 1 else ""
    return (
        f"{_FOREIGN}{when}, the weights of this run were replaced{times}, by load_weights, "
        f"set_weights or similar, or by training without noise. {_UNKNOWN}"
    )


def _private_run(
    run,
    file,
    updates,
    unit,
    num_examples,
    delta,
    epsilon,
    whole_plan_epsilon,
    validation_epsilon,
    reasons,
    not_covered,
):
    if file:
        who = f"they are from {file}, which the private run {run} trained"
    else:
        who = f"another private model had trained them, in the private run {run},"
    of = UNITS[unit]
    words = f"{_OF_ANOTHER_RUN}{who} with {number(updates, 'update')} on {num_examples} {of.many}"
    an = "An" if of.one[0] in "aeiou" else "A"
    if epsilon is None:
        return f"{words}, without a guarantee: {reasons}."
    words += (
        f", to epsilon = {ceil_text(epsilon)} at delta = {delta_text(delta)}. The epsilon above "
        f"is that of this run alone. {an} {of.one} used in only one of the two runs keeps the "
        "epsilon and the delta of that run, since the other is post-processing for it or does not "
        f"depend on it. If both protect {of.many}, then for {of.neighbours} of both runs the two "
        "epsilons add up, and so do the two deltas; otherwise they cannot be added."
    )
    if whole_plan_epsilon is not None and whole_plan_epsilon > epsilon:
        words += (
            " If the decision to end that run early looked at the model or at private data, use "
            f"the epsilon of its full plan instead: {ceil_text(whole_plan_epsilon)}."
        )
    if validation_epsilon:
        words += (
            f" Its private validation examples have epsilon = {ceil_text(validation_epsilon)} of "
            "their own, which adds up in the same way."
        )
    return f"{words} What that run does not cover: {not_covered}" if not_covered else words


_INDEPENDENCE = "Per-example independence, which clipping requires: "


def _one_release(features, share, most_per_person):
    if most_per_person is None:
        who = "An example contributes"
    else:
        who = f"A person contributes the mean, over up to {most_per_person} of their rows, of"
    return (
        f"{_INDEPENDENCE}by construction. This run released one noisy sum, and no gradients. {who} "
        f"the products of a row of {features} features, scaled down individually to the largest "
        "norm allowed, with the row itself and with its target: one vector of norm at most C. "
        f"Products with the row itself account for a share of {share:.4g} of the privacy loss. The "
        "weights are a function of the noisy sum."
    )


_WORDS = {
    **{kind: (kind, "{sentence}") for kind in KINDS},
    # Sampling and steps
    "unknown_sampling": (NO_GUARANTEE, "the batches were not Poisson-sampled by this library"),
    "step_by_hand": (
        NO_GUARANTEE,
        "a training step was called directly, outside of the ledger",
    ),
    # Per-example independence
    "verified_from_graph": (
        ESTABLISHED,
        _INDEPENDENCE + "verified from the graph of the step, for physical batches of {rows} rows. "
        "The gradient rules of this library and the kernels of TensorFlow are assumed correct.",
    ),
    "computed_per_example": (
        ESTABLISHED,
        _INDEPENDENCE + "each example's gradient is computed by itself, by the engine {engine!r}, "
        "in a graph in which no example changes a variable.",
    ),
    "certificate": (
        ESTABLISHED,
        "What was verified is in {file}, with the SHA-256 {sha256}. tfdpnorm-verify repeats the "
        "verification from this file, without TensorFlow and without data.",
    ),
    "one_release": (ESTABLISHED, _one_release),
    "given_features": (
        NOT_COVERED,
        "The computation of the features. It is assumed that the features of an example depend on "
        "that example alone, and that the model that computes them was not trained on private "
        "data.",
    ),
    "not_verified": (
        NO_GUARANTEE,
        "per-example independence, which clipping requires, was not verified: {why}",
    ),
    # Processes
    "several_workers": (
        NOT_COVERED,
        "Attackers who read or change the traffic between the processes of the run: before each "
        "update the exact sums, and the secret key from which batches are drawn. The traffic is "
        "not encrypted. Members and slots of the batches come from a cryptographic generator "
        "(SHAKE256, FIPS 202) with that key, which is drawn again for each fit().",
    ),
    # Models
    "trained_in_part": (
        ESTABLISHED,
        "Trained: {trained:,} of the {weights:,} weights of the model, which alone are clipped and "
        "get noise.",
    ),
    # Data
    "synthetic_public_rows": (
        ESTABLISHED,
        "Public rows: {kinds}, generated from the shape and the range of the inputs alone.",
    ),
    "given_public_rows": (
        NOT_COVERED,
        "Public rows: {count} that the data holder gave as public. Exact functions of them are in "
        "the model, without noise. It is assumed that they are no data of anyone to be protected; "
        "only rows that equal a training example are detected.",
    ),
    "class_weights": (
        NOT_COVERED,
        "The choice of class_weight. It is assumed not to be computed from the private labels, "
        'whose counts it would reveal ("balanced" weights do).',
    ),
    "source_of_own_code": (
        NOT_COVERED,
        "The code that read the examples. It is assumed that its result for an example depends on "
        "that example alone, and not on other examples.",
    ),
    # Callbacks
    "may_stop_early": (HELD_TO_PLAN, "{callback} may end training early, based on {monitor}"),
    "stopped_by_callback": (
        HELD_TO_PLAN,
        "a callback ended training early ({callbacks}), and what it looked at is not known",
    ),
    "acted_on_public_validation": (
        ESTABLISHED,
        "Validation data, whose {monitor} {callback} acted on: the data holder declared them "
        "public. If they are not, this epsilon does not protect them.",
    ),
    "acted_on_validation": (
        NOT_COVERED,
        "The validation data, whose {monitor} {callback} acted on without noise: its examples are "
        "not protected. None of them was found among the training examples.",
    ),
    "metrics_written": (
        NOT_COVERED,
        "The output of {callback}: the loss and the metrics of {examples}, without noise.",
    ),
    "metric_in_file_names": (
        NOT_COVERED,
        "The {metric} in the names of the files of {callback}, without noise.",
    ),
    "validation_without_noise": (
        NO_GUARANTEE,
        "{name} was computed on private examples without noise",
    ),
    "validation_by_other_runs": (
        NOT_COVERED,
        "Validation in other runs: {name} answered queries about the same examples there. For "
        "these examples the epsilons and the deltas add up.",
    ),
    # Weights
    "weights_replaced": (FOREIGN_WEIGHTS, _weights_replaced),
    "private_run": (FOREIGN_WEIGHTS, _private_run),
    "trained_before": (
        FOREIGN_WEIGHTS,
        _FOREIGN
        + "when this run began, the model had already been trained (its optimizer had made "
        "{steps} steps). " + _UNKNOWN,
    ),
    "loaded_before_built": (
        FOREIGN_WEIGHTS,
        _FOREIGN + "they were loaded before the model was built, which fit() did. " + _UNKNOWN,
    ),
    "initial_weights_not_fresh": (
        NOT_COVERED,
        "The data that the initial weights were trained on: the weights were not fresh, since "
        "{which} had other values than its initializer gives. It is assumed that these data are "
        "public. Otherwise no guarantee holds for them if they were used without noise; if a "
        "private training used them, its epsilon adds to this one, unless it is counted as an "
        "earlier phase.",
    ),
    "first_weights_unseen": (
        NOT_COVERED,
        "Data that trained the initial weights, if these were not drawn at random: they were not "
        "checked, because the model was built between make_private() and fit().",
    ),
    # Other trials
    "no_guarantee_of_other_trial": (NO_GUARANTEE, "in another trial of its search, {reason}"),
    "foreign_weights_of_other_trial": (
        FOREIGN_WEIGHTS,
        "In another trial of its search. {remark}",
    ),
}

CODES = frozenset(_WORDS)


@dataclasses.dataclass(frozen=True)
class Caveat:
    """A caveat, an entry of a ledger; `caveat` makes one.

    Attributes:
        code: One of the codes in the table of this module.
        fields: Dict of the fields of its sentence: str, int, float, bool or None by name.

    Raises:
        ValueError: if there is no such code, or its fields are others.
    """

    code: str
    fields: Mapping

    def __post_init__(self):
        code = arguments.choice("code", self.code, _WORDS)
        arguments.instance("fields", self.fields, Mapping)
        fields = {str(n): arguments.scalar(str(n), value) for n, value in self.fields.items()}
        words = _WORDS[code][1]
        if callable(words):
            needed = set(inspect.signature(words).parameters)
        else:
            needed = {name for _, name, _, _ in string.Formatter().parse(words) if name}
        if fields.keys() != needed:
            raise ValueError(
                f"Expected a caveat {code!r} with the fields {sorted(needed)}, got "
                f"{sorted(fields)}."
            )
        if "sentence" in fields:
            remedy = KINDS[self.kind]
            fields["sentence"] = arguments.sentence("sentence", fields["sentence"], remedy)
        object.__setattr__(self, "fields", fields)

    @property
    def kind(self):
        """Its effect, one of `KINDS`."""
        return _WORDS[self.code][0]

    @property
    def sentence(self):
        """The words of a statement: a sentence, or a reason that completes "because: ..."."""
        words = _WORDS[self.code][1]
        return words(**self.fields) if callable(words) else words.format(**self.fields)


def caveat(code, **fields):
    """Returns the `Caveat` of a code with fields; see there."""
    return Caveat(code, fields)
