"""All engines give the sum that a plain loop over single examples gives."""

import numpy as np
import pytest
import tensorflow as tf

from tests.training.step.looped import looped_sum
from tfdpnorm.layers import PublicStatistics, record_pass, use_pass

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


@pytest.mark.parametrize(
    "engine, optimizer, case, clip, rows",
    [
        ("book_keeping", "SGD", ("functional", "public_batch"), 0.3, 4),
        ("per_example", "SGD", ("functional", "group"), np.inf, None),
        ("tfp_model", "SGD", ("subclassed", "public_batch"), 0.3, None),
        ("tfp_vectorized", "Adam", ("sequential", "none"), 0.3, None),
    ],
    indirect=["case"],
    ids=["book_keeping", "per_example", "tfp_model", "tfp_vectorized"],
)
def test_equals_a_loop_over_single_examples(engine, optimizer, case, clip, rows):
    check(engine, case, optimizer=optimizer, clip=clip, rows=rows)
