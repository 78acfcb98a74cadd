"""Parts of privacy statements, for tests that read them."""

import re

_BY_RUN = ("How to check it: ", "What it is about: ")


def summary(text):
    """The lines before the details, a list, without their numbers."""
    lines = text.partition("\n\n")[0].splitlines()
    return [re.sub(r"^\d+\. ", "", line) for line in lines]


def section(text, heading):
    """The lines under a heading, without "- "."""
    (found,) = [part for part in text.split("\n\n") if part.split("\n")[0] == heading]
    return [line.removeprefix("- ") for line in found.splitlines()[1:]]


def headings(text):
    return [part.split("\n")[0] for part in text.split("\n\n")[1:]]


def of_any_run(text):
    """A statement without what differs between two runs of the same kind: a list of lines."""
    lines = [re.sub(r"^\d+\. ", "", line) for line in text.splitlines()]
    return [line for line in lines if not line.startswith(_BY_RUN)]
