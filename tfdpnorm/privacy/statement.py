"""The privacy statement: plain English for the person who has to state an epsilon."""

import math
from collections.abc import Iterable

from tfdpnorm.privacy import _validate
from tfdpnorm.privacy.ledger import PrivacyLedger
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
    "Private validation data that choices were made by: its examples are not protected by this "
    "epsilon.",
    "Floating-point effects (Mironov 2012) and the noise generator, which is not a cryptographic "
    "one: the accountant presumes exact Gaussian noise.",
    "It presumes that the key of the noise and the composition of the sampled lots stay secret.",
)


def privacy_statement(ledger: PrivacyLedger, *, excluded: Iterable[str] = ()) -> str:
    """Says what was guaranteed so far, for whom, on what conditions, and what is left out.

    Args:
      ledger: The ledger of the run.
      excluded: Further sentences on what the guarantee does not cover in this run.

    Returns:
      Several lines of English, one for each point. Epsilon is rounded upwards. Where no guarantee
      holds, the text begins with "NO GUARANTEE", gives the reasons, and gives an epsilon at most as
      "claimed ... not a guarantee".

    Raises:
      ValueError: `ledger` is not a `PrivacyLedger`, or `excluded` is not a collection of
        sentences.
    """
    if not isinstance(ledger, PrivacyLedger):
        raise ValueError(f"Expected ledger to be a PrivacyLedger, received {ledger!r}.")
    excluded = _validate.reasons("excluded", excluded)
    if ledger.guarantee_holds:
        paragraphs = [*_guaranteed(ledger), *_settings(ledger)]
        left_out = (*_LEFT_OUT, *excluded)
        paragraphs += ["Not covered by this guarantee:", *map(_item, left_out)]
    else:
        paragraphs = [*_not_guaranteed(ledger), *_settings(ledger)]
        if excluded:
            paragraphs += ["Further remarks on what is not covered:", *map(_item, excluded)]
    return "\n".join(paragraphs)


def _guaranteed(ledger: PrivacyLedger) -> list[str]:
    plan = ledger.plan
    if ledger.updates == 0:
        first = (
            "No update has been made yet: nothing of the private data has been used, epsilon = 0."
        )
    else:
        first = (
            f"Training satisfies (epsilon, delta)-differential privacy with epsilon = "
            f"{ceil_text(ledger.epsilon())} (rounded up) and delta = {plan.delta!r}."
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
    ]
    if 0 < ledger.updates < plan.steps:
        lines.append(
            _item(
                f"The run was planned for {plan.steps} updates. If the decision to stop earlier "
                "looked at the model or at private data, state the epsilon of the whole plan "
                f"instead: {ceil_text(plan.epsilon_after(plan.steps))} (rounded up)."
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
        _item(f"Updates: T = {ledger.updates} done of {plan.steps} planned."),
        _item(f"Noise and clipping: {noise}, l2 clipping norm C = {plan.l2_norm_clip!r}."),
        _item(f"Accountant: {accountant}."),
    ]


def _item(text: str) -> str:
    return f"- {text}"
