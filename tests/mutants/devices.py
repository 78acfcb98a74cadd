"""Faults in updates on several devices and in several processes."""

from tests.mutants.mutant import fault, tests_in

_REPLICAS = "tfdpnorm/training/replicas.py"
_WORKERS = "tfdpnorm/training/workers.py"
_LOTS = "tfdpnorm/data/shared_lots.py"
_on_devices = tests_in(
    "tests/training/several_devices/test_two_devices.py", "test_updates_on_two_devices"
)
_in_processes = tests_in(
    "tests/training/several_devices/test_workers.py", "test_two_processes_train_as_one_does"
)
_REFUSALS = "tests/training/several_devices/test_rejections.py"
_SHARED = "tests/data/test_shared_lots.py"

MUTANTS = (
    fault(
        "share-of-a-device-left-out",
        _REPLICAS,
        "tf.add_n(list(parts)) for parts",
        "tf.add_n(list(parts)[:1]) for parts",
        "The examples of all devices but the first are not trained on.",
        _on_devices,
    ),
    fault(
        "share-of-a-device-counted-twice",
        _REPLICAS,
        "lambda t, a=first, b=end: t[a:b]",
        "lambda t, a=first, b=end: t[:b]",
        "The examples of the first device count twice: each moves the sum by 2 C.",
        _on_devices,
    ),
    fault(
        "copies-of-weights-never-refreshed",
        _REPLICAS,
        "if not is_changed:",
        "if not is_changed and not self._copies:",
        "All devices but one compute gradients at the weights that the run began with.",
        _on_devices,
    ),
    fault(
        "devices-draw-the-same-numbers",
        _REPLICAS,
        "_JUMP = 2**40",
        "_JUMP = 0",
        "Two devices drop the same units.",
        _on_devices,
    ),
    fault(
        "sums-of-processes-not-added",
        _REPLICAS,
        "return self.workers.summed(total, tf.float64)",
        "return total",
        "What is released is the share of the chief alone.",
        _in_processes,
    ),
    fault(
        "each-process-sums-the-whole-lot",
        _LOTS,
        "return batches[first:end]",
        "return batches",
        "Each example counts once in each process: it moves the sum by their number times C.",
        (*_in_processes, *tests_in(_SHARED, "test_shares_together_are_the_lot_of_one_process")),
    ),
    fault(
        "each-process-adds-noise",
        _WORKERS,
        "        if self._workers.is_chief:\n"
        "            sums = self._noise.noised(sums, stddev, update)\n"
        "        return self._workers.from_chief(sums)\n",
        "        zeros = [tf.zeros_like(s) for s in sums]\n"
        "        drawn = self._noise.noised(zeros, stddev, update)\n"
        "        drawn = self._workers.summed(drawn)\n"
        "        return [s + n for s, n in zip(sums, drawn, strict=True)]\n",
        "The noise is that of all processes: its deviation grows with the root of their number.",
        _in_processes,
    ),
    fault(
        "key-of-lots-is-known",
        _WORKERS,
        "secrets.token_bytes(_KEY_BYTES) if self.is_chief else bytes(_KEY_BYTES)",
        "bytes(_KEY_BYTES)",
        "Everybody knows who is in which lot.",
        tests_in(_REFUSALS, "test_each_fit_has_a_secret_key_of_its_own"),
    ),
    fault(
        "shared-lots-without-the-key",
        _LOTS,
        'b"members and slots" + self._key + place',
        'b"members and slots" + place',
        "Everybody knows who is in which lot.",
        tests_in(_SHARED, "test_members_and_slots_depend_on_the_key_and_the_update"),
    ),
    fault(
        "shared-lots-the-same-in-each-update",
        _LOTS,
        'struct.pack("<qq", update, draws)',
        'struct.pack("<qq", 0, draws)',
        "Sampling hides nothing: all updates have the same examples.",
        tests_in(_SHARED, "test_members_and_slots_depend_on_the_key_and_the_update"),
    ),
    fault(
        "slots-drawn-by-the-words-of-members",
        _LOTS,
        "draws + 1",
        "draws",
        "The slots of a lot follow from its members.",
        tests_in(_SHARED, "test_draws_of_an_update_differ"),
    ),
    fault(
        "processes-may-have-other-data",
        _WORKERS,
        "if differing:",
        "if differing and False:",
        "An example in different places of two processes is in the lot twice.",
        tests_in(_REFUSALS, "test_a_process_that_differs_from_the_chief_does_not_begin"),
    ),
    fault(
        "order-of-examples-not-compared",
        _WORKERS,
        'found.update(f"{array.dtype.str}{array.shape}".encode())\n',
        'found.update(f"{array.dtype.str}{array.shape}".encode())\n            continue\n',
        "An example in different places of two processes is in the lot twice.",
        tests_in(_REFUSALS, "test_examples_in_another_order_have_another_digest"),
    ),
    fault(
        "each-process-asks-validation-examples",
        _WORKERS,
        "isinstance(callback, PrivateValidation)",
        "isinstance(callback, int)",
        "Each process gets an answer with noise of its own, and one of them is counted.",
        tests_in(_REFUSALS, "test_unsupported_calls_in_several_processes_are_rejected"),
    ),
    fault(
        "weights-of-the-chief-not-sent",
        _WORKERS,
        "                variable.assign(value)\n",
        "                pass\n",
        "Processes compute gradients at weights of their own, and resume from none.",
        _in_processes,
    ),
)
