"""Sources: the same lots as of arrays, and errors that tell nothing of an example."""

import collections
import os
import time

import h5py
import numpy as np
import pytest
import tensorflow as tf

from tests.each import each
from tfdpnorm.data import (
    MappedSource,
    image_folder,
    load_examples,
    poisson_batches,
    save_examples,
)
from tfdpnorm.privacy.slots import Slots

N = 300
rng = np.random.default_rng(0)
X = rng.random((N, 4, 3)).astype(np.float32)
Y = rng.integers(0, 10, N).astype(np.int32)
W = rng.random(N).astype(np.float32)


class Source:
    """Examples of arrays, which remembers what it was asked for."""

    def __init__(self, *columns):
        self.columns, self.read = columns, []

    def __len__(self):
        return len(self.columns[0])

    def __getitem__(self, index):
        self.read.append(index)
        return tuple(column[index] for column in self.columns)


class ManyAtOnce:
    """Without `__getitem__`."""

    def __init__(self, *columns):
        self.columns, self.read = columns, []

    def __len__(self):
        return len(self.columns[0])

    def __getitems__(self, indices):
        self.read += indices
        return [tuple(column[index] for column in self.columns) for index in indices]


class Dicts(Source):
    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return {"label": label, "image": image}


SLOTS = Slots(2, 40)


def lots(batches, count=2, slots=SLOTS):
    return list(batches.as_dataset(slots, insecure_seed=5).take(count))


def assert_same(lots, others):
    for lot, other in zip(lots, others, strict=True):
        tf.nest.assert_same_structure(lot, other)
        for a, b in zip(tf.nest.flatten(lot), tf.nest.flatten(other), strict=True):
            if a is not None:
                assert a.dtype == b.dtype
                np.testing.assert_array_equal(a, b)


def of_arrays(size=60, weights=W):
    return poisson_batches(X, Y, sample_weight=weights, expected_batch_size=size)


def file_of(kind, folder):
    if kind == "hdf5":
        file = h5py.File(folder / "a.h5", "w")
        return [
            file.create_dataset(name, data=data)
            for name, data in zip("xyw", (X, Y, W), strict=True)
        ]
    found = []
    for name, data in zip("xyw", (X, Y, W), strict=True):
        np.save(folder / f"{name}.npy", data)
        found.append(np.load(folder / f"{name}.npy", mmap_mode="r"))
    return found


@each("size", [60, 1e-12])
def test_lots_of_a_source_are_those_of_arrays(size):
    slots = Slots(2, 160)
    expected = lots(of_arrays(size), slots=slots)
    for source in (
        Source(X, Y, W),
        ManyAtOnce(X, Y, W),
        MappedSource(MappedSource(Source(X, Y, W), lambda *a: a), lambda x, y, w: (x, y, w)),
    ):
        assert_same(lots(poisson_batches(source, expected_batch_size=size), slots=slots), expected)


def test_examples_keep_their_slots_whichever_is_mapped_first():
    def slowly(x, y):
        def wait(y):
            time.sleep(0.002 * float(y))
            return y

        return x, tf.ensure_shape(tf.numpy_function(wait, [y], tf.int32), [])

    mapped = poisson_batches(MappedSource(Source(X, Y), slowly), expected_batch_size=60)
    assert_same(lots(mapped), lots(of_arrays(weights=None)))


@pytest.mark.parametrize("kind", ["npy", "hdf5"])
def test_lots_of_files_are_those_of_arrays(kind, tmp_path):
    x, y, w = file_of(kind, tmp_path)
    for labels, weights in ((y, w), (Y, W)):
        batches = poisson_batches(x, labels, sample_weight=weights, expected_batch_size=60)
        assert batches.examples.is_read_on_demand
        assert_same(lots(batches), lots(of_arrays()))
    none = poisson_batches(x, expected_batch_size=1e-12)
    assert_same(lots(none), lots(poisson_batches(X, expected_batch_size=1e-12)))


def test_texts_and_structures():
    Pair = collections.namedtuple("Pair", ["a", "b"])
    texts = np.array([f"text {i}" for i in range(N)])
    flags = Y.astype(">u8")
    expected = lots(
        poisson_batches({"t": texts, "p": Pair(X, flags)}, (Y, X), expected_batch_size=60)
    )

    class Nested(Source):
        def __getitem__(self, i):
            return {"t": str(texts[i]), "p": Pair(X[i], flags[i])}, (Y[i], X[i])

    for source in (Nested(X), MappedSource(Nested(X), lambda x, y: (x, y))):
        assert_same(lots(poisson_batches(source, expected_batch_size=60)), expected)


def test_shapes_and_types_are_known_without_the_rows():
    batches = poisson_batches(Source(X, Y), expected_batch_size=60)
    assert (batches.x.shape, batches.x.dtype, batches.y.ndim) == (X.shape, X.dtype, 1)
    assert batches.sample_weight.shape == (N,) and batches.num_examples == N
    with pytest.raises(TypeError, match="rows are read when they are drawn"):
        np.asarray(batches.x)
    none = [None] * N
    expected = lots(poisson_batches(X, expected_batch_size=60))
    assert_same(lots(poisson_batches(Source(X, none, none), expected_batch_size=60)), expected)


def fails(kind, index):
    if kind == "error":
        raise KeyError(f"secret of row {index}")
    others = {
        "shape": (X[index, :3], Y[index]),
        "rank": (X[index, 0], Y[index]),
        "type": (X[index].astype(np.float64), Y[index]),
        "label": (X[index], float(Y[index])),
        "parts": (X[index], Y[index], 1.0),
        "structure": ((X[index],), Y[index]),
        "object": (object(), Y[index]),
    }
    return others[kind]


@each("kind", ["error", "shape", "rank", "type", "label", "parts", "structure", "object"])
def test_errors_of_reading_tell_nothing_of_an_example(kind):
    class Bad(Source):
        def __getitem__(self, index):
            return super().__getitem__(index) if not index else fails(kind, index)

    batches = poisson_batches(Bad(X, Y), expected_batch_size=60)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Expected every example of the") as e:
        lots(batches, 1)
    assert "secret of row" not in str(e.value)


def test_a_folder_of_images_is_that_of_keras(tmp_path):
    for at, (name, size) in enumerate([("b/2", (9, 7)), ("b/in/1", (5, 5)), ("a/3", (6, 6))]):
        path = tmp_path / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        image = rng.integers(0, 256, (*size, 3 if at else 1), np.uint8)
        tf.io.write_file(str(path), tf.io.encode_png(image))
    (tmp_path / "a" / "notes.txt").write_text("no image")
    source = image_folder(tmp_path, (6, 8))
    theirs = tf.keras.utils.image_dataset_from_directory(
        tmp_path, image_size=(6, 8), shuffle=False, batch_size=None
    )
    assert source.class_names == tuple(theirs.class_names) == ("a", "b")
    for index, (image, label) in enumerate(theirs.as_numpy_iterator()):
        ours = source[index]
        np.testing.assert_array_equal(ours[0], image)
        assert ours[1] == label == source.labels[index]
    assert len(source) == index + 1
    (lot,) = lots(poisson_batches(source, expected_batch_size=3), 1)
    assert lot.x.dtype == tf.float32 and lot.x.shape == (2, 40, 6, 8, 3)
    np.testing.assert_allclose(
        tf.reduce_sum(lot.x), sum(source[i][0].sum() for i in range(3)), 1e-6
    )


def test_a_folder_of_images_says_whose_they_are(tmp_path):
    image = tf.io.encode_png(np.zeros((4, 4, 3), np.uint8))
    names = ["a/Zo\u00eb/1", "a/p 2/1", "a/p 2/in/2", "b/p 2/1", "b/\udcff/1"]
    for name in names:
        path = os.fsencode(tmp_path / f"{name}.png")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(image.numpy())
    source = image_folder(tmp_path, (4, 4))
    persons = source.persons()
    assert persons.tolist() == ["Zo\u00eb", "p 2", "p 2", "p 2", "\udcff"]
    assert source.labels.tolist() == [0, 0, 0, 1, 1]
    batches = poisson_batches(source, person=persons, most_per_person=2, expected_batch_size=3)
    assert batches.num_examples == 3
    (lot,) = lots(batches, 1)
    drawn = lot.mask.numpy() > 0
    assert lot.y.numpy()[drawn].shape == (3, 2)
    for name in ("secret", "other"):
        tf.io.write_file(str(tmp_path / "a" / f"{name}.png"), image)
    with pytest.raises(ValueError, match="got 2 images in the folder of a class itself") as told:
        image_folder(tmp_path, (4, 4)).persons()
    assert "secret" not in str(told.value)


def folder_with_a_table(tmp_path, header="image,label,person"):
    for i in range(40):
        image = tf.io.encode_png(np.full((4, 4, 3), i, np.uint8))
        tf.io.write_file(str(tmp_path / f"{i}.png"), image)
    lines = [f"{i}.png,{'yes' if i % 3 else 'no'},p{i // 2}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join([header, *lines]))
    return image_folder(tmp_path, (4, 4), table=tmp_path / "t.csv")


def test_a_table_says_labels_and_persons(tmp_path):
    source = folder_with_a_table(tmp_path)
    assert source.class_names == ("no", "yes") and len(source) == 40
    assert source.persons()[:3].tolist() == ["p0", "p0", "p1"]
    assert source[4][1] == source.labels[4] == 1 and (source[4][0] == 4).all()
    with pytest.raises(ValueError, match="has no column named label"):
        folder_with_a_table(tmp_path, header="image,class,person")
    with pytest.raises(ValueError, match="40 images in the folder of a class"):
        folder_with_a_table(tmp_path, header="image,label,who").persons()


def test_a_split_keeps_persons_whole(tmp_path):
    source = folder_with_a_table(tmp_path)
    rest, out = source.split(source.persons(), 0.3)
    assert len(rest) + len(out) == 40 and not set(rest.persons()) & set(out.persons())
    assert all((image == out[i][0]).all() for i, (image, _) in enumerate(out))
    assert out[0][1] == out.labels[0] and rest.class_names == source.class_names
    for name in set(source.persons()):
        fewer, _ = source.split(source.persons(), [name])
        _, still_out = fewer.split(fewer.persons(), 0.3)
        assert set(still_out.persons()) == set(out.persons()) - {name}
    rest, out = source.split(source.persons(), ["p3", "p5"])
    assert sorted(set(out.persons())) == ["p3", "p5"] and len(rest) == 36
    for wrong, match in (((["p"], 0.3), r"\[40\]"), ((source.persons(), 1e-9), "none held out")):
        with pytest.raises(ValueError, match=match):
            source.split(*wrong)


def test_saved_examples_are_those_of_the_dataset(tmp_path):
    dataset = tf.data.Dataset.from_tensor_slices(({"a": X, "b": Y}, Y)).batch(7)
    x, y = save_examples(dataset.unbatch(), tmp_path / "saved")
    np.testing.assert_array_equal(x["a"], X)
    assert isinstance(y, np.memmap) and y.dtype == Y.dtype
    expected = lots(poisson_batches({"a": X, "b": Y}, Y, expected_batch_size=60))
    assert_same(lots(poisson_batches(x, y, expected_batch_size=60)), expected)
    again, labels = load_examples(tmp_path / "saved")
    assert isinstance(labels, np.memmap) and labels.dtype == Y.dtype
    assert_same(lots(poisson_batches(again, labels, expected_batch_size=60)), expected)
    with pytest.raises(FileNotFoundError, match="Save the examples again"):
        load_examples(tmp_path)
    with pytest.raises(FileExistsError, match="an empty folder"):
        save_examples(dataset.unbatch(), tmp_path / "saved")


def test_a_dataset_that_fails_halfway_leaves_no_files(tmp_path):
    def half():
        yield from X[:2]
        raise OSError("the disk is gone")

    dataset = tf.data.Dataset.from_generator(half, output_signature=tf.TensorSpec(X.shape[1:]))
    with pytest.raises(tf.errors.OpError, match="the disk is gone"):
        save_examples(dataset, tmp_path)
    assert not any(tmp_path.iterdir())


def folder(path, size=(6, 8), **settings):
    return lambda at: image_folder(at / path, size, **settings)


def saved(dataset):
    return lambda at: save_examples(dataset, at / "saved")


def batches_of(make):
    return lambda at: poisson_batches(make(), expected_batch_size=1)


def of_files(function):
    return lambda at: function(*file_of("npy", at))


def ragged(x, y):
    return x[: tf.random.uniform([], 1, 3, "int32")], y


@each(
    "call,error,match",
    [
        (batches_of(lambda: tf.data.Dataset.range(9)), TypeError, r"save_examples\("),
        (batches_of(lambda: Source([])), ValueError, "at least 1 example"),
        (batches_of(lambda: Dicts(X, Y)), TypeError, "'label', 'image'.*MappedSource"),
        (batches_of(lambda: Source(X, Y, W, W)), ValueError, "got 4 parts"),
        (batches_of(lambda: Source(X, [object()] * N)), TypeError, "numbers or texts"),
        (batches_of(lambda: Source(X, ["text"] * N)), TypeError, "y to hold"),
        (batches_of(lambda: Source(X.astype(complex), Y)), TypeError, "x to hold"),
        (batches_of(lambda: Source(X, Y, ["a"] * N)), TypeError, "sample_weight"),
        (batches_of(lambda: (Source(X), Source(X))), TypeError, "among other things"),
        (batches_of(lambda: MappedSource(Source(X), lambda x: {"x": x})), TypeError, "a dict"),
        (batches_of(lambda: MappedSource(Source(X, Y), ragged)), ValueError, "ensure_shape"),
        (batches_of(lambda: MappedSource(X, lambda x: x)), TypeError, "Expected source"),
        (batches_of(lambda: MappedSource(Source(X), None)), TypeError, "function"),
        (
            lambda at: poisson_batches(Source(X), Y, expected_batch_size=1),
            ValueError,
            "examples of a source",
        ),
        (
            of_files(lambda x, y, w: poisson_batches(x[:9], y, expected_batch_size=1)),
            ValueError,
            "number of rows",
        ),
        (
            of_files(
                lambda x, y, w: poisson_batches(x, y, sample_weight=w[:9], expected_batch_size=1)
            ),
            ValueError,
            "sample_weight",
        ),
        (
            of_files(
                lambda x, y, w: poisson_batches(x, y, sample_weight=-W, expected_batch_size=1)
            ),
            ValueError,
            "negative weight",
        ),
        (folder(""), ValueError, "folder"),
        (folder("absent"), ValueError, "folder"),
        (folder("", channels=2), ValueError, "channels"),
        (folder("", (6, 8.5)), TypeError, "image_size"),
        (saved(X), TypeError, "got ndarray"),
        (saved(tf.data.Dataset.from_tensor_slices(X).batch(7)), ValueError, "unbatch"),
        (saved(tf.data.Dataset.from_tensor_slices(["a"])), TypeError, "numbers"),
        (saved(tf.data.Dataset.range(3).repeat()), ValueError, "endless"),
        (saved(tf.data.Dataset.range(0)), ValueError, "at least one"),
    ],
)
def test_hostile_values(call, error, match, tmp_path_factory):
    with pytest.raises(error, match=match):
        call(tmp_path_factory.mktemp("hostile"))
