"""Running averages that are released with noise: their sums, their noise, their share of budget."""

import dataclasses
import math

import dp_accounting
import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.keras_versions import add_to_built
from tests.private_of import private_of
from tfdpnorm.audit.sensitivity import measure_sensitivity
from tfdpnorm.layers import NoisedBatchNormalization, PublicBatchNormalization
from tfdpnorm.privacy import (
    PrivacyBudget,
    create_ledger,
    epsilon_of,
    make_plan,
    privacy_statement,
    read_ledger,
)
from tfdpnorm.privacy.entries import Updates

CLIP = 1.5
LOT = 10


def network(clip=CLIP, norms=2, **settings):
    model = keras.Sequential([keras.Input((5,))])
    for _ in range(norms):
        model.add(keras.layers.Dense(8))
        model.add(NoisedBatchNormalization(activation_clip=clip, **settings))
        model.add(keras.layers.Activation("tanh"))
    model.add(keras.layers.Dense(3))
    return model


def noised(model):
    return [x for x in model.layers if isinstance(x, NoisedBatchNormalization)]


def averages(model):
    return np.concatenate([w.numpy() for layer in noised(model) for w in averages_of(layer)])


def averages_of(layer):
    return layer.running_mean, layer.running_second_moment


@pytest.fixture
def compiled(private, cross_entropy):
    """Returns a function that makes a private model, compiled."""

    def make(model, optimizer="sgd", **settings):
        made = private(model, **settings)
        made.compile(optimizer, cross_entropy)
        return made

    return make


@pytest.fixture
def no_noise():
    return {"budget": PrivacyBudget(float("inf"), 1e-5)}


# The accounting


@each("queries, share", [(1, 0.5), (2, 0.01), (14, 0.9)])
def test_the_parts_of_an_update_compose_to_its_noise_multiplier(queries, share):
    plan = make_plan(
        num_examples=1000,
        expected_batch_size=100,
        steps=20,
        l2_norm_clip=1.0,
        noise_multiplier=3.0,
        delta=1e-5,
        statistics_queries=queries,
        statistics_budget_share=share,
        most_per_batch=1000,
    )
    gaussian = dp_accounting.GaussianDpEvent
    update = dp_accounting.ComposedDpEvent(
        [
            gaussian(plan.gradient_noise_multiplier),
            dp_accounting.SelfComposedDpEvent(gaussian(plan.statistics_noise_multiplier), queries),
        ]
    )
    update = dp_accounting.PoissonSampledDpEvent(0.1, update)
    epsilon = epsilon_of(dp_accounting.SelfComposedDpEvent(update, 20), 1e-5, "rdp")
    assert epsilon == pytest.approx(plan.epsilon_after(20), rel=1e-4)


def test_settings_that_leave_nothing_are_rejected(public, build):
    assert _plan().gradient_noise_multiplier == 1.0 and not _plan().statistics_noise_multiplier
    for queries in (-1, 1.5, "2"):
        with pytest.raises(ValueError, match="statistics_queries"):
            _plan(statistics_queries=queries, statistics_budget_share=0.5)
    for queries, share in ((2, 0.0), (2, 1.0), (2, -0.5), (0, 1.0), (2, None)):
        with pytest.raises(ValueError, match="statistics_budget_share"):
            _plan(statistics_queries=queries, statistics_budget_share=share)
    for share in (1, 1.5, -0.1, float("nan"), True, "0.5"):
        with pytest.raises(ValueError, match="statistics_budget_share"):
            make_private_with(network(), statistics_budget_share=share)
    with pytest.raises(ValueError, match="statistics_budget_share"):
        make_private_with(build("sequential", "layer"), statistics_budget_share=0.5)
    model = network()
    model.add(PublicBatchNormalization(statistics="example"))
    with pytest.raises(ValueError, match="NoisedBatchNormalization"):
        make_private_with(model, public_batch=public)


def _plan(**settings):
    return make_plan(
        num_examples=100,
        expected_batch_size=10,
        steps=2,
        l2_norm_clip=1.0,
        noise_multiplier=1.0,
        delta=1e-5,
        **settings,
    )


def test_ledgers_and_statements_tell_of_the_statistics(tmp_path):
    plan = _plan(statistics_queries=4, statistics_budget_share=0.2)
    ledger = create_ledger(tmp_path / "ledger.jsonl", plan)
    ledger.record(Updates(1))
    ledger.close()
    read = read_ledger(tmp_path / "ledger.jsonl")
    assert read.plan == plan
    text = privacy_statement(read)
    assert "4 sums" in text
    assert f"z_g = {math.sqrt(1.25):.6g}" in text and f"z_s = {math.sqrt(20):.6g}" in text
    plain = dataclasses.replace(plan, statistics_queries=0, statistics_budget_share=0.0)
    assert read.epsilon() == plain.epsilon_after(1)


# What is summed


def reference_sums(layer, inputs):
    """Sums of moments over rows of `inputs`, in NumPy."""
    values = np.clip(inputs, -layer.activation_clip, layer.activation_clip)
    values = values.reshape(len(values), -1, values.shape[-1])
    return values.mean(1).sum(0), (values**2).mean(1).sum(0)


@pytest.mark.parametrize(("engine", "rows"), [("book_keeping", 3)])
def test_without_noise_averages_are_exact(engine, rows, compiled, one_lot, data, no_noise):
    model = network(momentum=0.75)
    for layer in model.layers:
        if isinstance(layer, keras.layers.Dense):
            layer.bias.assign(0.5 * tf.ones_like(layer.bias))  # padding rows would be seen
    trained = compiled(model, engine=engine, **no_noise)
    x, y = data[0][:12], data[1][:12]
    weights = np.ones(12)
    weights[[1, 7]] = 0
    weights[2] = 0.25  # part of the loss, and a whole row of the statistics
    hidden = [keras.Model(model.inputs, layer.input)(x[weights > 0]) for layer in noised(model)]
    before = [[a.numpy() for a in averages_of(layer)] for layer in noised(model)]
    trained.train_step(one_lot(x, y, weights, rows=rows, padding=5))
    for layer, inputs, old in zip(noised(model), hidden, before, strict=True):
        sums = reference_sums(layer, inputs.numpy())
        for average, value, total in zip(averages_of(layer), old, sums, strict=True):
            wanted = 0.75 * value + 0.25 * total / LOT
            np.testing.assert_allclose(average, wanted, rtol=1e-4, atol=1e-6)


def test_rows_count_where_any_of_their_steps_has_a_weight(private, no_noise):
    inputs = keras.Input((2, 3))
    model = keras.Model(inputs, NoisedBatchNormalization(momentum=0.0)(inputs))
    trained = private(model, expected_batch_size=40, steps=1, **no_noise)
    trained.compile("sgd", "mse")
    x = np.random.default_rng(0).normal(size=(40, 2, 3)).astype(np.float32)
    weights = np.zeros((40, 2))
    weights[:30, 1] = 0.5
    trained.fit(x, x, sample_weight=weights, verbose=0)
    layer = model.layers[1]
    for average, total in zip(averages_of(layer), reference_sums(layer, x[:30]), strict=True):
        np.testing.assert_allclose(average, total / 40, rtol=1e-4, atol=1e-6)


def test_rows_are_normalised_by_what_was_there_before_the_update(
    compiled, one_lot, data, no_noise, cross_entropy
):
    model = network(momentum=0.0)
    trained = compiled(model, keras.optimizers.SGD(1.0), l2_norm_clip=1e6, **no_noise)
    x, y = data[0][:6], data[1][:6]
    with tf.GradientTape() as tape:
        loss = cross_entropy(y, model(x, training=True)) * 6 / LOT
    wanted = [
        v - g
        for v, g in zip(
            model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=True
        )
    ]
    trained.train_step(one_lot(x, y))
    for variable, value in zip(model.trainable_variables, wanted, strict=True):
        np.testing.assert_allclose(variable, value, rtol=1e-4, atol=1e-5)


def test_views_count_as_one_row(compiled, one_lot, data, no_noise):
    """The mean over two views, x and -x, is 0; that of squares is x^2."""
    flips = []

    def augmentation(rows):
        flips.append(rows.shape)
        return rows * tf.reshape(tf.tile([1.0, -1.0], [rows.shape[0] // 2]), [-1, 1])

    model = keras.Sequential(
        [keras.Input((5,)), NoisedBatchNormalization(CLIP, momentum=0.0), keras.layers.Dense(3)]
    )
    trained = compiled(model, augmentation=augmentation, augmentation_multiplicity=2, **no_noise)
    x, y = data[0][:8], data[1][:8]
    trained.train_step(one_lot(x, y, rows=4, padding=4))
    np.testing.assert_allclose(model.layers[0].running_mean, np.zeros(5), atol=1e-6)
    wanted = (np.clip(x, -CLIP, CLIP) ** 2).sum(0) / LOT
    np.testing.assert_allclose(model.layers[0].running_second_moment, wanted, rtol=1e-5)
    assert flips


def test_an_empty_lot_adds_nothing(compiled, one_lot, data, no_noise):
    model = network(momentum=0.0)
    trained = compiled(model, **no_noise)
    trained.train_step(one_lot(data[0][:0], data[1][:0], padding=3))
    np.testing.assert_array_equal(averages(model), 0)


# What one row moves


@pytest.mark.parametrize(
    ("engine", "share", "clip", "clipping", "least"),
    [
        # Where rows are cut off in all channels, the bound is reached.
        ("book_keeping", 0.5, 0.001, "flat", 0.97),
        ("per_example", 0.05, 50.0, "per_layer", 0.3),
    ],
)
def test_a_row_moves_all_that_is_released_by_at_most_the_clip(
    engine, share, clip, clipping, least, compiled, data
):
    trained = compiled(
        network(clip),
        engine=engine,
        l2_norm_clip=0.2,
        statistics_budget_share=share,
        clipping=clipping,
    )
    found = measure_sensitivity(trained, data[0][:8], data[1][:8])
    assert found.holds, (found.add_or_remove_one_case, found.replace_case)
    assert found.add_or_remove_one > least


# The noise


def test_each_part_has_the_noise_of_its_share(compiled, one_lot, data, monkeypatch):
    """Of an empty lot noise alone is released."""
    clip, share, units = 0.3, 0.2, 3000
    model = keras.Sequential(
        [
            keras.Input((5,)),
            keras.layers.Dense(units, use_bias=False),
            NoisedBatchNormalization(2.0, center=False, scale=False),
            keras.layers.Dense(3, use_bias=False),
        ]
    )
    trained = compiled(
        model,
        keras.optimizers.SGD(1.0),
        noise_multiplier=4.0,
        delta=1e-5,
        l2_norm_clip=clip,
        statistics_budget_share=share,
    )
    plan, seen, layer = trained.plan, [], model.layers[1]
    monkeypatch.setattr(layer, "update_averages", lambda *moments: seen.append(moments))
    before = [v.numpy() for v in model.trainable_variables]
    trained.train_step(one_lot(data[0][:0], data[1][:0], padding=2))
    for variable, old in zip(model.trainable_variables, before, strict=True):
        assert np.std(variable - old) * LOT == pytest.approx(4.0 / math.sqrt(0.8) * clip, rel=0.05)
    ((mean, second),) = seen
    row_moves = [math.sqrt(units) * bound / LOT for bound in (2.0, 4.0)]
    for noise, moves in zip((mean, second), row_moves, strict=True):
        assert np.std(noise) == pytest.approx(plan.statistics_noise_multiplier * moves, rel=0.05)
        assert abs(np.mean(noise)) < 5 * np.std(noise) / math.sqrt(units)
    assert abs(np.corrcoef(mean, second)[0, 1]) < 0.1


# Runs that are resumed


# What is refused, and what is not


def make_private_with(model, **settings):
    return private_of(
        model,
        steps=2,
        **settings,
    )


def test_frozen_layers_release_nothing(compiled, data):
    model = network()
    for layer in noised(model):
        layer.trainable = False
    before = averages(model)
    trained = compiled(model)
    assert trained.plan.statistics_queries == 0
    trained.fit(*data, verbose=0)
    np.testing.assert_array_equal(averages(model), before)


def test_a_layer_in_two_places_is_rejected(compiled, data):
    layer, inputs = NoisedBatchNormalization(), keras.Input((5,))
    outputs = layer(keras.layers.Dense(5)(layer(inputs)))
    trained = compiled(keras.Model(inputs, keras.layers.Dense(3)(outputs)))
    with pytest.raises(ValueError, match="Expected one call of layer .*, got 2"):
        trained.fit(*data, verbose=0)


def test_other_rows_than_the_lots_are_rejected(compiled, data):
    inputs = keras.Input((5,))
    steps = keras.layers.Reshape((5, 1))(inputs)
    inner = keras.Sequential([keras.layers.Dense(2), NoisedBatchNormalization()])
    outputs = keras.layers.Flatten()(keras.layers.TimeDistributed(inner)(steps))
    model = keras.Model(inputs, keras.layers.Dense(3)(outputs))
    trained = compiled(model, physical_batch_size=10)
    with pytest.raises(ValueError, match="NoisedBatchNormalization|GroupNormalization"):
        trained.fit(*data, verbose=0)


def test_layers_that_come_late_are_rejected(compiled, data):
    model = network(norms=1)
    trained = compiled(model)
    add_to_built(model.layers[2], "late", NoisedBatchNormalization())
    with pytest.raises(ValueError, match=r"Expected the 1 NoisedBatchNormalization layer\(s\)"):
        trained.fit(*data, verbose=0)
