"""A deliberate fault: what it changes in the source, and which tests are to notice it."""

from typing import NamedTuple


class AnchorLost(ValueError):
    """The text that a mutant replaces is not in the source any more, or is there twice."""


class Mutant(NamedTuple):
    """A fault that is put into the source on purpose.

    Attributes:
        name: What the command calls it.
        file: Path of the file that it changes, from the root of the checkout.
        edits: Pairs (old, new) of text. Each old text occurs exactly once in the file.
        harm: One line: what the fault would do.
        tests: Paths, from the root, of the quick tests that are to notice it.
    """

    name: str
    file: str
    edits: tuple
    harm: str
    tests: tuple

    def applied(self, source):
        """Returns the text of the file with the fault in it.

        Args:
            source: The text of the file as it is.

        Raises:
            AnchorLost: naming the text that does not occur exactly once.
        """
        for old, new in self.edits:
            count = source.count(old)
            if count != 1:
                raise AnchorLost(
                    f"Expected {old!r} once in {self.file}, got it {count} times. Give the mutant "
                    f"{self.name!r} the text that is there now."
                )
            source = source.replace(old, new)
        return source


def fault(name, file, old, new, harm, tests):
    """Returns a `Mutant` with one edit: the text `old`, replaced by `new`."""
    return Mutant(name, file, ((old, new),), harm, tests)


def tests_in(file, *names):
    """Returns the paths of the tests `names` in a file, as pytest takes them: a tuple."""
    return tuple(f"{file}::{name}" for name in names)
