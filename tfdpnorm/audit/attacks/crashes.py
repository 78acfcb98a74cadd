"""Whether a training survives being killed, and whether its ledger still counts everything."""

import dataclasses
import functools
import os
import pathlib
import signal
import time


@dataclasses.dataclass
class Survival:
    """The outcome of one training that was killed repeatedly.

    Attributes:
        kills: How often it was killed.
        seconds: How long all of it took.
    """

    kills: int
    seconds: float


def kill_until_done(train, *, kills, longest_life, rng, echo=lambda line: None):
    """Runs `train` in processes and kills them at random moments, until one ends by itself.

    Each process is a fork of this one, which must not have run a TensorFlow operation yet: a fork
    inherits its memory, but none of its threads.

    Args:
        train: Function of one argument, a function that it calls as its first sign of life. It
            must resume what a killed process began.
        kills: How many processes to kill at most; the next one may finish.
        longest_life: Seconds. Each process is killed after a random part of them, counted from its
            start or, for every other one, from its first sign of life.
        rng: `random.Random`.
        echo: Function that shows a line.

    Returns:
        `Survival`.

    Raises:
        RuntimeError: if a process ends by itself with an error.
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
                f"Expected the training to succeed after {killed} kills, got exit code "
                f"{os.waitstatus_to_exitcode(status)}."
            )
        return Survival(killed, time.perf_counter() - started)


class Witness:
    """Records what a training released, independently of its ledger.

    Args:
        path: File to append to; it loses no line when the process is killed.
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
        """How many different pairs (update, release) were seen."""
        return len(set(self.path.read_text().splitlines())) if self.path.exists() else 0

    def sights(self):
        """How many pairs were seen, repetitions included."""
        return len(self.path.read_text().splitlines()) if self.path.exists() else 0


def _live(train, alive):
    """Runs the training in the child process; never returns."""
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
