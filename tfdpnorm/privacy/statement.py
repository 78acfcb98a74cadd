"""The privacy statement: plain English for the person who has to sign for an epsilon.

Its first lines summarise it in plain English, the rest gives the details under fixed headings
(`tfdpnorm.privacy.statement_text`). What is known of a run is in its ledger; whatever else is said
follows from the ledger alone, so that `tfdpnorm-epsilon --ledger=...` says it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdpnorm.privacy import statement_text, template
from tfdpnorm.privacy.facts import facts_of

if TYPE_CHECKING:
    from tfdpnorm.privacy.ledger import PrivacyLedger


def privacy_statement(ledger: PrivacyLedger, weights: str | None = None) -> str:
    """Says what is guaranteed so far, for whom, on what conditions, and what is not covered.

    Args:
        ledger: The `PrivacyLedger` of the run.
        weights: What the weights are known by, 64 hexadecimal digits (see
            `tfdpnorm.training.weights_digest`); None if only the ledger is there.

    Returns:
        Several lines of English, a string: about ten in plain words, then the details under
        headings. Epsilon is rounded upwards. Where no guarantee holds, the text begins with "NO
        GUARANTEE" and gives the reasons. It then gives an epsilon at most as "claimed ... not a
        guarantee".

    Raises:
        ValueError: if `ledger` is not a `PrivacyLedger`.
    """
    facts = facts_of(ledger, weights)
    lines = template.lines(statement_text.SUMMARY, facts)
    for heading, sentences in template.sections(statement_text.DETAILS, facts).items():
        lines += ["", heading, *(f"- {sentence}" for sentence in sentences)]
    return "\n".join(lines)
