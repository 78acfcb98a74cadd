"""The cells of all experiments, trained at toy size to their records, and the tables of these."""

import gc
import re

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

from tfdpnorm import models
from tfdpnorm.gradients.clipping import FLOAT16_LOSS_SCALE
from tfdpnorm.keras_compat.devices_and_precision import made_under
from trainers import registry
from trainers.records.store import read_records
from trainers.report import tables
from trainers.runs.outline import outline
from trainers.scale import at_scale
from trainers.sweeps.runs import is_done

_SMALL = dict(
    max_examples=48,
    expected_batch_size=8,
    physical_batch_size=8,
    batch_size=8,
    public_batch_size=8,
    validation_examples=8,
    pretraining_epochs=1,
    evaluations=1,
    delta=1e-3,
    # Of searches.
    over="learning_rate=0.1:0.3",
    expected_trials=2.0,
    score_examples=8,
)


def of_each_kind(specs):
    """One of the specs that differ in epsilon, noise in the weights or seed alone; the last."""
    found = {}
    for spec in specs:
        run = spec.run
        is_unclipped = run.kind == "private" and run.is_unclipped
        method = run.variational.method
        key = (spec.kind, run.network, run.norm, method, is_unclipped, run.model_options)
        found[key] = spec
    return list(found.values())


def at_toy_size(spec, model_file, steps=2):
    """The spec with less of everything; imported models are replaced by one of few weights."""
    fields = spec.settings
    small = {name: value for name, value in _SMALL.items() if name in fields}
    if "score_examples" in small:
        small["run"] = at_toy_size(spec.run, model_file)
        return spec.replaced(**{n: v for n, v in small.items() if n not in spec.run.settings})
    if fields.get("trainable"):
        small |= dict(model=model_file, image_size=8)
    # Algorithm 1 as printed is trained in whole passes.
    length = dict(epochs=1) if fields.get("reading") == "as_printed" else dict(steps=steps)
    return spec.replaced(**{**small, "epochs": None, "steps": None, **length})


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Folders that the tests share: a cell of two tables is trained once."""
    folder = tmp_path_factory.mktemp("toy")
    inputs = x = keras.Input((8, 8, 3))
    for _ in range(8):
        x = layers.Conv2D(4, 3, padding="same", activation="relu")(x)
    keras.Model(inputs, layers.GlobalAveragePooling2D()(x), name="imported").save(
        folder / "imported.keras"
    )
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("experiment", registry.EXPERIMENTS)
def test_every_cell_ends_in_a_record_and_in_a_table(experiment, places, toy_sets):
    form, results = registry.table_form(experiment), places / "results"
    cells = [
        at_toy_size(spec, str(places / "imported.keras"))
        for spec in of_each_kind(registry.cells(experiment))
    ]
    results.mkdir(exist_ok=True)
    failed = []
    for spec in cells:
        if is_done(spec, read_records(results, spec.experiment)):
            continue
        lines = []
        options = dict(cache_dir=places / "cache", echo=lines.append)
        try:
            told = registry.run_class(spec)(spec, outline(spec.run), echo=lines.append).describe()
            registry.run_cell(spec, output_dir=results, **options)
            # What the public network can do by itself is known once it is trained.
            said = [re.sub("; its own logits.* of those tested", "", line) for line in lines]
            assert told in said, f"the dry run says {told}, the run {said}"
        except Exception as error:
            failed.append(f"{spec.experiment} {spec.cell}: {type(error).__name__}: {error}")
        keras.backend.clear_session()
        gc.collect()
    assert not failed, "\n".join(failed)
    names = {spec.cell for spec in cells}
    sources = registry.sources(experiment)
    records = [r for source in sources for r in read_records(results, source)]
    records = [record for record in records if record["cell"] in names]
    assert {record["cell"] for record in records} == names
    text = tables.experiment_table(records, registry.networks(experiment), None, form)
    assert all(f"| {spec.network} |" in text for spec in cells)


def of_papers():
    """The experiments of papers whose cells are others at the paper's scale."""
    return [name for name in registry.EXPERIMENTS if name.startswith(("davody", "klause", "ermis"))]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("experiment", of_papers())
def test_full_scale_cells_make_three_updates_at_their_own_shapes(experiment, precision, toy_sets):
    """Whole networks, images and numbers of views; a lot of 8, two physical batches."""
    with at_scale("paper"):
        cells = of_each_kind(registry.cells(experiment))
    for spec in cells:
        small = at_toy_size(spec, "", steps=3).replaced(precision=precision)
        if spec.kind == "private":
            small = small.replaced(physical_batch_size=4)
        run = registry.run_cell(small, echo=lambda line: None)
        assert run.record["updates"] >= 3, spec.cell
        assert run.record["test_accuracy"] >= 0
        if precision == "mixed_float16" and "standardized_by" in dict(spec.model_options):
            assert is_finite_for_black(run.model.model), spec.cell
        keras.backend.clear_session()
        gc.collect()


def is_finite_for_black(network):
    """Whether a black image has a gradient in float16, and does not count as zero.

    Each normalisation of a block without variance takes the gradient times 1 / sqrt(epsilon), some
    30: ten of them leave float16. Standardised, a black image is none without variance.
    """
    with tf.GradientTape() as tape:
        logits = network(tf.zeros((1, *network.input_shape[1:])), training=True)
        loss = FLOAT16_LOSS_SCALE * tf.reduce_logsumexp(tf.cast(logits, tf.float32))
    gradients = tape.gradient(loss, network.trainable_variables)
    return all(np.all(np.isfinite(g)) for g in gradients)


def test_a_black_image_counts_in_float16():
    keras.utils.set_random_seed(0)
    with made_under("mixed_float16"):
        network = models.build(
            "resnet9", norm="group", num_classes=10, input_shape=(32, 32, 3), width=16,
            standardized_by="cifar100",
        )  # fmt: skip
    assert is_finite_for_black(network)
