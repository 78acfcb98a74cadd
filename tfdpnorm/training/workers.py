"""Several processes that make the same updates together, each on its share of every batch.

Each runs the same script. The first, the chief, keeps the ledger and draws the noise; no update is
made without it, and it announces each in the ledger before. Three things pass between them:

- when `fit` begins: the key that the batches are drawn by, the chief's weights and optimizer, and
  its weight of gammas and betas;
- in each update: the clipped sums, before the noise, which are added up in float64;
- then the noisy sums of the chief.
"""

import contextlib
import hashlib
import secrets

import numpy as np
import tensorflow as tf

from tfdpnorm.data.shared_lots import SharedLots
from tfdpnorm.errors import PrivacyError
from tfdpnorm.keras_compat.distribution import summed_over_processes
from tfdpnorm.keras_compat.graphs import current_graph
from tfdpnorm.keras_compat.training import (
    make_optimizer_variables,
    optimizer_variables,
    rate_variables,
)
from tfdpnorm.keras_compat.variables import weights
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.entries import Resume, Updates
from tfdpnorm.training.callbacks.private_validation import PrivateValidation
from tfdpnorm.training.resume.checkpoints import described_weights
from tfdpnorm.training.resume.resumption import WithoutRunFolder

_KEY_BYTES = 32
_LOST = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
    tf.errors.UnavailableError,
)


class WorkerLostError(RuntimeError):
    """Another process of the run has ended, or cannot be reached."""


class OneProcess:
    """What several processes do together, for one: it exchanges nothing.

    Attributes:
        is_chief: Whether this is the one that keeps the ledger and draws the noise.
        lots: `SharedLots` of the `fit` that runs; None for one process.
    """

    count, is_chief, lots = 1, True, None

    def summed(self, tensors, dtype=None):
        """Returns the tensors."""
        return tensors

    def noise_of_chief(self, noise):
        """Returns what draws the noise, like a `GaussianNoise`."""
        return noise

    def check_fit(self, batches, callbacks):
        """Rejects a `fit` that cannot be made; `batches` are None for data not sampled here."""

    def begin(self, private, batches, resumption):
        """Begins a `fit`."""

    def awaited(self):
        """Context in which other processes may end."""
        return contextlib.nullcontext()


class Workers(OneProcess):
    """The processes, at least two, of a `MultiWorkerMirroredStrategy` and its `Cluster`."""

    def __init__(self, strategy, cluster):
        self._index = cluster.index
        self.count, self.is_chief = cluster.count, cluster.index == 0
        self._last = None, None  # graph and tensor
        self._summed = tf.function(lambda vector: summed_over_processes(strategy, vector))

    def summed(self, tensors, dtype=None):
        """Returns the sums of tensors over all processes, a list like `tensors`; everywhere equal.

        Each process has as many numbers. They are added up in `dtype`, float32, float64 or int64;
        None for the one of these that holds them.
        """
        groups, found = {}, {}
        for index, tensor in enumerate(tensors):
            groups.setdefault(dtype or _carrier(tensor.dtype), []).append(index)
        for carrier, indices in groups.items():
            flat = [tf.reshape(tf.cast(tensors[i], carrier), [-1]) for i in indices]
            total = self._one_after_the_other(tf.concat(flat, axis=0))
            parts = tf.split(total, [tensors[i].shape.num_elements() for i in indices])
            for i, part in zip(indices, parts, strict=True):
                found[i] = tf.cast(tf.reshape(part, tensors[i].shape), tensors[i].dtype)
        return [found[i] for i in range(len(tensors))]

    def _one_after_the_other(self, vector):
        """The sum of the vectors of all processes, after the last one that the graph asks for.

        Two that could run at once may begin in another order in each process. With few threads each
        would wait for the other.
        """
        if tf.executing_eagerly():
            return self._summed(vector)
        graph, last = self._last
        before = [last] if graph is current_graph() else []
        with tf.control_dependencies(before):
            total = self._summed(tf.identity(vector))
        self._last = current_graph(), total
        return total

    def from_chief(self, tensors):
        """Returns the chief's tensors in every process: the others add zeros, which is exact."""
        return self.summed(tensors if self.is_chief else [tf.zeros_like(t) for t in tensors])

    def noise_of_chief(self, noise):
        """Returns what makes the chief's noise in all processes; see `GaussianNoise`."""
        return _NoiseOfChief(noise, self)

    def check_fit(self, batches, callbacks):
        """Rejects a `fit` that several processes cannot make together."""
        if batches is None:
            raise PrivacyError(
                "fit() in several processes needs arrays or tfdpnorm.data.poisson_batches(...): "
                "for other data, it is unknown which examples a process has. Pass one of these."
            )
        if any(isinstance(callback, PrivateValidation) for callback in callbacks):
            raise PrivacyError(
                "PrivateValidation is not supported in several processes: each process would make "
                "its own queries, and their costs add up. Validate on public data, or train in one "
                "process."
            )

    def begin(self, private, batches, resumption):
        """Begins a `fit`: compares what the processes train, and gives all of them the same state.

        The chief has restored the run of `private`. `resumption` is a `Resumption` or
        `WithoutRunFolder` of the chief, and a `FollowsChief` of the others. Raises ValueError if
        the processes differ in plan, model, optimizer or data.
        """
        with self.awaited():
            self._begin(private, batches, resumption)

    def _begin(self, private, batches, resumption):
        mine = tf.constant(np.frombuffer(_digest(private, batches), np.int64))
        (of_chief,) = self.from_chief([mine])
        differs = tf.cast(tf.reduce_any(of_chief != mine), tf.int64)
        (differing,) = self.summed([differs])
        if differing:
            which = "This process differs" if differs else f"{int(differing)} process(es) differ"
            raise PrivacyError(
                f"{which} from the chief, in the plan, settings, model, optimizer or examples, or "
                "in the order of the examples. Give all processes the same: an example at two "
                "positions would count twice."
            )
        key = secrets.token_bytes(_KEY_BYTES) if self.is_chief else bytes(_KEY_BYTES)
        (key,) = self.from_chief([tf.constant(list(key), tf.int64)])
        self.lots = SharedLots(bytes(key.numpy().tolist()), self._index, self.count)
        self._follow_ledger(private, resumption)
        make_optimizer_variables(private.optimizer, private.model.trainable_variables)
        variables = [
            *weights(private.model),
            *optimizer_variables(private.optimizer),
            *rate_variables(private.optimizer),
        ]
        values = self.from_chief([tf.convert_to_tensor(v.read_value()) for v in variables])
        # The chief has settled on its weight by other initial weights.
        (weight,) = self.from_chief([tf.constant(private.streams.pull_back_weight, tf.float64)])
        private.streams.pull_back_weight = float(weight)
        if not self.is_chief:
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)
            private.session.leave(private.optimizer)
            private.refresh_public_statistics()
        private.ledger.record(caveat("several_workers"))

    @contextlib.contextmanager
    def awaited(self):
        """Context in which an error of the exchange is raised as `WorkerLostError`."""
        try:
            yield
        except _LOST as error:
            # The line of TensorFlow's that says why the exchange ended.
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            aborted = [line for line in lines if "aborted by" in line]
            reason = aborted[0] if aborted else (lines or ["nothing"])[-1]
            raise WorkerLostError(
                "Another process of the run has ended, or cannot be reached. The updates that the "
                "ledger has announced are spent. End all processes, and start them again, as many "
                "as you like: with RunDir(path, resume=True) the run continues from its last "
                f"checkpoint. TensorFlow says: {reason}"
            ) from error

    def _follow_ledger(self, private, resumption):
        """Gives the ledger in memory of a worker what that of the chief has spent."""
        ledger = private.ledger
        state = ledger.state
        spent = [state.updates, state.position, int(private.update_count), resumption.restores]
        (spent,) = self.from_chief([tf.constant([int(n) for n in spent], tf.int64)])
        updates, position, made, is_resumed = map(int, spent)
        if self.is_chief:
            return
        if updates > state.updates:
            ledger.record(Updates(updates - state.updates))
        if position != ledger.state.position:
            ledger.record(Resume(position))
        private.update_count.assign(made)
        resumption.position = position if is_resumed else None


class FollowsChief(WithoutRunFolder):
    """A worker's part of a run folder: it keeps nothing, and begins where the chief does.

    `position` is the updates that the weights of a resumed run have seen; None for a new one.
    """

    position = None

    def start_within_epoch(self, steps_per_epoch):
        """As that of `Resumption`."""
        position, self.position = self.position, None
        return None if position is None else divmod(position, steps_per_epoch)


class _NoiseOfChief:
    """Noise that the chief draws, and everybody gets."""

    def __init__(self, noise, workers):
        self._noise, self._workers = noise, workers

    def noised(self, sums, stddev, update):
        """As that of `GaussianNoise`."""
        if self._workers.is_chief:
            sums = self._noise.noised(sums, stddev, update)
        return self._workers.from_chief(sums)


def _carrier(dtype):
    """The dtype in which numbers of another dtype are sent without loss."""
    if dtype == tf.float64:
        return tf.float64
    return tf.float32 if dtype.is_floating else tf.int64


def _digest(private, batches):
    """The values that must be equal in all processes, as bytes."""
    found = hashlib.sha256()
    described = [
        private.plan,
        sorted(private.ledger.settings.items()),
        private.slots,
        described_weights(private.model),
        private.optimizer_settings,
        type(batches.x).__name__,
    ]
    found.update(repr(described).encode())
    # Examples that are read on demand come in blocks, and all of them are read.
    persons = [] if batches.persons is None else [[t.numpy() for t in batches.persons.index]]
    blocks = (*batches.examples.blocks(), *persons)
    for array in (leaf for block in blocks for leaf in tf.nest.flatten(block)):
        if array is not None:
            found.update(f"{array.dtype.str}{array.shape}".encode())
            is_text = array.dtype == object
            found.update(repr(array.tolist()).encode() if is_text else np.ascontiguousarray(array))
    return found.digest()
