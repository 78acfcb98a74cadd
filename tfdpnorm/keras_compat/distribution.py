"""Devices of a `tf.distribute` strategy, traced functions on them, and sums over processes.

Private parts: `ConcreteFunction._call_flat`, the one way to call a traced function with other
variables than those that it was traced with, by which the strategies of TensorFlow themselves run a
saved function on several devices; and `_handle_data` of a handle, which alone says what a variable
holds. Version-bound: how a strategy names its devices and its cluster.
"""

import os
from typing import NamedTuple

import tensorflow as tf

STRATEGIES = (tf.distribute.MirroredStrategy, tf.distribute.MultiWorkerMirroredStrategy)
"""Those that are supported: all replicas make the same update."""

_CHIEF, _WORKER = "chief", "worker"


class Cluster(NamedTuple):
    """The processes of a strategy: the number of this one, 0 for the chief, and their count."""

    index: int
    count: int


def threads_between_operations():
    """Returns how many operations TensorFlow runs at once, an int."""
    asked = tf.config.threading.get_inter_op_parallelism_threads()
    told = os.environ.get("TF_NUM_INTEROP_THREADS", "")
    told = int(told) if told.isdecimal() else 0
    return asked or told or len(os.sched_getaffinity(0))


def devices_of(strategy):
    """Returns the names of the devices of this process that a strategy computes on, a tuple."""
    return tuple(strategy.extended.worker_devices)


def cluster_of(strategy):
    """Returns the `Cluster` of one of `STRATEGIES`; rejects processes but the chief and workers."""
    resolver = getattr(strategy, "cluster_resolver", None)
    jobs = resolver.cluster_spec().as_dict() if resolver is not None else {}
    if not isinstance(strategy, STRATEGIES[1]) or not jobs:
        return Cluster(0, 1)
    if resolver.task_type not in (_CHIEF, _WORKER):
        raise ValueError(
            f'Expected a process of type "{_CHIEF}" or "{_WORKER}" in TF_CONFIG, got '
            f"{resolver.task_type!r}. Evaluate in a process without a strategy."
        )
    chiefs = len(jobs.get(_CHIEF, ()))
    before = chiefs if resolver.task_type == _WORKER else 0
    return Cluster(before + resolver.task_id, chiefs + len(jobs.get(_WORKER, ())))


def summed_over_processes(strategy, vector):
    """Returns the sum of the vectors of all processes of a strategy; the same in each of them.

    Every process has to call this as often, in the same order, with as many numbers: [n], float32,
    float64, int32 or int64.
    """

    def of_replica(vector):
        context = tf.distribute.get_replica_context()
        # The devices of a process have added theirs up: one of them speaks for all.
        is_first = context.replica_id_in_sync_group % len(devices_of(strategy)) == 0
        mine = tf.where(is_first, vector, tf.zeros_like(vector))
        return context.all_reduce(tf.distribute.ReduceOp.SUM, mine)

    return strategy.experimental_local_results(strategy.run(of_replica, (vector,)))[0]


def on_device(function, device, of_handle):
    """Returns a function that runs a `ConcreteFunction` on a device, with the variables there.

    `of_handle` gives for the handle of a variable that `function` captures the one to use in its
    place. The result takes the same tensors and has the same `structured_outputs`.
    """

    def called(*arguments):
        captured = [
            of_handle(t) if is_handle_of_variable(t) else t for t in function.captured_inputs
        ]
        with tf.device(device):
            tensors = [t for t in tf.nest.flatten(arguments) if t is not None]
            return function._call_flat(tensors, captured)

    called.structured_outputs = function.structured_outputs
    return called


def is_traced(function):
    """Whether a function is one that `on_device` takes."""
    return hasattr(function, "captured_inputs") and hasattr(function, "_call_flat")


def is_handle_of_variable(tensor):
    """Whether a tensor that a function captures is the handle of a variable, known outside."""
    data = getattr(tensor, "_handle_data", None)
    is_handle = tensor.dtype == tf.resource and not tf.is_symbolic_tensor(tensor)
    return is_handle and data is not None and data.is_set and bool(data.shape_and_type)


def value_of(handle):
    """Returns the value of the variable that a handle is of."""
    dtype = tf.as_dtype(handle._handle_data.shape_and_type[0].dtype)
    value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
    return tf.ensure_shape(value, tf.TensorShape(handle._handle_data.shape_and_type[0].shape))
