"""The worker processes of a sweep: how they start and end, and what happens if one dies."""

import collections
import concurrent.futures
import contextlib
import gc
import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures.process import BrokenProcessPool

import tensorflow as tf
from tensorflow import keras

from trainers.sweeps.runs import run_name
from trainers.sweeps.worker import Outcome, train


class Workers:
    """Trains runs by some workers; a run whose worker dies is tried once more.

    `make_pool` gives for a number of workers something with `ProcessPool`'s methods.
    """

    def __init__(self, job, count, make_pool, show):
        self._job, self._count = job, count
        self._make_pool, self._show = make_pool, show
        self._pool = None
        self._flying = {}  # future -> spec
        self._started = {}  # name of a run in flight -> when
        self._suspects = set()  # names of runs in flight when a worker died

    def outcomes(self, specs):
        """Trains runs, and yields pairs (spec, `Outcome`) as they end, one of each."""
        queue = collections.deque(specs)
        while queue or self._flying:
            crashed = not self._submit(queue)
            # In slices: a signal that another thread took is noticed between them.
            finished = concurrent.futures.wait(
                self._flying, timeout=1.0, return_when=concurrent.futures.FIRST_COMPLETED
            ).done
            crashed = crashed or any(map(_has_crashed, finished))
            if crashed:  # then all of them end, one way or the other
                finished = concurrent.futures.wait(self._flying).done
            in_flight = []
            for future in [future for future in self._flying if future in finished]:
                spec = self._flying.pop(future)
                del self._started[run_name(spec)]
                if _has_crashed(future):
                    in_flight.append(spec)
                else:
                    yield spec, future.result()
            if crashed:
                self.stop()
                retried = [spec for spec in in_flight if run_name(spec) not in self._suspects]
                for spec in in_flight:
                    if spec not in retried:
                        reason = "the process that trained it died, twice; too little memory?"
                        yield spec, Outcome("failed", reason=reason)
                self._suspect(retried)
                queue.extendleft(reversed(retried))

    def elapsed(self):
        """Dict from the name of each run in flight to the seconds since it was begun."""
        now = time.perf_counter()
        return {name: now - started for name, started in self._started.items()}

    def stop(self):
        """Ends all workers, whatever they are doing."""
        if self._pool is not None:
            self._pool.stop()
            self._pool = None

    def _submit(self, queue):
        """Gives runs to idle workers; returns whether the pool was whole."""
        if self._pool is None:
            self._pool = self._make_pool(self._count)
        while queue and len(self._flying) < self._count:
            names = {run_name(spec) for spec in (*self._flying.values(), queue[0])}
            # Alone: with all the memory, and if its worker dies again, there is no other suspect.
            if self._flying and names & self._suspects:
                break
            try:
                future = self._pool.submit(train, queue[0], self._job)
            except BrokenProcessPool:  # an idle worker died
                return False
            spec = queue.popleft()
            self._flying[future] = spec
            self._started[run_name(spec)] = time.perf_counter()
        return True

    def _suspect(self, specs):
        if specs:
            names = ", ".join(map(run_name, specs))
            self._show(f"A worker died while training {names}: trying once more, one at a time.")
            self._suspects.update(map(run_name, specs))


class ProcessPool:
    """Processes that train runs, each of them one after the other.

    They share the cores. They end as soon as `stop` is called or this process ends, however it
    ends, and leave the folders of their runs; Ctrl-C in a terminal does not reach them.
    """

    def __init__(self, workers):
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # inherited; read as TensorFlow loads
        allowed = getattr(os, "sched_getaffinity", None)  # not on every system
        cores = len(allowed(0)) if allowed else os.cpu_count()
        context = multiprocessing.get_context("spawn")
        self._far_end, self._lifeline = context.Pipe(duplex=False)
        self._pool = concurrent.futures.ProcessPoolExecutor(
            workers,
            mp_context=context,
            initializer=_prepare_worker,
            initargs=(self._far_end, max(1, cores // workers)),
        )

    def submit(self, function, *arguments):
        """Has a worker call a function; returns a future."""
        # Workers start here and inherit the mask, under which they get no SIGINT.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return self._pool.submit(_call_and_clear, function, *arguments)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def stop(self):
        """Ends all workers, whatever they are doing."""
        self._lifeline.close()
        self._pool.shutdown(cancel_futures=True)
        self._far_end.close()


def _prepare_worker(lifeline, threads):
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    tf.get_logger().setLevel("ERROR")  # its warnings would stand between the sweep's lines
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)


def _call_and_clear(function, *arguments):
    try:
        return function(*arguments)
    finally:
        keras.backend.clear_session()  # the next run has its memory and names for itself
        gc.collect()


def _end_with(lifeline):
    """Ends this process when the other end of the pipe is closed, or gone with its process."""
    with contextlib.suppress(EOFError, OSError):
        lifeline.recv()
    os._exit(1)


def _has_crashed(future):
    return future.done() and isinstance(future.exception(), BrokenProcessPool)
