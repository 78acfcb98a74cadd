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
    """Trains runs by some workers, each a pool of one process: one that dies takes no other along.

    `make_pool` gives, for the number of workers that share the machine, something with
    `ProcessPool`'s methods.
    """

    def __init__(self, job, make_pool):
        self._job, self._make_pool = job, make_pool
        self._idle, self._flying = [], {}  # pools; future -> (spec, pool, when it was begun)

    def outcomes(self, specs, count):
        """Trains runs, `count` at once, and yields pairs (spec, `Outcome`) as they end."""
        queue = collections.deque(specs)
        while queue or self._flying:
            while queue and len(self._flying) < count:
                pool = self._idle.pop() if self._idle else self._make_pool(count)
                future = pool.submit(train, queue[0], self._job)
                self._flying[future] = queue.popleft(), pool, time.perf_counter()
            # In slices: a signal that another thread took is noticed between them.
            finished = concurrent.futures.wait(
                self._flying, timeout=1.0, return_when=concurrent.futures.FIRST_COMPLETED
            ).done
            for future in [future for future in self._flying if future in finished]:
                spec, pool, _ = self._flying.pop(future)
                if isinstance(future.exception(), BrokenProcessPool):
                    pool.stop()
                    reason = "the process that trained it died; too little memory?"
                    yield spec, Outcome("died", reason=reason)
                else:
                    self._idle.append(pool)
                    yield spec, future.result()

    def elapsed(self):
        """Dict from the name of each run in flight to the seconds since it was begun."""
        now = time.perf_counter()
        return {run_name(spec): now - begun for spec, _, begun in self._flying.values()}

    def stop(self):
        """Ends all workers, whatever they are doing."""
        for pool in [*self._idle, *(pool for _, pool, _ in self._flying.values())]:
            pool.stop()
        self._idle, self._flying = [], {}


class ProcessPool:
    """A process that trains runs, one after the other; it shares the cores with other workers.

    It has the GPU that the fewest others have, if there is any. It ends as soon as `stop` is called
    or this process ends, however it ends, and leaves the folder of its run; Ctrl-C in a terminal
    does not reach it.
    """

    _users = collections.Counter()  # of each GPU

    def __init__(self, workers):
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # inherited; read as TensorFlow loads
        allowed = getattr(os, "sched_getaffinity", None)  # not on every system
        cores = len(allowed(0)) if allowed else os.cpu_count()
        self._device = min(gpus(), key=self._users.__getitem__, default=None)
        self._users[self._device] += 1
        context = multiprocessing.get_context("spawn")
        self._far_end, self._lifeline = context.Pipe(duplex=False)
        self._pool = concurrent.futures.ProcessPoolExecutor(
            1,
            mp_context=context,
            initializer=_prepare_worker,
            initargs=(self._far_end, max(1, cores // workers), self._device),
        )

    def submit(self, function, *arguments):
        """Has the worker call a function; returns a future."""
        # The worker starts here and inherits the mask, under which it gets no SIGINT.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return self._pool.submit(_call_and_clear, function, *arguments)
        except BrokenProcessPool as error:  # it died while it was idle
            future = concurrent.futures.Future()
            future.set_exception(error)
            return future
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def stop(self):
        self._users[self._device] -= 1
        self._lifeline.close()
        self._pool.shutdown(cancel_futures=True)
        self._far_end.close()


def gpus():
    """Returns the names of the GPUs that this process may use, as CUDA_VISIBLE_DEVICES has them."""
    count = len(tf.config.list_physical_devices("GPU"))
    named = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(count))))
    return named.split(",")[:count]


def _prepare_worker(lifeline, threads, device):
    if device is not None:  # before TensorFlow looks for any
        os.environ["CUDA_VISIBLE_DEVICES"] = device

    def end_with_the_sweep():
        with contextlib.suppress(EOFError, OSError):  # the pipe is closed, or gone with its process
            lifeline.recv()
        os._exit(1)

    threading.Thread(target=end_with_the_sweep, daemon=True).start()
    tf.get_logger().setLevel("ERROR")  # its warnings would stand between the sweep's lines
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)


def _call_and_clear(function, *arguments):
    try:
        return function(*arguments)
    finally:
        keras.backend.clear_session()  # the next run has its memory and names for itself
        gc.collect()
