"""Whether a training survives interruptions, and whether its ledger still counts everything."""

import collections
import dataclasses
import functools
import os
import pathlib
import signal
import time

SIGNALS = {"kill": signal.SIGKILL, "ctrl_c": signal.SIGINT}
"""Interruptions that come from outside, by name."""

INTERRUPTIONS = (*SIGNALS, "exception", "full_disk")
"""All of them; the training brings the others about by itself, told by a `Harm`."""

_FAILED, _INTERRUPTED = 1, 3  # exit codes
_PATIENCE = 30.0  # seconds that a process has to end after Ctrl-C


class Interrupted(Exception):
    """What a training raises to interrupt itself."""


@dataclasses.dataclass
class Harm:
    """An interruption that a training has to bring about by itself.

    Attributes:
        kind: "exception", to be raised as `Interrupted`, or "full_disk".
        when: In [0, 1): at which part of the training.
    """

    kind: str
    when: float


@dataclasses.dataclass
class Survival:
    """The outcome of one training that was interrupted repeatedly.

    Attributes:
        kills: How often it was interrupted.
        seconds: How long all of it took.
        by_kind: Counter of interruptions by name.
    """

    kills: int
    seconds: float
    by_kind: collections.Counter


def kill_until_done(train, *, kills, longest_life, rng, echo=lambda line: None, kinds=("kill",)):
    """Runs `train` in processes and interrupts them at random moments, until one ends by itself.

    Each process is a fork of this one, which must not have run a TensorFlow operation yet: a fork
    inherits its memory, but none of its threads.

    Args:
        train: Function of one argument, a function that it calls as its first sign of life. It
            must resume what an interrupted process began. With kinds that are no signals it gets a
            second one, `harm`: a `Harm`, or None.
        kills: How many processes to interrupt at most; the next one may finish.
        longest_life: Seconds. Each process is killed after a random part of them, counted from its
            start or, for every other one, from its first sign of life.
        rng: `random.Random`.
        echo: Function that shows a line.
        kinds: Which of `INTERRUPTIONS` to choose from.

    Returns:
        `Survival`.

    Raises:
        RuntimeError: if a process ends by itself with an error.
    """
    started, killed = time.perf_counter(), collections.Counter()
    while True:
        kind = rng.choice(kinds) if killed.total() < kills else None
        harm = None if kind in (None, *SIGNALS) else Harm(kind, rng.random())
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            alive = functools.partial(os.write, writing, b".")
            _live(
                train if set(kinds) <= set(SIGNALS) else functools.partial(train, harm=harm), alive
            )
        os.close(writing)
        if kind in SIGNALS:
            if killed.total() % 2:
                os.read(reading, 1)  # returns at the end of the process too
            _sleep_while_alive(child, rng.uniform(0, longest_life))
            os.kill(child, SIGNALS[kind])
            _sleep_while_alive(child, _PATIENCE)
            if not _has_ended(child):
                os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        os.close(reading)
        code = os.waitstatus_to_exitcode(status)
        if kind == "ctrl_c" and code == _FAILED:
            # TensorFlow's C++ code (tf.nest) makes another error of a KeyboardInterrupt. What it
            # was is on standard error; an error of the training's own comes again uninterrupted.
            kind, code = "ctrl_c as another error", _INTERRUPTED
        if kind is not None and code in (-signal.SIGKILL, -signal.SIGINT, _INTERRUPTED):
            killed[kind] += 1
            echo(f"  interrupted {killed.total()}: {kind}")
            continue
        if code != 0:
            raise RuntimeError(
                f"Expected the training to succeed after {killed.total()} kills, got exit code "
                f"{code}."
            )
        return Survival(killed.total(), time.perf_counter() - started, killed)


class Witness:
    """Records what a training draws, independently of its ledger, before anybody can use it.

    Args:
        path: File to append to; it loses no line when the process is killed.
    """

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def see(self, *words):
        """Notes words without spaces, as a line."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, f"{' '.join(map(str, words))}\n".encode())
        finally:
            os.close(descriptor)

    def seen(self):
        """The lines so far, a list of lists of words."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [line.split() for line in lines]


def _live(train, alive):
    """Runs the training in the child process; never returns."""
    code = _FAILED
    # A shell starts what runs in the background with Ctrl-C ignored, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        train(alive)
        code = 0
    except (KeyboardInterrupt, Interrupted):
        code = _INTERRUPTED
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _sleep_while_alive(child, seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        if _has_ended(child):
            return
        time.sleep(min(0.005, max(0.0, until - time.perf_counter())))


def _has_ended(child):
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
