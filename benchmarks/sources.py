"""The cost of reading private examples on demand: memory by N, and time compared with arrays.

    python -m benchmarks.sources --what=memory --output=sources_memory.json
    python -m benchmarks.sources --what=time --output=sources_time.json

Every source has a process of its own. For time they take turns, so that a drift of the machine's
speed affects all of them alike. LeNet-5 on synthetic images, batches of 1,024, by `fit`.
benchmarks/README.md says what the columns mean.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from absl import app, flags

FLAGS = flags.FLAGS

_LOT = 1024
_WARM_UP = 4  # updates of a turn that are not timed
_SHAPE = (28, 28, 1)


def define_flags():
    """Defines this program's flags."""
    flags.DEFINE_enum("what", "memory", ["memory", "time"], "What to measure.")
    flags.DEFINE_list("sources", None, f"Of {', '.join(SOURCES)}; by default, those that matter.")
    flags.DEFINE_list("counts", ["60000", "5000000"], "Numbers of examples N, for memory.")
    flags.DEFINE_integer("updates", 20, "Updates that are measured, in a turn or altogether.")
    flags.DEFINE_integer("rounds", 10, "Turns of each source.")
    flags.DEFINE_string(
        "folder", None, "Folder for the files of sources; None for a temporary one."
    )
    flags.DEFINE_string("output", None, "JSON file to write.")
    flags.DEFINE_string("worker", None, "Source that this process is to train on; for itself.")


# --- sources, all of the same numbers for the same N ---


def _drawings(numpy, count):
    """uint8 images [count, 28, 28, 1], of which a thousand differ."""
    from tfdpnorm.data import synthetic_rows

    drawn = 255 * synthetic_rows(_SHAPE, 1000, kind="ink", seed=0)
    return drawn.astype(numpy.uint8)[numpy.arange(count) % 1000]


def arrays(count, folder):
    """Arrays in memory."""
    import numpy as np

    del folder
    return _drawings(np, count).astype(np.float32) / np.float32(255), np.arange(count) % 10


def made(count, folder):
    """A source that makes each example when it is asked for it."""
    import numpy as np

    del folder
    drawn = _drawings(np, 1000).astype(np.float32) / np.float32(255)

    class Made:
        def __len__(self):
            return count

        def __getitem__(self, index):
            return drawn[index % 1000], index % 10

    return (Made(),)


def memmap(count, folder):
    """Images in a file, uint8, and labels in another."""
    import numpy as np

    x = np.memmap(folder / f"x{count}", np.uint8, "w+", shape=(count, *_SHAPE))
    y = np.memmap(folder / f"y{count}", np.int64, "w+", shape=(count,))
    drawn = _drawings(np, 1000)
    for start in range(0, count, 1000):
        x[start : start + 1000] = drawn[: count - start]
        y[start : start + 1000] = np.arange(min(1000, count - start)) % 10
    del x, y  # so that the pages that were written do not count
    return (
        np.memmap(folder / f"x{count}", np.uint8, "r", shape=(count, *_SHAPE)),
        np.memmap(folder / f"y{count}", np.int64, "r", shape=(count,)),
    )


def _write_records(folder, name, records, compression=""):
    from array_record.python import array_record_module

    path = folder / f"{name}.array_record"
    writer = array_record_module.ArrayRecordWriter(str(path), "group_size:1" + compression)
    for record in records:
        writer.write(record)
    writer.close()
    return [str(path)]


def array_record(count, folder, compression=",uncompressed"):
    """An array_record of the bytes of images and labels, not compressed, read many at a time."""
    import numpy as np
    from array_record.python import array_record_module

    drawn, numbers = _drawings(np, 1000), range(count)
    records = (bytes([i % 10]) + drawn[i % 1000].tobytes() for i in numbers)
    (path,) = _write_records(folder, "bytes", records, compression)
    # As the package's own data source reads, but for a pool of threads for each call.
    options = "readahead_buffer_size:0,max_parallelism:0"

    class Records:
        def __init__(self):
            self._records = array_record_module.ArrayRecordReader(path, options=options)

        def __len__(self):
            return count

        def __getitems__(self, rows):
            joined = np.frombuffer(b"".join(self._records.read(rows)), np.uint8)
            joined = joined.reshape(len(rows), -1)
            x = joined[:, 1:].reshape(-1, *_SHAPE).astype(np.float32) / np.float32(255)
            return list(zip(x, joined[:, 0].astype(np.int64), strict=True))

    return (Records(),)


def array_record_compressed(count, folder):
    """The same, compressed as the package does by itself."""
    return array_record(count, folder, compression="")


def _png_records(count, folder):
    import numpy as np
    import tensorflow as tf

    def record(image, label):
        image = tf.train.BytesList(value=[tf.io.encode_png(image).numpy()])
        feature = {
            "image": tf.train.Feature(bytes_list=image),
            "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
        }
        return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()

    kinds = [record(image, at % 10) for at, image in enumerate(_drawings(np, 1000))]
    return _write_records(folder, "png", (kinds[i % 1000] for i in range(count)))


def array_record_png(count, folder):
    """An array_record of PNG images as TensorFlow Datasets writes it, decoded by TensorFlow."""
    import tensorflow as tf
    from array_record.python import array_record_data_source

    from tfdpnorm.data import MappedSource

    features = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }

    def decoded(record):
        example = tf.io.parse_single_example(record, features)
        image = tf.ensure_shape(tf.io.decode_png(example["image"], 1), _SHAPE)
        return tf.cast(image, tf.float32) / 255, example["label"]

    paths = _png_records(count, folder)
    return (MappedSource(array_record_data_source.ArrayRecordDataSource(paths), decoded),)


def tfds_data_source(count, folder):
    """`tfds.data_source` of the same PNG images, decoded by TensorFlow Datasets in Python."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    from tfdpnorm.data import MappedSource

    x, y = arrays(count, folder)
    features = tfds.features.FeaturesDict(
        {
            "image": tfds.features.Image(shape=_SHAPE),
            "label": tfds.features.ClassLabel(num_classes=10),
        }
    )
    examples = ({"image": (255 * i).astype("uint8"), "label": j} for i, j in zip(x, y, strict=True))
    tfds.dataset_builders.store_as_tfds_dataset(
        "images",
        "1.0.0",
        features,
        {"train": list(enumerate(examples))},
        data_dir=str(folder),
        file_format="array_record",
    )
    source = tfds.builder_from_directory(folder / "images" / "1.0.0").as_data_source("train")
    return (MappedSource(source, lambda e: (tf.cast(e["image"], tf.float32) / 255, e["label"])),)


def image_folder(count, folder):
    """A folder of PNG images, a folder for each class."""
    import numpy as np
    import tensorflow as tf

    from tfdpnorm.data import image_folder

    pngs = [tf.io.encode_png(image).numpy() for image in _drawings(np, 1000)]
    for at in range(count):
        path = folder / "images" / str(at % 10) / f"{at:07}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pngs[at % 1000])
    return (image_folder(folder / "images", _SHAPE[:2], channels=1),)


SOURCES = {
    f.__name__: f
    for f in (
        arrays,
        made,
        memmap,
        array_record,
        array_record_compressed,
        array_record_png,
        tfds_data_source,
        image_folder,
    )
}
_OF_MEMORY = ["arrays", "made", "memmap"]
_OF_TIME = [
    "arrays",
    "array_record",
    "array_record_compressed",
    "array_record_png",
    "tfds_data_source",
    "memmap",
]
_NO_ARRAYS_ABOVE = 200_000


# --- the process of a source ---


def _status(name):
    """A number of megabytes from /proc: RssAnon, RssFile, ..."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) / 1024
    raise OSError(f"Expected {name} in /proc/self/status, got none. This needs Linux.")


class _Peak(threading.Thread):
    """Looks at the memory that no file stands behind, a hundred times a second."""

    def __init__(self):
        super().__init__(daemon=True)
        self.megabytes, self.of_files = 0.0, 0.0

    def run(self):
        while True:
            self.megabytes = max(self.megabytes, _status("RssAnon"))
            self.of_files = max(self.of_files, _status("RssFile"))
            time.sleep(0.01)


def _private(count, updates):
    """LeNet-5, ready to train privately."""
    from tensorflow import keras

    import tfdpnorm

    plan = tfdpnorm.make_plan(
        num_examples=count,
        expected_batch_size=_LOT,
        steps=updates,
        l2_norm_clip=1.0,
        noise_multiplier=1.0,
        delta=1e-8,
    )
    private = tfdpnorm.make_private(tfdpnorm.models.build("lenet5", norm="none"), plan)
    private.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return private


def _sampled(name, count, folder):
    from tfdpnorm.data import poisson_batches

    return poisson_batches(*SOURCES[name](count, folder), expected_batch_size=_LOT)


def _measure_memory(name, count, folder):
    """Megabytes that data and training add to a process in which TensorFlow has trained before."""
    import numpy as np

    small = _private(2 * _LOT, 2)
    small.fit(np.zeros((2 * _LOT, *_SHAPE), np.float32), np.zeros(2 * _LOT, np.int64), verbose=0)
    before, peak = _status("RssAnon"), _Peak()
    peak.start()
    batches = _sampled(name, count, folder)
    sampled, peak.of_files = _status("RssAnon") - before, 0.0
    private = _private(count, FLAGS.updates)
    private.fit(batches, epochs=1, steps_per_epoch=FLAGS.updates, verbose=0)
    return {
        "source": name,
        "examples": count,
        "updates": FLAGS.updates,
        "prepared_megabytes": round(sampled, 1),
        "peak_megabytes": round(peak.megabytes - before, 1),
        "peak_file_megabytes": round(peak.of_files, 1),
        "file_megabytes": round(sum(f.stat().st_size for f in folder.rglob("*")) / 1e6, 1),
    }


def _take_turns(name, count, folder):
    """Trains `updates` at a time, whenever a line comes in, and answers with their times."""
    from tensorflow import keras

    class Turns(keras.callbacks.Callback):
        done, started = 0, None

        def on_train_batch_begin(self, batch, logs=None):
            if self.done == 0:
                print("ready", flush=True)
                if not sys.stdin.readline():
                    os._exit(0)
            if self.done == _WARM_UP:
                self.started = time.process_time(), time.perf_counter()

        def on_train_batch_end(self, batch, logs=None):
            self.done += 1
            if self.done == _WARM_UP + FLAGS.updates:
                times = time.process_time() - self.started[0], time.perf_counter() - self.started[1]
                print(json.dumps([1000 * t / FLAGS.updates for t in times]), flush=True)
                self.done = 0

    batches = _sampled(name, count, folder)
    private = _private(count, (FLAGS.rounds + 1) * (FLAGS.updates + _WARM_UP) + 1)
    private.fit(batches, verbose=0, callbacks=[Turns()])


# --- all of them ---


def _worker(name, count, folder):
    arguments = [f"--{flag}={FLAGS[flag].value}" for flag in ("what", "updates", "rounds")]
    command = [sys.executable, "-m", "benchmarks.sources", f"--worker={name}", f"--counts={count}"]
    (folder / name).mkdir(exist_ok=True)
    return subprocess.Popen(
        [*command, *arguments, f"--folder={folder / name}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )


def _line(worker, wanted):
    """The next line of an answer, past whatever else is printed."""
    for line in worker.stdout:
        if line.startswith(wanted):
            return line
    raise ValueError(f"Expected an answer of {worker.args[3]}, got none; see above.")


def _memory_rows(folder):
    rows = []
    for count in map(int, FLAGS.counts):
        for name in FLAGS.sources or _OF_MEMORY:
            if name == "arrays" and count > _NO_ARRAYS_ABOVE:
                continue
            worker = _worker(name, count, folder)
            rows.append(json.loads(_line(worker, "{")))
            worker.communicate()
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


def _time_rows(folder):
    count, names = int(FLAGS.counts[0]), FLAGS.sources or _OF_TIME
    workers, times = {}, {name: [] for name in names}
    try:
        for name in names:
            workers[name] = _worker(name, count, folder)
            _line(workers[name], "ready")
        for number in range(FLAGS.rounds + 1):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                workers[name].stdin.write("go\n")
                workers[name].stdin.flush()
                turn = json.loads(_line(workers[name], "["))
                _line(workers[name], "ready")
                if number:  # the first turn has slow steps
                    times[name].append(turn)
            print(number, {n: t[-1:] for n, t in times.items()}, file=sys.stderr, flush=True)
    finally:
        for worker in workers.values():
            worker.kill()
    return [_time_row(name, count, times[name], times[names[0]]) for name in names]


def _time_row(name, count, turns, of_first):
    process, wall = zip(*turns, strict=True)
    ratios = [
        [own[i] / other[i] for own, other in zip(turns, of_first, strict=True)] for i in (0, 1)
    ]
    return {
        "source": name,
        "examples": count,
        "milliseconds": round(statistics.median(process), 2),
        "min_milliseconds": round(min(process), 2),
        "max_milliseconds": round(max(process), 2),
        "wall_milliseconds": round(statistics.median(wall), 2),
        "min_wall_milliseconds": round(min(wall), 2),
        "ratio": round(statistics.median(ratios[0]), 3),
        "ratio_of_minima": round(min(process) / min(t[0] for t in of_first), 3),
        "wall_ratio": round(statistics.median(ratios[1]), 3),
        "rounds": len(turns),
        "updates_per_round": FLAGS.updates,
        "cores": len(os.sched_getaffinity(0)),
    }


def main(argv):
    """Measures what the flags ask for."""
    del argv
    if FLAGS.worker:
        folder, count = pathlib.Path(FLAGS.folder), int(FLAGS.counts[0])
        if FLAGS.what == "time":
            _take_turns(FLAGS.worker, count, folder)
        else:
            print(json.dumps(_measure_memory(FLAGS.worker, count, folder)), flush=True)
        return
    with tempfile.TemporaryDirectory(dir=FLAGS.folder) as folder:
        rows = (_memory_rows if FLAGS.what == "memory" else _time_rows)(pathlib.Path(folder))
    text = json.dumps(rows, indent=1)
    print(text)
    if FLAGS.output:
        pathlib.Path(FLAGS.output).write_text(text + "\n")


if __name__ == "__main__":
    define_flags()
    app.run(main)
