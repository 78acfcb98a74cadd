"""Puts each mutant into a copy of the checkout, and says whether the quick tests notice it.

    python -m tests.mutants.run              # all of them: MINUTES minutes on two cores
    python -m tests.mutants.run NAME ...
    python -m tests.mutants.run --list

The checkout itself is not touched. The exit status is 0 if every mutant was killed. Each mutant is
tested in a process that is forked from one that has loaded TensorFlow, but not tfdpnorm: most of
them take a second or two.
"""

import argparse
import importlib
import multiprocessing
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import time

from tests.mutants.mutant import AnchorLost
from tests.mutants.registry import named

ROOT = pathlib.Path(__file__).resolve().parents[2]
_LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "outputs", "*.egg-info", "build", "dist")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_MOST_SECONDS = 900
_LOADED_ONCE = ("numpy", "scipy.stats", "dp_accounting.pld", "tensorflow", "keras", "pytest")


class Copy:
    """A copy of the checkout that is changed, tested and put right again.

    Args:
        folder: Where it is made.
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
            status, text = self._tested(mutant.tests, "-x")
        finally:
            shutil.copy2(ROOT / mutant.file, file)
        failed = _FAILED.search(text)
        if status == 0:
            return "survived", mutant.harm
        if status == 1 and failed:
            return "killed", failed[1]
        return "broken", _last_lines(text)

    def check_unchanged(self, mutants):
        """Runs the tests of all these mutants without any of them.

        Raises:
            RuntimeError: with pytest's last lines, unless all tests pass: then "killed" would mean
                nothing; or if it is not the copy that is tested.
        """
        where = self._root / "tests" / "test_where.py"
        where.write_text(
            "import pathlib, tfdpnorm\n\n\ndef test_the_copy_is_tested():\n"
            "    assert pathlib.Path(tfdpnorm.__file__).parents[1] == pathlib.Path.cwd()\n"
        )
        # Sorted: pytest finds the fixtures of a folder whose tests it is given in one piece.
        tests = sorted({test for mutant in mutants for test in mutant.tests})
        status, text = self._tested(["tests/test_where.py", *tests], seconds=None)
        where.unlink()
        if status != 0:
            raise RuntimeError(
                "Expected the tests to pass without any mutant, got\n" + _last_lines(text)
            )

    def _tested(self, tests, *options, seconds=_MOST_SECONDS):
        """Runs pytest in a process of its own: returns its status, None if stopped, and text."""
        quick = ("-q", "-m", "not slow", "-p", "no:cacheprovider", *options, *tests)
        with tempfile.TemporaryFile("w+") as output:
            child = os.fork()
            if not child:
                _test_and_exit(self._root, quick, output.fileno(), seconds)
            _, ended = os.waitpid(child, 0)
            output.seek(0)
            text = output.read()
        if os.WIFSIGNALED(ended):
            return None, f"{text}\nended by signal {os.WTERMSIG(ended)} ({seconds} s are allowed)"
        return os.WEXITSTATUS(ended), text


def _test_and_exit(root, arguments, output, seconds):
    """In a forked process: tests the checkout in `root`, and ends the process."""
    status = 3  # pytest's own for an internal error
    try:
        os.setpgid(0, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        signal.alarm(seconds or 0)
        os.chdir(root)
        sys.path[:0] = [str(root)]
        sys.stdout, sys.stderr = (open(file, "w", closefd=False) for file in (1, 2))
        for name in list(sys.modules):
            if name.split(".")[0] in ("tests", "tfdpnorm"):
                del sys.modules[name]
        sys.dont_write_bytecode = True
        importlib.invalidate_caches()
        status = sys.modules["pytest"].main(list(arguments))
        sys.stdout.flush()
    finally:
        os._exit(status)


def _load_once():
    """Loads what all tests need and no mutant changes: a fork of this process has it."""
    os.environ.update(TF_NUM_INTRAOP_THREADS="1", TF_NUM_INTEROP_THREADS="1")
    for name in _LOADED_ONCE:
        importlib.import_module(name)


def main(arguments=None):
    """Runs the program; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="mutants to run; all of them by default")
    parser.add_argument("--workers", type=int, default=2, help="how many are run side by side")
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
    _load_once()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        return _report(pathlib.Path(folder), mutants, given.workers)


def _report(folder, mutants, workers):
    begin = time.monotonic()
    Copy(folder / "unchanged").check_unchanged(mutants)
    print(f"Without mutants all tests pass ({time.monotonic() - begin:.0f} s).", flush=True)
    words = []
    with multiprocessing.get_context("fork").Pool(workers, _make_copy, (folder,)) as pool:
        for mutant, word, detail, seconds in pool.imap(_outcome, mutants):
            words.append(word)
            print(f"{word:<12}{seconds:5.0f} s  {mutant.name:<44}{detail}", flush=True)
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    print(f"{len(words)} mutants: {counts}.")
    return 0 if set(words) <= {"killed"} else 1


def _make_copy(folder):
    global _copy  # the one of a worker
    _copy = Copy(folder / str(os.getpid()))


def _outcome(mutant):
    begin = time.monotonic()
    return mutant, *_copy.outcome(mutant), time.monotonic() - begin


def _last_lines(text):
    return "\n".join(text.splitlines()[-15:])


if __name__ == "__main__":
    sys.exit(main())
