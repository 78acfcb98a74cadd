"""Caveats: what becomes known of a run besides its spending, as codes with fields.

A ledger stores the code and the fields. The words are here, and nowhere else.
"""

import dataclasses
import inspect
import string
from collections.abc import Mapping

from tfdpnorm import arguments
from tfdpnorm.privacy.rounding import ceil_text

NO_GUARANTEE = "no_guarantee"
NOT_COVERED = "not_covered"
FOREIGN_WEIGHTS = "foreign_weights"
ESTABLISHED = "established"
HELD_TO_PLAN = "held_to_plan"

KINDS = {
    NO_GUARANTEE: "Say in words why no guarantee holds.",
    NOT_COVERED: "Say in words what is not covered.",
    FOREIGN_WEIGHTS: "Say in words which weights come from elsewhere.",
    ESTABLISHED: "Say in words what is known, and how.",
    HELD_TO_PLAN: "Say in words why the whole plan is counted.",
}
"""The kinds of caveats, each with the remedy for a sentence that says nothing.

The first makes epsilon infinite, the last makes it that of the whole plan. Each kind is a code by
itself, with the field `sentence`, for the words of a user.
"""

_FOREIGN = "Weights that come from elsewhere: "
_UNKNOWN = "What private data these have seen is not known here, and adds to this epsilon."


def _weights_replaced(position, interventions):
    when = f"after update {position}" if position else "before the first update"
    times = f", and {interventions} times in all" if interventions > 1 else ""
    return (
        f"{_FOREIGN}{when}{times}, others than this run left were put in their place (by "
        f"load_weights, set_weights or the like). {_UNKNOWN}"
    )


def _private_run(
    run,
    file,
    updates,
    num_examples,
    delta,
    epsilon,
    whole_plan_epsilon,
    validation_epsilon,
    reasons,
    not_covered,
):
    if file:
        who = f"they are of {file}, which the private run {run} trained"
    else:
        who = f"another private model had trained them, in the private run {run},"
    words = f"{_FOREIGN}{who} by {updates} updates on {num_examples} examples"
    if epsilon is None:
        return f"{words}, without a guarantee: {reasons}."
    words += (
        f", to epsilon = {ceil_text(epsilon)} at delta = {delta!r}. For an example that both runs "
        "trained on, the two epsilons add up, and so do the two deltas; the epsilon above is that "
        "of this run alone."
    )
    if whole_plan_epsilon is not None and whole_plan_epsilon > epsilon:
        words += (
            " If the decision to end that run before its plan looked at the model or at private "
            f"data, take the epsilon of its whole plan instead: {ceil_text(whole_plan_epsilon)}."
        )
    if validation_epsilon:
        words += (
            f" Its private validation examples have epsilon = {ceil_text(validation_epsilon)} of "
            "their own, which adds up likewise."
        )
    return f"{words} What that run does not cover: {not_covered}" if not_covered else words


_INDEPENDENCE = "Per-example independence, which clipping rests on: "


def _one_release(features, share, most_per_person):
    if most_per_person is None:
        who = "An example adds to it"
    else:
        who = f"A person adds to it the mean, over up to {most_per_person} of their rows, of"
    return (
        f"{_INDEPENDENCE}by construction. This run released one noisy sum, and no gradients. {who} "
        f"the products of a row of {features} features, scaled down by itself to the longest norm "
        "allowed, with the row itself and with its target: as one vector, of norm at most C. "
        f"Products with the row itself take a share of {share:.4g} of the privacy loss. The "
        "weights are a function of the noisy sum."
    )


_WORDS = {
    **{kind: (kind, "{sentence}") for kind in KINDS},
    # Sampling and steps
    "unknown_sampling": (NO_GUARANTEE, "the lots were not Poisson-sampled by this library"),
    "step_by_hand": (
        NO_GUARANTEE,
        "a training step was called by hand, outside of the ledger",
    ),
    # Per-example independence
    "verified_from_graph": (
        ESTABLISHED,
        _INDEPENDENCE + "proved from the graph that the step runs, for physical batches of {rows} "
        "rows. Taken for granted are this library's gradient rules and the kernels of TensorFlow.",
    ),
    "computed_per_example": (
        ESTABLISHED,
        _INDEPENDENCE + "each example's gradient is computed by itself, by the engine {engine!r}, "
        "in a graph in which no example changes a variable.",
    ),
    "one_release": (ESTABLISHED, _one_release),
    "given_features": (
        NOT_COVERED,
        "What computed the features that were given. It is presumed that the features of an "
        "example depend on that example alone, and that what computes them has learnt nothing "
        "from private data.",
    ),
    "randomized_check_only": (
        NOT_COVERED,
        "Per-example independence, beyond what the randomized check tries, on which this guarantee "
        "rests: {why}.",
    ),
    "not_verified": (
        NO_GUARANTEE,
        "per-example independence, which clipping rests on, was not verified: {why}",
    ),
    # Processes
    "several_workers": (
        NOT_COVERED,
        "Anybody who reads or changes what the processes of the run exchange: before each update "
        "the sums without noise, and the secret key that the lots are drawn by. They go over the "
        "network as they are. Members and slots of the lots come from a cryptographic generator "
        "(SHAKE256, FIPS 202) with that key, drawn again for each fit().",
    ),
    # Data
    "synthetic_public_rows": (
        ESTABLISHED,
        "Public rows: {kinds}, made from the shape and the range of the inputs alone. They are "
        "nobody's data.",
    ),
    "class_weights": (
        NOT_COVERED,
        "What class_weight was chosen by. It is presumed not to be computed from the private "
        'labels, whose counts it would show ("balanced" weights are).',
    ),
    "source_of_own_code": (
        NOT_COVERED,
        "What the code that read the examples did besides. It is presumed that what it gave for an "
        "example depends on that example alone, and not on others that it has read or mixed in.",
    ),
    # Callbacks
    "may_stop_early": (HELD_TO_PLAN, "{callback} may end training early, by {monitor}"),
    "acted_on_public_validation": (
        ESTABLISHED,
        "That the validation data, whose {monitor} {callback} acted on, are public was said to "
        "fit(). If they are not, this epsilon does not protect them.",
    ),
    "acted_on_validation": (
        NOT_COVERED,
        "The validation data, whose {monitor} {callback} acted on without noise: its examples are "
        "not protected. None of them was found among the training examples.",
    ),
    "metrics_written": (
        NOT_COVERED,
        "What {callback} wrote down: the loss and the metrics of {examples}, without noise.",
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
        "What other runs were told of the validation examples: {name} answered about the same "
        "examples there, and for them the epsilons and the deltas add up.",
    ),
    # Weights
    "weights_replaced": (FOREIGN_WEIGHTS, _weights_replaced),
    "private_run": (FOREIGN_WEIGHTS, _private_run),
    "trained_before": (
        FOREIGN_WEIGHTS,
        _FOREIGN + "when this run began, the model was trained already (its optimizer had made "
        "{steps} steps). " + _UNKNOWN,
    ),
    "loaded_before_built": (
        FOREIGN_WEIGHTS,
        _FOREIGN + "they were loaded before the model was built, which fit() did. " + _UNKNOWN,
    ),
    "first_weights_unseen": (
        NOT_COVERED,
        "The weights that the run began with, unless they were drawn at random: the model was "
        "built after it was made private, and before fit().",
    ),
    # Copies
    "copies_of_run": (
        NOT_COVERED,
        "What other copies of this run release: its folder was in another place when the run was "
        "resumed after {updates} spent updates, and from there it may go on as well. What this and "
        "the others release beyond these updates adds up, and no ledger counts all of it.",
    ),
    "copies_of_search": (
        NOT_COVERED,
        "What other copies of the search that made this run release: the folder of the search was "
        "in another place before, and from there it may go on as well. What this and the others "
        "release adds up, and no ledger counts all of it.",
    ),
    # Other trials
    "no_guarantee_of_other_trial": (NO_GUARANTEE, "of another trial of its search, {reason}"),
    "foreign_weights_of_other_trial": (
        FOREIGN_WEIGHTS,
        "In another trial of its search. {remark}",
    ),
}


@dataclasses.dataclass(frozen=True)
class Caveat:
    """A caveat, an entry of a ledger; `caveat` makes one.

    Attributes:
        code: One of the codes in the table of this module.
        fields: Dict of what its words need: str, int, float, bool or None by name.

    Raises:
        ValueError: if there is no such code, or its fields are others.
    """

    code: str
    fields: Mapping

    def __post_init__(self):
        code = arguments.choice("code", self.code, _WORDS)
        arguments.instance("fields", self.fields, Mapping)
        fields = {str(n): arguments.scalar(str(n), value) for n, value in self.fields.items()}
        needed = _fields_in(_WORDS[code][1])
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
        """What it does, one of `KINDS`."""
        return _WORDS[self.code][0]

    @property
    def sentence(self):
        """The words of a statement: a sentence, or a reason that completes "because: ..."."""
        words = _WORDS[self.code][1]
        return words(**self.fields) if callable(words) else words.format(**self.fields)


def caveat(code, **fields):
    """Returns the `Caveat` of a code with fields; see there."""
    return Caveat(code, fields)


def _fields_in(words):
    if callable(words):
        return set(inspect.signature(words).parameters)
    return {name for _, name, _, _ in string.Formatter().parse(words) if name}
