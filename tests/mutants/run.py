"""Puts each mutant into a copy of the checkout, and says whether the quick tests notice it.

    python -m tests.mutants.run              # all of them: about an hour
    python -m tests.mutants.run NAME ...
    python -m tests.mutants.run --list

The checkout itself is not touched. The exit status is 0 if every mutant was killed.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from tests.mutants.mutant import AnchorLost
from tests.mutants.registry import named

ROOT = pathlib.Path(__file__).resolve().parents[2]
_LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "outputs", "*.egg-info", "build", "dist")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_MOST_SECONDS = 900


class Copy:
    """A copy of the checkout that is changed, tested and put right again.

    Args:
        folder: Where it is made; a folder that exists and is empty.
    """

    def __init__(self, folder):
        self._root = pathlib.Path(folder) / "checkout"
        shutil.copytree(ROOT, self._root, ignore=_LEFT_OUT)

    def outcome(self, mutant):
        """What becomes of a mutant: a pair (word, what it rests on).

        The word is "killed", with the test that failed; "survived"; "anchor lost"; or "broken",
        where the tests could not be run to an end, so that nothing is known.
        """
        file = self._root / mutant.file
        try:
            changed = mutant.applied(file.read_text("utf-8"))
        except (AnchorLost, OSError) as error:
            return "anchor lost", str(error)
        file.write_text(changed, "utf-8")
        try:
            result = self._tested(mutant.tests, "-x", timeout=_MOST_SECONDS)
        except subprocess.TimeoutExpired:
            return "broken", f"not done after {_MOST_SECONDS} s"
        finally:
            shutil.copy2(ROOT / mutant.file, file)
        failed = _FAILED.search(result.stdout)
        if result.returncode == 0:
            return "survived", mutant.harm
        if result.returncode == 1 and failed:
            return "killed", failed[1]
        return "broken", _last_lines(result.stdout)

    def check_unchanged(self, mutants):
        """Runs the tests of all these mutants without any of them.

        Raises:
            RuntimeError: with pytest's last lines, unless all tests pass: then "killed" would mean
                nothing; or if it is not the copy that is tested.
        """
        found = self._run("-c", "import tfdpnorm; print(tfdpnorm.__file__)").stdout.strip()
        if pathlib.Path(found).resolve().parents[1] != self._root.resolve():
            raise RuntimeError(f"Expected the tests to import tfdpnorm from the copy, got {found}.")
        # Sorted: pytest finds the fixtures of a folder whose tests it is given in one piece.
        result = self._tested(sorted({test for mutant in mutants for test in mutant.tests}))
        if result.returncode != 0:
            raise RuntimeError(
                "Expected the tests to pass without any mutant, got\n" + _last_lines(result.stdout)
            )

    def _tested(self, tests, *options, timeout=None):
        quick = ("-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider")
        return self._run(*quick, *options, *tests, timeout=timeout)

    def _run(self, *arguments, timeout=None):
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self._root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
        )


def main(arguments=None):
    """Runs the program; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="mutants to run; all of them by default")
    parser.add_argument("--list", action="store_true", help="show the mutants and run nothing")
    given = parser.parse_args(arguments)
    try:
        mutants = named(given.names)
    except ValueError as error:
        parser.error(str(error))
    if given.list:
        for mutant in mutants:
            print(f"{mutant.name:<44}{mutant.file}\n    {mutant.harm}")
        return 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        return _report(Copy(folder), mutants)


def _report(copy, mutants):
    begin = time.monotonic()
    copy.check_unchanged(mutants)
    print(f"Without mutants all tests pass ({time.monotonic() - begin:.0f} s).", flush=True)
    words = []
    for mutant in mutants:
        begin = time.monotonic()
        word, detail = copy.outcome(mutant)
        words.append(word)
        print(f"{word:<12}{time.monotonic() - begin:5.0f} s  {mutant.name:<44}{detail}", flush=True)
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    print(f"{len(words)} mutants: {counts}.")
    return 0 if set(words) <= {"killed"} else 1


def _last_lines(text):
    return "\n".join(text.splitlines()[-15:])


if __name__ == "__main__":
    sys.exit(main())
