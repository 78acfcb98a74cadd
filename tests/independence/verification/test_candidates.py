"""Candidate samplers: what is drawn, and what is looked up for each example."""

import tensorflow as tf

from tests.each import each
from tfdpnorm.independence.outputs import prove_outputs
from tfdpnorm.independence.verification.verdicts import FREE, Rows
from tfdpnorm.keras_compat.graphs import traced

SAMPLERS = {
    "log uniform": tf.random.log_uniform_candidate_sampler,
    "uniform": tf.random.uniform_candidate_sampler,
    "unigram": lambda *a: tf.random.fixed_unigram_candidate_sampler(*a, unigrams=[1.0] * 9),
}


def found(sampler, of_classes=lambda classes: classes):
    def draw(classes):
        drawn = sampler(of_classes(classes), 1, 4, True, 9)
        return drawn.sampled_candidates, *drawn[1:]

    graph = traced(draw, (tf.TensorSpec([6, 1], tf.int64),)).graph
    proof = prove_outputs(graph, 6)
    return [claim.verdict for claim in proof.claims], proof.state_faults


@each("name", SAMPLERS)
def test_the_drawn_classes_are_free_and_the_true_ones_of_rows(name):
    assert found(SAMPLERS[name]) == ([FREE, Rows(0), FREE], ())


@each("name", SAMPLERS)
def test_true_classes_that_are_not_of_rows_are_no_rows(name):
    verdicts, _ = found(SAMPLERS[name], lambda classes: tf.reverse(classes, [0]))
    assert Rows(0) not in verdicts


def test_a_sampler_that_learns_keeps_what_it_saw():
    assert found(tf.random.learned_unigram_candidate_sampler)[1]


def test_draws_do_not_depend_on_the_true_classes():
    def drawn(true):
        tf.random.set_seed(1)
        classes = tf.constant(true, tf.int64)
        draws = [tf.random.log_uniform_candidate_sampler(classes, 1, 4, True, 9) for _ in range(3)]
        return [d.sampled_candidates.numpy().tolist() for d in draws]

    assert drawn([[0], [0]]) == drawn([[8], [3]])
