"""Does a training survive being killed, and does its ledger then still count everything?"""

import dataclasses
import functools
import os
import pathlib
import signal
import time


@dataclasses.dataclass
class Survival:
    """What became of one training that was killed again and again.

    Attributes:
        kills: How often it was killed.
        seconds: Of the whole.
    """

    kills: int
    seconds: float


def kill_until_done(train, *, kills, longest_life, rng, echo=lambda line: None):
    """Runs `train` in processes that are killed at random moments, until one ends by itself.

    Each process is a fork of this one, which must not have run a TensorFlow operation yet: a fork
    inherits its memory, but none of its threads.

    Args:
        train: Function without arguments. It must go on where a killed one ended.
        kills: Kill at most so many, and let the next one live.
        longest_life: Seconds; each process is killed after a random part of them, counted from its
            beginning or, for every other one, from its first sign of life: `train` is given a
            function to call then.
        rng: `random.Random`.
        echo: Function that shows a line.

    Returns:
        `Survival`.

    Raises:
        RuntimeError: if a process ends by itself, and not well.
    """
    started, killed = time.perf_counter(), 0
    while True:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _live(train, functools.partial(os.write, writing, b"."))
        os.close(writing)
        if killed < kills:
            if killed % 2:
                os.read(reading, 1)  # returns at the end of the process too
            _sleep_while_alive(child, rng.uniform(0, longest_life))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        os.close(reading)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            killed += 1
            echo(f"  killed {killed}")
            continue
        if os.waitstatus_to_exitcode(status) != 0:
            raise RuntimeError(
                f"Expected the training to end well after {killed} kills, got exit code "
                f"{os.waitstatus_to_exitcode(status)}."
            )
        return Survival(killed, time.perf_counter() - started)


class Witness:
    """Writes down what got out of a training, apart from its ledger.

    Args:
        path: File, appended to; no line of it is lost when the process is killed.
    """

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def see(self, update, release):
        """Notes that `release`, a text, was seen after `update`."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, f"{update} {release}\n".encode())
        finally:
            os.close(descriptor)

    def releases(self):
        """How many different (update, release) were seen."""
        return len(set(self.path.read_text().splitlines())) if self.path.exists() else 0

    def sights(self):
        """How many were seen, repetitions included."""
        return len(self.path.read_text().splitlines()) if self.path.exists() else 0


def _live(train, alive):
    """The life of a child; it never returns."""
    code = 1
    try:
        train(alive)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _sleep_while_alive(child, seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return
        time.sleep(min(0.005, max(0.0, until - time.perf_counter())))
