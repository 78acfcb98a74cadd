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


@pytest.mark.parametrize(
    "engine, optimizer, kind, norm, clip, rows",
    [
        ("book_keeping", "SGD", "functional", "public_batch", 0.3, 4),
        ("per_example", "SGD", "functional", "group", np.inf, None),
        ("tfp_model", "SGD", "subclassed", "public_batch", 0.3, None),
        ("tfp_vectorized", "Adam", "sequential", "none", 0.3, None),
    ],
    ids=["book_keeping", "per_example", "tfp_model", "tfp_vectorized"],
)
def test_equals_a_loop_over_single_examples(
    engine, optimizer, kind, norm, clip, rows,
    build, private, one_lot, step_sum, data, public, cross_entropy,
):  # fmt: skip
    """The training step's clipped sum, for 7 weighted rows and padding."""
    x, y = data[0][:ROWS], data[1][:ROWS]
    if norm != "public_batch":
        public = None
    model = build(kind, norm, **({} if public is None else {"statistics_gradient": "stop"}))
    model(x)
    rng = np.random.default_rng(3)
    model.set_weights([w + rng.normal(size=w.shape) for w in model.get_weights()])
    expected = loop_over_examples(model, public, x, y, WEIGHTS, clip)
    infinite = {"noise_multiplier": 0.0} if np.isinf(clip) else {}
    trained = private(model, engine=engine, public_batch=public, l2_norm_clip=clip, **infinite)
    trained.compile(optimizer, cross_entropy)
    actual = step_sum(trained)(one_lot(x, y, WEIGHTS, padding=PADDING, rows=rows))
    # Each of the 7 terms has norm at most C or, unclipped, that of the sum's scale.
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
