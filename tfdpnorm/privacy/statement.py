"""The privacy statement: plain English for the person who has to state an epsilon."""

import math
from collections.abc import Iterable

from tfdpnorm import arguments
from tfdpnorm.privacy.ledger import PrivacyLedger
from tfdpnorm.privacy.plan import PrivacyPlan
from tfdpnorm.privacy.rounding import ceil_text

_ACCOUNTANT_NAMES = {
    "rdp": "Renyi differential privacy (RDP), dp_accounting",
    "pld": "privacy loss distributions (PLD), dp_accounting",
}

_LEFT_OUT = (
    "Hyperparameter search: every further run on the same data, kept or thrown away, adds to the "
    "epsilon, and so does choosing the best of several runs.",
    "The training loss and any metric computed on private data during training, wherever they "
    "were printed or logged, and anything chosen by them: a stopping time, a checkpoint, a "
    "learning rate.",
)
_VALIDATION_LEFT_OUT = (
    "Private validation data that choices were made by: its examples are not protected by this "
    "epsilon."
)
_OTHER_VALIDATION_LEFT_OUT = (
    "Private validation data, as far as choices were made by anything but the noisy answers "
    "counted above."
)
_FLOATING_POINT = (
    "the accountant presumes exact Gaussian noise on exact sums. The noise is drawn from 32-bit "
    "random words and computed and added in float32, where not every number can come out; neither "
    "is it discrete, nor are the noised sums rounded to a coarser grid, so that their last bits "
    "may say more than epsilon allows."
)
_GENERATORS = {
    "philox": (
        "Floating-point effects (Mironov 2012) and the noise generator, which is not a "
        f"cryptographic one: {_FLOATING_POINT}"
    ),
    "shake256": (
        f"Floating-point effects (Mironov 2012): {_FLOATING_POINT} The noise generator is a "
        "cryptographic one (SHAKE256, FIPS 202)."
    ),
}
_SECRETS = (
    "It presumes that the key of the noise and the composition of the sampled lots stay secret, as "
    "well as the random numbers of dropout and of random augmentations, if there are any."
)


def privacy_statement(ledger: PrivacyLedger, *, excluded: Iterable[str] = ()) -> str:
    """Says what was guaranteed so far, for whom, on what conditions, and what is left out.

    Args:
      ledger: The ledger of the run.
      excluded: Further sentences on what the guarantee does not cover in this run, besides those
        of the ledger.

    Returns:
      Several lines of English, one for each point. Epsilon is rounded upwards. Where no guarantee
      holds, the text begins with "NO GUARANTEE", gives the reasons, and gives an epsilon at most as
      "claimed ... not a guarantee".

    Raises:
      ValueError: `ledger` is not a `PrivacyLedger`, or `excluded` is not a collection of
        sentences.
    """
    if not isinstance(ledger, PrivacyLedger):
        raise ValueError(f"Expected ledger to be a PrivacyLedger, got {ledger!r}.")
    excluded = arguments.reasons("excluded", excluded)
    excluded = tuple(dict.fromkeys((*ledger.excluded, *excluded)))
    if ledger.guarantee_holds:
        paragraphs = [*_guaranteed(ledger), *_settings(ledger)]
        left_out = (*_left_out(ledger), *excluded)
        paragraphs += ["Not covered by this guarantee:", *map(_item, left_out)]
    else:
        paragraphs = [*_not_guaranteed(ledger), *_settings(ledger)]
        if excluded:
            paragraphs += ["Further remarks on what is not covered:", *map(_item, excluded)]
    return "\n".join(paragraphs)


def _left_out(ledger: PrivacyLedger) -> list[str]:
    generator = ledger.settings.get("noise_generator")
    return [
        *_LEFT_OUT,
        _OTHER_VALIDATION_LEFT_OUT if ledger.queries else _VALIDATION_LEFT_OUT,
        _GENERATORS.get(generator, _GENERATORS["philox"]),
        _SECRETS,
    ]


def _guaranteed(ledger: PrivacyLedger) -> list[str]:
    plan, epsilon = ledger.plan, ledger.epsilon()
    # An epsilon of 0 may also be one that the accountant cannot tell from it.
    if ledger.updates == 0 and epsilon == 0:
        first = (
            "No update has been made yet: nothing of the private data has been used, epsilon = 0."
        )
    else:
        first = (
            f"Training satisfies (epsilon, delta)-differential privacy with epsilon = "
            f"{ceil_text(epsilon)} (rounded up) and delta = {plan.delta!r}."
        )
    lines = [
        first,
        _item(
            f"For whom: any one example of the {plan.num_examples} private training examples. If "
            "one person owns several of them, this epsilon does not cover them jointly."
        ),
        _item(
            "Adjacency: add or remove one example. The number of examples and all settings below "
            "are treated as public."
        ),
        _item(
            "Covers: the weights after every update, the released ones among them, and every "
            "function of them that does not use the private data again (predictions, averages, "
            "exported models)."
        ),
        *map(_item, _validation(ledger)),
    ]
    if ledger.held_to_plan_because:
        lines.append(
            _item(
                f"This is the epsilon of the whole plan of {plan.steps} updates, however many "
                f"were made, because: {'; '.join(ledger.held_to_plan_because)}."
            )
        )
    elif 0 < ledger.updates < plan.steps:
        lines.append(
            _item(
                f"The run was planned for {plan.steps} updates. If the decision to stop earlier "
                "looked at the model or at private data, state the epsilon of the whole plan "
                f"instead: {ceil_text(ledger.whole_plan_epsilon())} (rounded up)."
            )
        )
    if plan.delta >= 1 / plan.num_examples:
        lines.append(
            _item(
                f"Weak: delta is not below 1 / {plan.num_examples}, so that publishing a whole "
                "example would be allowed. Choose a delta well below that."
            )
        )
    return lines


def _validation(ledger: PrivacyLedger) -> list[str]:
    """The second guarantee, for validation examples, and what they add to the first."""
    lines = []
    epsilon = ledger.validation_epsilon()
    apart = ledger.queries_of(disjoint=True)
    if apart:
        lines.append(
            "Validation: a second guarantee holds for any one validation example, for the noisy "
            f"answers about them ({apart} so far) and whatever was chosen by these, with epsilon = "
            f"{ceil_text(epsilon)} (rounded up) and delta = {ledger.plan.delta!r}. It presumes "
            "that none of them is a training example; to those the answers cost nothing."
        )
    overlapping = ledger.queries_of(disjoint=False)
    if overlapping:
        lines.append(
            f"Includes: the noisy answers ({overlapping} so far) about validation examples that "
            "are training examples too, or may be; the epsilon applies to those as well."
        )
    return lines


def _not_guaranteed(ledger: PrivacyLedger) -> list[str]:
    lines = [
        "NO GUARANTEE: no differential privacy is guaranteed for this training run, and no epsilon "
        "may be stated for it, because:",
        *map(_item, ledger.no_guarantee_because),
    ]
    claimed = ledger.claimed_epsilon()
    if ledger.updates and not math.isinf(claimed):
        lines.append(
            f"For comparison only, claimed epsilon = {ceil_text(claimed)} at delta = "
            f"{ledger.plan.delta!r} (not a guarantee): what the accountant's formula says of the "
            "settings below, as if nothing were known against them."
        )
    return lines


def _settings(ledger: PrivacyLedger) -> list[str]:
    plan = ledger.plan
    lot = f"{plan.expected_batch_size} of {plan.num_examples} examples"
    if plan.sampling == "poisson" and plan.sampling_rate == 1:
        sampling = f"every example is in every lot ({lot}, q = 1)"
    elif plan.sampling == "poisson":
        sampling = (
            "Poisson: each example enters each lot independently with probability q = "
            f"{plan.sampling_rate:.6g} ({lot} expected)"
        )
    else:
        sampling = f"{plan.sampling}, {lot}"
    accountant = _ACCOUNTANT_NAMES[plan.accountant]
    if plan.accountant == "pld" and 0 < ledger.updates < plan.steps:
        accountant += "; before the last update it reports a slightly later one, never less"
    noise = f"noise multiplier z = {plan.noise_multiplier!r}"
    return [
        "Settings, as planned:",
        _item(f"Sampling: {sampling}."),
        *map(_item, _updates(ledger)),
        _item(f"Noise and clipping: {noise}, l2 clipping norm C = {plan.l2_norm_clip!r}."),
        *map(_item, _statistics(plan)),
        _item(f"Accountant: {accountant}."),
    ]


def _statistics(plan: PrivacyPlan) -> list[str]:
    if not plan.statistics_queries:
        return []
    return [
        "Statistics: each update releases the sum of clipped gradients with noise multiplier "
        f"z_g = {plan.gradient_noise_multiplier:.6g}, and about the same lot "
        f"{plan.statistics_queries} sums of truncated activations and their squares, for the "
        "running averages of normalisation layers, with noise multiplier z_s = "
        f"{plan.statistics_noise_multiplier:.6g} each: a share of "
        f"{plan.statistics_budget_share!r} of its privacy loss. Together they compose to one sum "
        "with noise multiplier z."
    ]


def _updates(ledger: PrivacyLedger) -> list[str]:
    updates, planned = ledger.updates, ledger.plan.steps
    if ledger.position == updates:
        lines = [f"Updates: T = {updates} done of {planned} planned."]
    else:
        lines = [
            f"Updates: T = {updates} counted, of {planned} planned; the present weights have seen "
            f"{ledger.position}."
        ]
    if not ledger.resumes:
        return lines
    times = "once" if ledger.resumes == 1 else f"{ledger.resumes} times"
    line = f"The run was resumed {times}; repeated updates used the same lots and noise and are "
    line += "counted once"
    if ledger.recounted:
        line += (
            f", but for {ledger.recounted} of them that were made with other keys, came out "
            "otherwise or could not be compared, and are counted again"
        )
    return [*lines, f"{line}."]


def _item(text: str) -> str:
    return f"- {text}"
