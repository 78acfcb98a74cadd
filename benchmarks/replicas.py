"""An update on one device, on two devices of a process, and in two processes; bytes exchanged.

    python -m benchmarks.replicas --models=lenet5,resnet9 --output=replicas.json

Every device has one thread, so that two of them are two cores; "one, all cores" has no strategy and
as many threads as there are cores. Each way has fresh processes, and they take turns. Writes a JSON
list of rows.
"""

import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time

from absl import flags

from benchmarks.step_time import run_app
from benchmarks.workloads import WORKLOADS, random_rows

FLAGS = flags.FLAGS
WAYS = ("one", "one, all cores", "two devices", "two processes")
_ROOT = pathlib.Path(__file__).resolve().parents[1]
_COUNTED = pathlib.Path("/sys/class/net/lo/statistics/rx_bytes")


def define_flags():
    """Defines this program's flags."""
    flags.DEFINE_list("models", ["lenet5"], f"Some of: {', '.join(WORKLOADS)}.")
    flags.DEFINE_integer("batch_size", 256, "Rows of an update, an even number.", lower_bound=2)
    flags.DEFINE_integer("rows_at_once", 64, "Rows of a physical batch.", lower_bound=1)
    flags.DEFINE_integer("steps", 10, "Updates timed in a process.", lower_bound=1)
    flags.DEFINE_integer("rounds", 3, "Processes of each way.", lower_bound=1)
    flags.DEFINE_string("output", None, "JSON file to write.")


def main():
    """Measures what the flags ask for."""
    if FLAGS.batch_size % (2 * FLAGS.rows_at_once):
        raise ValueError(
            "Expected --batch_size to be an even number of physical batches, got "
            f"{FLAGS.batch_size} rows, {FLAGS.rows_at_once} at once."
        )
    rows = []
    for model in FLAGS.models:
        asked = (model, FLAGS.batch_size, FLAGS.rows_at_once, FLAGS.steps)
        runs = {way: [] for way in WAYS}
        for _ in range(FLAGS.rounds):
            for way, found in runs.items():
                found.append(_in_processes(way, *asked))
        for way, found in runs.items():
            rows.append({"model": model, "way": way, **_joined(found)})
            print(text_of(rows[-1]), flush=True)
    if FLAGS.output is not None:
        pathlib.Path(FLAGS.output).write_text(json.dumps(rows, indent=1) + "\n")


def text_of(row):
    """Returns a row in a line."""
    sent = "" if row["bytes"] is None else f", {row['bytes'] / 1e6:.2f} MB on the wire"
    return (
        f"{row['model']}, {row['way']}: {row['wall_milliseconds']:.1f} ms on the clock, "
        f"{row['milliseconds']:.1f} ms of processor time{sent}"
    )


def expected_bytes(numbers, processes):
    """Returns what all processes together send in an update, by rings of all-reduce.

    Args:
        numbers: Trained numbers.
        processes: W. A ring has each of them send 2 (W - 1) / W of a vector: the sums in float64,
            and the chief's noisy sums in float32.
    """
    return 2 * (processes - 1) * (8 + 4) * numbers


def _joined(found):
    times = {
        name: round(statistics.median(run[name] for run in found), 2)
        for name in ("wall_milliseconds", "milliseconds")
    }
    sent = [run["bytes"] for run in found]
    sent = None if None in sent else int(statistics.median(sent))
    kept = {n: v for n, v in found[0].items() if n not in ("bytes", *times)}
    return {**kept, **times, "bytes": sent, "rounds": len(found)}


def _in_processes(way, *asked):
    count = 2 if way == "two processes" else 1
    ports = ",".join(map(str, _free_ports(count)))
    threads = len(os.sched_getaffinity(0)) if way == "one, all cores" else 1
    environment = {
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_NUM_INTRAOP_THREADS": str(threads),
        "TF_NUM_INTEROP_THREADS": "2",
    }
    command = [sys.executable, "-m", "benchmarks.replicas", way, *map(str, asked), ports]
    processes = [
        subprocess.Popen(
            [*command, str(index)], cwd=_ROOT, env=environment, stdout=subprocess.PIPE, text=True
        )
        for index in range(count)
    ]
    answers = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise ValueError(f"Expected {way} of {asked} to be measured, got an error.")
    found = [json.loads(answer.splitlines()[-1]) for answer in answers]
    total = sum(one["milliseconds"] for one in found)
    return {**found[0], "milliseconds": total}


def _free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def measure(way, model, batch_size, rows_at_once, steps, ports, index):
    """Makes updates in this process, alone or with another one.

    Args:
        way: One of `WAYS`.
        model: One of `WORKLOADS`.
        batch_size: Rows of an update.
        rows_at_once: Of them, rows of a physical batch.
        steps: How many updates are timed.
        ports: Of all processes, with commas between.
        index: Number of this process.

    Returns:
        Dict with the fields of a row. Bytes are all that went through the loopback meanwhile.
    """
    strategy = _strategy(way, ports, index)

    import numpy as np
    import tensorflow as tf
    from tensorflow import keras

    import tfdpnorm
    from benchmarks.keras_engines import build_model, prepared_step
    from tfdpnorm.data import Lot
    from tfdpnorm.data.shared_lots import SharedLots

    plan = tfdpnorm.make_plan(
        num_examples=10**6,
        expected_batch_size=batch_size,
        steps=10**6,
        l2_norm_clip=1.0,
        noise_multiplier=1.0,
        delta=1e-7,
    )
    private = tfdpnorm.make_private(
        build_model(model), plan, physical_batch_size=rows_at_once, strategy=strategy
    )
    private.compile(
        keras.optimizers.SGD(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    x, y = random_rows(model, batch_size)
    share = SharedLots(None, index, len(ports.split(","))).share_of
    ones = np.ones(batch_size, np.float32)
    lot = Lot(*(share(t.reshape(-1, rows_at_once, *t.shape[1:])) for t in (x, y, ones, ones)))
    step = prepared_step(private, tf.nest.map_structure(tf.constant, lot))
    step.trace()
    for _ in range(2):
        step.run()
    sent, wall, process = _counted_bytes(), time.perf_counter(), time.process_time()
    for _ in range(steps):
        step.run()
    wall, process = time.perf_counter() - wall, time.process_time() - process
    sent = None if sent is None or strategy is None else (_counted_bytes() - sent) / steps
    several = way == "two processes"
    return {
        "batch_size": batch_size,
        "rows_at_once": rows_at_once,
        "parameters": step.parameters,
        "wall_milliseconds": 1000 * wall / steps,
        "milliseconds": 1000 * process / steps,
        "bytes": sent if several else None,
        "expected_bytes": expected_bytes(step.parameters, 2) if several else None,
        "steps": steps,
        "cores": len(os.sched_getaffinity(0)),
        "versions": step.versions,
    }


def _strategy(way, ports, index):
    if way == "two processes":
        workers = [f"127.0.0.1:{port}" for port in ports.split(",")]
        task = {"type": "worker", "index": index}
        os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})
    import tensorflow as tf

    if way == "two processes":
        return tf.distribute.MultiWorkerMirroredStrategy()
    if way == "two devices":
        (processor,) = tf.config.list_physical_devices("CPU")
        two = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(processor, two)
        return tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    return None


def _counted_bytes():
    return int(_COUNTED.read_text()) if _COUNTED.exists() else None


if __name__ == "__main__":
    if len(sys.argv) == 8 and sys.argv[1] in WAYS:
        way, model, *numbers, ports, index = sys.argv[1:]
        print(json.dumps(measure(way, model, *map(int, numbers), ports, int(index))))
    else:
        define_flags()
        run_app(main)
