"""Architectures of keras.applications, converted, trained privately, saved, loaded and exported.

    python -m tests.convert.architectures            # prints the table
    python -m tests.convert.architectures --write    # puts it into docs/import.md

Each has random weights and moving averages, the smallest size that its family comes in, and few
rows. With --only and names these are run. Rows are written as they are made; others are left as
they stand on the page.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow import keras

import tfdpnorm
from tests.gradients.looped_reference import double_precision, looped_sum, relative_error
from tests.private_of import private_of
from tfdpnorm.gradients import book_keeping
from tfdpnorm.keras_compat.models import sublayers
from tfdpnorm.layers import PublicMomentsLayer, PublicStatistics, record_pass, use_pass

PAGE = Path(__file__).resolve().parents[2] / "docs" / "import.md"
BEGIN, END = "<!-- begin: made by tests/convert/architectures.py -->", "<!-- end -->"
ROWS, CLASSES, CLIP = 3, 4, 1.0


class Architecture(NamedTuple):
    """One network of keras.applications.

    Attributes:
        name: Name of its function.
        pixels: Height and width of its images.
        batch_norm: What it is converted to.
        options: Further arguments of the function.
        loads: Whether Keras loads what it saves of it; if not, weights alone are.
    """

    name: str
    pixels: int
    batch_norm: str
    options: dict = {}
    loads: bool = True


ARCHITECTURES = (
    Architecture("VGG16", 32, "public_batch"),
    Architecture("ResNet50", 32, "public_batch"),
    Architecture("ResNet50V2", 32, "group"),
    Architecture("MobileNet", 32, "public_batch", {"alpha": 0.25}),
    Architecture("MobileNetV2", 32, "public_batch", {"alpha": 0.35}),
    Architecture("MobileNetV3Small", 32, "frozen", {"alpha": 0.75, "minimalistic": True}),
    Architecture("MobileNetV3Large", 32, "group", {"alpha": 0.75}),
    Architecture("DenseNet121", 32, "public_batch"),
    Architecture("EfficientNetB0", 32, "public_batch"),
    Architecture("EfficientNetV2B0", 32, "layer"),
    Architecture("NASNetMobile", 32, "frozen"),
    Architecture("Xception", 71, "frozen"),
    Architecture("InceptionV3", 75, "public_batch"),
    Architecture("ConvNeXtTiny", 32, "public_batch", loads=False),
    Architecture("RegNetX002", 32, "public_batch"),
    Architecture("RegNetY002", 32, "group"),
    Architecture("ResNetRS50", 32, "frozen"),
)
BY_NAME = {a.name: a for a in ARCHITECTURES}


class Outcome(NamedTuple):
    """What came of one architecture.

    Attributes:
        parameters: How many the converted model has.
        converted: How many layers were exchanged.
        not_converted: How many could not become what was asked for.
        change: Relative change of the outputs by the conversion.
        sum_error: Relative error of the clipped sum against the loop over examples.
        engine: The engine that `make_private` chose.
        seconds: Dict of the seconds of processor time for each part.
    """

    parameters: int
    converted: int
    not_converted: int
    change: float
    sum_error: float
    engine: str
    seconds: dict


def _converted(original, architecture, **settings):
    """A conversion of a network whose `Normalization`, if any, was fitted to public images."""
    settings = dict(normalization_is_public=True, **settings)
    return tfdpnorm.convert_model(original, architecture.batch_norm, **settings)


def built(architecture):
    """The network, with weights and moving averages that are not the initial ones."""
    keras.utils.set_random_seed(0)
    make = getattr(keras.applications, architecture.name)
    shape = (architecture.pixels, architecture.pixels, 3)
    model = make(
        weights=None,
        include_top=True,
        input_shape=shape,
        classes=CLASSES,
        classifier_activation=None,
        **architecture.options,
    )
    rng = np.random.default_rng(0)
    for layer in sublayers(model):
        if isinstance(layer, keras.layers.BatchNormalization):
            count = layer.moving_mean.shape
            layer.moving_mean.assign(rng.normal(0.0, 0.1, count))
            layer.moving_variance.assign(rng.uniform(0.5, 1.5, count))
            if layer.gamma is not None:
                layer.gamma.assign(rng.uniform(0.8, 1.2, layer.gamma.shape))
    return model


def images(architecture, count, seed):
    shape = (count, architecture.pixels, architecture.pixels, 3)
    return np.random.default_rng(seed).uniform(0.0, 255.0, shape).astype(np.float32)


def outcome_of(architecture, folder):
    """Runs one architecture all the way; returns its `Outcome`."""
    seconds, clock = {}, _Clock()
    original = built(architecture)
    kept = original.get_weights()
    public = images(architecture, 4, seed=1)
    clock.restart()
    model, report = _converted(original, architecture, public_rows=public)
    seconds["convert"] = clock.restart()
    for before, after in zip(kept, original.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)
    error = sum_error(architecture, public)
    assert fold_error(architecture, public) < 1e-9
    seconds["loop"] = clock.restart()
    private = private_of(
        model,
        num_examples=2 * ROWS,
        expected_batch_size=ROWS,
        steps=1,
        l2_norm_clip=CLIP,
        public_batch=public if has_public(model) else None,
    )
    private.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = images(architecture, 2 * ROWS, seed=2), np.arange(2 * ROWS) % CLASSES
    private.fit(x, y, verbose=0)
    assert private.ledger.updates == 1 and private.ledger.guarantee_holds
    seconds["step"] = clock.restart()
    expected = np.asarray(private.model(x, training=False))
    folded = tfdpnorm.fold_public_statistics(private)
    if architecture.loads:
        private.save(Path(folder) / "model.keras")
        loaded = keras.models.load_model(Path(folder) / "model.keras")
        folded.save(Path(folder) / "folded.keras")
        folded = keras.models.load_model(Path(folder) / "folded.keras")
    else:
        private.save_weights(Path(folder) / "of.weights.h5")
        loaded = _converted(original, architecture).model
        loaded.load_weights(Path(folder) / "of.weights.h5")
    np.testing.assert_allclose(loaded(x, training=False), expected, atol=1e-5, rtol=1e-4)
    # Of float32, only that the moments are those of the trained weights: see `fold_error`.
    size = np.abs(expected).max() + 1e-6
    np.testing.assert_allclose(folded(x, training=False) / size, expected / size, atol=0.02)
    seconds["save"] = clock.restart()
    return Outcome(
        parameters=model.count_params(),
        converted=sum(layer.after != "kept" for layer in report.layers),
        not_converted=len(report.not_converted),
        change=report.output_change.relative,
        sum_error=error,
        engine=private.engine,
        seconds=seconds,
    )


def has_public(model):
    return any(isinstance(x, PublicMomentsLayer) for x in sublayers(model))


def fold_error(architecture, public):
    """Change of the outputs by folding, relative to the largest.

    In float64: channels of tiny variance multiply the rounding of float32 (see `sum_error`).
    """
    with double_precision():
        public = public.astype(np.float64)
        model = _converted(built(architecture), architecture, public_rows=public).model
        x = images(architecture, ROWS, seed=2).astype(np.float64)
        expected = np.asarray(model(x, training=False))
        got = np.asarray(tfdpnorm.fold_public_statistics(model)(x, training=False))
    return np.abs(got - expected).max() / np.abs(expected).max()


def sum_error(architecture, public):
    """Relative error of the engine's clipped sum beside one plain tape for each example.

    In inference mode for layers that draw at random: both see the same network. In float64: some
    of these networks, with random weights and a public batch of 4, have channels whose variance is
    1e-12, and outputs of a million, where float32 tells nothing.
    """
    with double_precision():
        original = built(architecture)
    model = _converted(original, architecture).model
    statistics = PublicStatistics()
    if has_public(model):
        with record_pass(statistics):
            model(tf.constant(public, tf.float64), training=False)
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(True, reduction="none")

    def loss_fn(x, y, sample_weight):
        with use_pass(statistics):
            logits = model(x, training=False)
        return cross_entropy(y, logits) * tf.cast(sample_weight, logits.dtype), logits

    x = tf.constant(images(architecture, ROWS, seed=3), tf.float64)
    rows = (x, tf.range(ROWS) % CLASSES, tf.ones([ROWS]), tf.ones([ROWS]))
    variables = model.trainable_variables
    result = book_keeping(model, loss_fn, rows, variables, CLIP)
    expected = looped_sum(loss_fn, rows, variables, CLIP)
    return relative_error([np.asarray(g) for g in result.gradients], expected)


class _Clock:
    """Seconds of this process's processor time: other work on the machine hardly changes them."""

    def restart(self):
        now = time.process_time()
        gone, self._since = now - getattr(self, "_since", now), now
        return gone


HEADER = (
    "| architecture | pixels | became | parameters | layers exchanged (not as asked) | outputs "
    "changed by | clipped sum against the loop | engine | convert s | step s | save, load, fold s "
    "|\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)


def line_of(architecture):
    """The row of one architecture, or what went wrong."""
    keras.backend.clear_session()
    with tempfile.TemporaryDirectory() as folder:
        try:
            return _row(architecture, outcome_of(architecture, folder))
        except Exception as error:  # one row says it, the others are made all the same
            text = " ".join(str(error).split()).replace("|", r"\|")[:300]
            return f"| {architecture.name} | **{type(error).__name__}**: {text} |"


def with_row(name, line):
    """The markdown of the page's table with the row of an architecture exchanged or added."""
    rows = {**rows_of(written()), name: line}
    return "\n".join([HEADER, *(rows[a.name] for a in ARCHITECTURES if a.name in rows)]) + "\n"


def _row(architecture, got):
    options = ", ".join(f"{name} {value}" for name, value in architecture.options.items())
    name = architecture.name + (f" ({options})" if options else "")
    name += "" if architecture.loads else " (weights alone: Keras cannot load its own file of it)"
    unasked = f" ({got.not_converted})" if got.not_converted else ""
    s = got.seconds
    return (
        f"| {name} | {architecture.pixels} | {architecture.batch_norm} | {got.parameters:,} | "
        f"{got.converted}{unasked} | {got.change:.1e} | {got.sum_error:.1e} | {got.engine} | "
        f"{s['convert']:.0f} | {s['step']:.0f} | {s['save']:.0f} |"
    )


def written():
    """What stands on the page."""
    if not PAGE.exists():
        return ""
    return PAGE.read_text("utf-8").partition(BEGIN + "\n")[2].partition(END)[0]


def rows_of(markdown):
    """The rows of the table by architecture."""
    rows = [line for line in markdown.splitlines() if line.startswith("| ")]
    return {line.split("|")[1].split("(")[0].strip(): line for line in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    parser.add_argument("--only", nargs="+", help="names of architectures to run")
    given = parser.parse_args()
    for architecture in ARCHITECTURES:
        if given.only and architecture.name not in given.only:
            continue
        line = line_of(architecture)
        print(line, flush=True)
        if given.write:
            text = PAGE.read_text("utf-8")
            before, after = text.partition(BEGIN)[0], text.partition(END)[2]
            made = with_row(architecture.name, line)
            PAGE.write_text(f"{before}{BEGIN}\n{made}{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
