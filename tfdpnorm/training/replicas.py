"""The devices that the physical batches of an update are summed on, each its share of them.

Nothing but the clipped sums is spread: there is one batch for all devices, of one process or of
several (`tfdpnorm.training.workers`), and their sums are added up before the noise. Keras does not
know of it, and the model has one copy in each process.
"""

import tensorflow as tf

from tfdpnorm.data.shared_lots import share
from tfdpnorm.independence.changed_state import changed_by
from tfdpnorm.keras_compat.distribution import (
    STRATEGIES,
    cluster_of,
    devices_of,
    is_handle_of_variable,
    is_traced,
    on_device,
    threads_between_operations,
    value_of,
)
from tfdpnorm.training.workers import OneProcess, Workers

_JUMP = 2**40  # of the numbers of a random state, from device to device


def replicas_of(strategy):
    """Returns the `Replicas` of a `tf.distribute` strategy; `OneDevice` for None.

    Raises ValueError for a strategy that is not supported.
    """
    if strategy is None:
        return OneDevice()
    if not isinstance(strategy, STRATEGIES):
        raise ValueError(
            "Expected strategy to be a tf.distribute.MirroredStrategy or "
            f"MultiWorkerMirroredStrategy, or None, got {type(strategy).__name__}: private "
            "training is not implemented for others. Pass one of these."
        )
    cluster = cluster_of(strategy)
    if cluster.count > 1 and threads_between_operations() < 2:
        raise ValueError(
            "TensorFlow runs only one operation at a time in this process, which is one of "
            "several: an exchange holds a thread while it waits for others, and would never end. "
            "Call tf.config.threading.set_inter_op_parallelism_threads(4) before anything else."
        )
    return Replicas(devices_of(strategy), Workers(strategy, cluster) if cluster.count > 1 else None)


class OneDevice:
    """An update that one device of one process makes: the physical batches one after the other.

    Attributes:
        count: The number of devices, in all processes.
        workers: `Workers` of several processes, or `OneProcess`.
    """

    count, workers = 1, OneProcess()

    def of_shares(self, add_up, function, lot):
        """Returns a list of `add_up(function, share)` for the share of each device.

        `function` is one of a physical batch, traced or not. The shares, joined in their order, are
        `lot`, a `tfdpnorm.data.Lot` of [K, P, ...].
        """
        return [add_up(function, lot)]

    def added(self, sums):
        """Adds up the sums of all shares, each a list of tensors; returns one list."""
        (only,) = sums
        return only


class Replicas(OneDevice):
    """The devices of a process, at least one, of which the first has the total; other processes.

    Each calls the same traced function, the one that was verified, with copies of the variables
    that it reads. Copies get the present values before each use. A variable that the function
    itself changes, the state of a random generator, goes on by itself on each device: it is copied
    once, and set far ahead, so that devices do not draw the same numbers.
    """

    def __init__(self, devices, workers=None):
        self._devices = tuple(devices)
        self._copies = {}  # (handle, variable), by the id of the handle and the device
        self.workers = workers or OneProcess()
        self.count = len(self._devices) * self.workers.count

    def of_shares(self, add_up, function, lot):
        """As `OneDevice`. A function that is not traced, as in an eager step, has one device."""
        if not is_traced(function):
            return super().of_shares(add_up, function, lot)
        parts = []
        for number, device in enumerate(self._devices):
            first, end = share(number, len(self._devices), tf.shape(lot.mask)[0])
            of_handle = self._variables_on(number, function)
            with tf.device(device):
                # The place of a batch is cut off behind: it is where the pipeline has put it.
                part = tf.nest.map_structure(lambda t, a=first, b=end: t[a:b], lot)
                parts.append(add_up(on_device(function, device, of_handle), part))
        return parts

    def added(self, sums):
        """As `OneDevice`; on the first device, and then over all processes, in float64."""
        with tf.device(self._devices[0]):
            total = [tf.add_n(list(parts)) for parts in zip(*sums, strict=True)]
        return self.workers.summed(total, tf.float64)

    def _variables_on(self, number, function):
        """Function from the handle of a variable to that of the one which a device uses."""
        changed = {id(handle) for _, handle in changed_by(function.graph.get_operations())}
        used = {}
        for handle in filter(is_handle_of_variable, function.captured_inputs):
            if id(handle) not in used:
                used[id(handle)] = self._used(number, handle, id(handle) in changed)
        return lambda handle: used[id(handle)]

    def _used(self, number, handle, is_changed):
        device = self._devices[number]
        there = tf.DeviceSpec.from_string(handle.device)
        if there.make_merged_spec(tf.DeviceSpec.from_string(device)) == there:
            return handle
        key = id(handle), number
        if key not in self._copies:
            with tf.init_scope(), tf.device(device):
                value = value_of(handle)
                if is_changed:
                    value = _ahead(value, number)
                self._copies[key] = handle, tf.Variable(value, trainable=False)
        _, copy = self._copies[key]
        if not is_changed:
            with tf.device(device):
                copy.assign(value_of(handle), read_value=False)
        return copy.handle


def _ahead(value, number):
    """A state of Keras' or TensorFlow's random generators, far ahead; another one as it is.

    Both are of two or three int64, of which the first is a seed or a counter.
    """
    if value.dtype == tf.int64 and value.shape.as_list() in ([2], [3]):
        return value + tf.one_hot(0, value.shape[0], number * _JUMP, 0, dtype=tf.int64)
    return value
