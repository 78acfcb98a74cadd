"""All engines give the sum that a plain loop over single examples gives."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.training.step.looped import looped_sum
from tfdpnorm.layers import PublicStatistics, record_pass, use_pass
from tfdpnorm.training import ENGINES

ROWS, PADDING = 7, 3
WEIGHTS = np.array([1, 0.5, 2, 0, 3, 1, 0.1], np.float32)


def loop_over_examples(model, public, x, y, weights, clip):
    """The sum over weighted examples; each is normalised by the statistics of the public rows."""
    statistics = PublicStatistics()
    if public is not None:
        with record_pass(statistics):
            model(public, training=True)

    def loss_of(i):
        with use_pass(statistics):
            logits = model(x[i : i + 1], training=True)
        return weights[i] * (tf.reduce_logsumexp(logits[0]) - logits[0, y[i]])

    return looped_sum(model, loss_of, len(x), clip)


def check(engine, case, *, optimizer="SGD", clip, rows=None):
    """The training step's clipped sum, for 7 weighted rows and padding, against the loop's."""
    build, private, one_lot, step_sum, data, public, cross_entropy, kind, norm = case
    x, y = data[0][:ROWS], data[1][:ROWS]
    settings = {"statistics_gradient": "stop"} if norm == "public_batch" else {}
    model = build(kind, norm, **settings)
    model(x)
    rng = np.random.default_rng(3)
    model.set_weights([w + rng.normal(size=w.shape) for w in model.get_weights()])
    rows_of_public = public if norm == "public_batch" else None
    expected = loop_over_examples(model, rows_of_public, x, y, WEIGHTS, clip)
    infinite = {"noise_multiplier": 0.0} if np.isinf(clip) else {}
    trained = private(
        model, engine=engine, public_batch=rows_of_public, l2_norm_clip=clip, **infinite
    )
    trained.compile(optimizer, cross_entropy)
    actual = step_sum(trained)(one_lot(x, y, WEIGHTS, padding=PADDING, rows=rows))
    # Each of the 7 terms has norm at most C or, unclipped, that of the sum's scale.
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.fixture
def case(request, build, private, one_lot, step_sum, data, public, cross_entropy):
    return (build, private, one_lot, step_sum, data, public, cross_entropy, *request.param)


@pytest.mark.quick_cases("book_keeping-sequential-layer-0.3")
@pytest.mark.parametrize(
    ("case", "clip"),
    [
        (("sequential", "layer"), 0.3),
        (("functional", "group"), np.inf),
        (("subclassed", "public_batch"), 0.3),
    ],
    indirect=["case"],
    ids=["sequential-layer-0.3", "functional-group-inf", "subclassed-public_batch-0.3"],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_equals_a_loop_over_single_examples(engine, case, clip):
    check(engine, case, clip=clip)


@pytest.mark.quick_cases("Adam-sequential-none")
@pytest.mark.needs_tensorflow_privacy
@pytest.mark.parametrize("case", [("sequential", "none")], indirect=True, ids="-".join)
@pytest.mark.parametrize("optimizer", ["Adam", "Nadam"])
def test_tfp_vectorized_sums_alike_for_every_optimizer_class(optimizer, case):
    check("tfp_vectorized", case, optimizer=optimizer, clip=0.3)


@pytest.mark.quick_cases("book_keeping-functional-public_batch")
@pytest.mark.parametrize("case", [("functional", "public_batch")], indirect=True, ids="-".join)
@pytest.mark.parametrize(
    "engine",
    [
        "per_example",
        "book_keeping",
        pytest.param("tfp_vectorized", marks=pytest.mark.slow),
        pytest.param("tfp_model", marks=pytest.mark.slow),
    ],
)
def test_physical_batches_add_up_to_the_lot(engine, case):
    check(engine, case, clip=0.3, rows=4)


@pytest.mark.needs_tensorflow_privacy
def test_tfp_vectorized_rejects_optimizers_that_tfp_cannot_wrap(build, private, cross_entropy):
    trained = private(build(), engine="tfp_vectorized")
    with pytest.raises(ValueError, match="engine='per_example', which takes any optimizer"):
        trained.compile("rmsprop", cross_entropy)


@pytest.mark.quick_cases("book_keeping")
@pytest.mark.parametrize("engine", ENGINES)
def test_padding_with_a_non_finite_gradient_is_not_counted(engine, private, one_lot, step_sum):
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,), use_bias=False)])
    x, y = np.ones((3, 2), np.float32), np.zeros(3, np.float32)
    trained = private(model, engine=engine)
    trained.compile("sgd", lambda y, p: tf.math.log(p * p)[:, 0])  # infinite for rows of zeros
    run = step_sum(trained)
    without = run(one_lot(x, y))
    assert run.nonfinite == 0 and np.linalg.norm(without) > 0.1
    np.testing.assert_allclose(run(one_lot(x, y, padding=4)), without, rtol=1e-5)
    assert run.nonfinite == 0
