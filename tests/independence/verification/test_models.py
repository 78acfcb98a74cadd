"""The project's own models are proved in their private normalisations."""

import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm import models
from tfdpnorm.independence.book_keeping import prove_training
from tfdpnorm.training.public_rows import PublicBatch, Streams

PRIVATE = sorted(set(models.NORMS) - {"batch"})
P = 8
NAMES = [f"{name}-{norm}" for name in models.names() for norm in PRIVATE]
CROSS_ENTROPY = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def proof_of(name, norm, examples=P, **options):
    # An embedding of few words, and short texts: as many steps as examples.
    small = {"bilstm": {"input_shape": (P,)}, "transformer": {"input_shape": (P,)}}.get(name, {})
    model = models.build(name, norm, **small, **options)
    (x,) = (tf.TensorSpec([examples, *i.shape[1:]], i.dtype) for i in model.inputs)
    make_forward = None
    if norm == "public_batch":
        streams = Streams(model, PublicBatch(tf.zeros([6, *x.shape[1:]], x.dtype)))

        def make_forward(x, mask):
            statistics = streams.public_pass(training=True)
            return lambda x: streams.forward(x, statistics, training=True, mask=mask)

    y = tf.TensorSpec([examples], tf.int64)
    return prove_training(model, CROSS_ENTROPY, x, y, make_forward=make_forward)


@pytest.mark.quick_cases("mlp-layer", "mlp-noised_batch", "mlp-none")
@pytest.mark.parametrize("case", NAMES)
def test_a_private_model_is_verified(case):
    proof = proof_of(*case.split("-"))
    assert proof.holds, proof.obstacle
    # The losses, and three of each layer that is trained; random_features has but one.
    assert len(proof.claims) > 3


@pytest.mark.quick_cases("noised_batch")
@pytest.mark.parametrize("norm", PRIVATE)
def test_a_physical_batch_of_one_row_is_verified(norm):
    """Its axis has the size of every other axis of one entry."""
    proof = proof_of("lenet5", norm, examples=1)
    assert proof.holds, proof.obstacle


@pytest.mark.slow
def test_a_text_by_itself_is_verified():
    proof = proof_of("transformer", "none", examples=1)
    assert proof.holds, proof.obstacle


@pytest.mark.slow_cases("full-public", "stop-*")
@pytest.mark.parametrize("statistics", ["blend", "public"])
@pytest.mark.parametrize("gradient", ["full", "stop"])
def test_each_kind_of_public_statistics_is_verified(statistics, gradient):
    options = {"statistics": statistics, "statistics_gradient": gradient}
    proof = proof_of("lenet5", "public_batch", **options)
    assert proof.holds, proof.obstacle
