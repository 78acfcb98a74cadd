"""The privacy statement: plain English for the person who has to sign for an epsilon.

Its first lines summarise it, the rest gives the details under fixed headings. What is known of a
run is in its ledger; whatever else is said follows from the ledger alone, so that
`tfdpnorm-epsilon --ledger=...` says it again. `tfdpnorm.privacy.statement_text` has the sentences,
and explains the brackets and braces that are filled in here.
"""

from __future__ import annotations

import math
import re
import string
from typing import TYPE_CHECKING

from tfdpnorm.privacy.accountants import accountant_of
from tfdpnorm.privacy.facts import facts_of
from tfdpnorm.privacy.rounding import ceil_text, delta_text, number, percent
from tfdpnorm.privacy.statement_text import DETAILS, SHORT, SUMMARY

if TYPE_CHECKING:
    from tfdpnorm.privacy.ledger import PrivacyLedger

_ATTACHED = (",", ";", ".", ")")  # at the start of words that follow without a space
_PIECE = re.compile(r"((?:\[[^]]*\])*)\s*(.*)", re.DOTALL)


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
    lines = lines_of(SUMMARY, facts)
    for heading, sentences in sections_of(facts).items():
        lines += ["", heading, *(f"- {sentence}" for sentence in sentences)]
    return "\n".join(lines)


def privacy_summary(ledger: PrivacyLedger, weights: str | None = None) -> str:
    """Says in three lines what `privacy_statement` says, which is the text to sign.

    Args:
        ledger: The `PrivacyLedger` of the run.
        weights: As in `privacy_statement`.

    Returns:
        Epsilon and delta, for whom; what they leave open; and where the statement is. Or "NO
        GUARANTEE" with the reasons.

    Raises:
        ValueError: if `ledger` is not a `PrivacyLedger`.
    """
    return "\n".join(lines_of(SHORT, facts_of(ledger, weights)))


def lines_of(template, facts):
    """Returns the lines of a template without sections, a list."""
    return list(_Words(facts).lines(template.strip("\n")))


def sections_of(facts):
    """Returns the lines of `DETAILS` by heading, without "- ": a dict of lists."""
    found = {}
    for section in DETAILS.strip("\n").split("\n\n"):
        heading, _, body = section.partition("\n")
        words = _Words(facts)
        for title in words.lines(heading):
            found[title] = [line.removeprefix("- ") for line in words.lines(body)]
    return found


class _Words(string.Formatter):
    def __init__(self, facts):
        self._facts = facts

    def lines(self, text):
        for paragraph in re.split(r"\n(?=\S)", text):
            (conditions, first), *others = map(_parsed, re.split(r"\n  (?=\[)", paragraph))
            if not self._hold(conditions):
                continue
            if first.startswith("- *"):
                yield from (f"- {sentence}" for sentence in self._facts[first[3:]])
                continue
            line = self.format(first)
            for conditions, words in others:
                if self._hold(conditions):
                    line += "" if words.startswith(_ATTACHED) or not line else " "
                    line += self.format(words)
            yield line

    def _hold(self, conditions):
        return all(map(self._holds, conditions))

    def _holds(self, condition):
        name = condition.removeprefix("not ")
        if name.startswith("caveat "):
            value = self._facts["state"].has_code(name.removeprefix("caveat "))
        else:
            value, _ = self.get_field(name, (), {})
        return bool(value) == (name == condition)

    def get_value(self, key, args, kwargs):
        return self._facts[key]

    def format_field(self, value, format_spec):
        if format_spec in _FORMATS:
            return _FORMATS[format_spec](value)
        return super().format_field(value, format_spec)


def _parsed(piece):
    """The conditions before a piece, and its words in one line."""
    brackets, words = _PIECE.match(piece).groups()
    conditions = [name for name in brackets.strip("[]").split("][") if name]
    return conditions, " ".join(words.split())


def _one_in(probability):
    if not 0 < probability < 0.5:
        return f"{probability:g}"
    return f"1 in {math.floor((1 + 1e-9) / probability):,}"


_FORMATS = {
    "up": ceil_text,
    "up2": lambda value: ceil_text(value, 2),
    "up3": lambda value: ceil_text(value, 3),
    "delta": delta_text,
    "percent": percent,
    "one_in": _one_in,
    "at_most": lambda count: "at most one" if count == 1 else f"up to {count}",
    "times": lambda count: "once" if count == 1 else f"{count} times",
    "given": lambda text: text or "not given",
    "accountant": lambda name: accountant_of(name).in_words,
    "amounts": lambda of: ", ".join(f"{ceil_text(most)} for {why}" for why, most in of.items()),
    "rates": lambda of: ", ".join(f"{ceil_text(best, 3)} at {rate}" for rate, best in of.items()),
    "phases": lambda phases: "; ".join(f"run {each.run} ({each.in_words})" for each in phases),
    **{
        noun: lambda count, noun=noun: number(count, noun)
        for noun in ("update", "release", "answer", "example")
    },
}
