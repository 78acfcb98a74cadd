"""Fills in the template of `statement_text`, which explains its brackets and braces."""

import math
import re
import string

from tfdpnorm.privacy.rounding import ceil_text, delta_text, number, percent

_ACCOUNTANTS = {
    "rdp": "Renyi differential privacy (RDP)",
    "pld": "privacy loss distributions (PLD)",
}
_ATTACHED = (",", ";", ".", ")")  # at the start of words that follow without a space
_PIECE = re.compile(r"((?:\[[^]]*\])*)\s*(.*)", re.DOTALL)


def lines(template, facts):
    """Returns the lines of a template without sections, a list."""
    return list(_Words(facts).lines(template.strip("\n")))


def sections(template, facts):
    """Returns the lines below each heading that there is, without "- ": a dict of lists."""
    found = {}
    for section in template.strip("\n").split("\n\n"):
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


def _at_most(count):
    return "at most one" if count == 1 else f"up to {count}"


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
    "at_most": _at_most,
    "times": lambda count: "once" if count == 1 else f"{count} times",
    "given": lambda text: text or "not given",
    "accountant": _ACCOUNTANTS.get,
    "amounts": lambda of: ", ".join(f"{ceil_text(most)} for {why}" for why, most in of.items()),
    "rates": lambda of: ", ".join(f"{ceil_text(best, 3)} at {rate:g}" for rate, best in of.items()),
    "phases": lambda phases: "; ".join(f"run {each.run} ({each.in_words})" for each in phases),
    **{
        noun: lambda count, noun=noun: number(count, noun)
        for noun in ("update", "release", "answer", "example")
    },
}
