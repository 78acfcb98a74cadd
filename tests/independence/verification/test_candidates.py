"""Candidate samplers: what is drawn, and what is looked up for each example."""

import tensorflow as tf

from tests.each import each
from tfdpnorm.independence.verification.outputs import verdicts_of
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
    return verdicts_of(graph, 6)


@each("name", SAMPLERS)
def test_the_drawn_classes_are_free_and_the_true_ones_of_rows(name):
    walked = found(SAMPLERS[name])
    assert walked.verdicts == [FREE, Rows(0), FREE] and not walked.state_faults


@each("name", SAMPLERS)
def test_true_classes_that_are_not_of_rows_are_no_rows(name):
    walked = found(SAMPLERS[name], lambda classes: tf.reverse(classes, [0]))
    assert not any(v == Rows(0) for v in walked.verdicts)


def test_a_sampler_that_learns_keeps_what_it_saw():
    assert found(tf.random.learned_unigram_candidate_sampler).state_faults


def test_draws_do_not_depend_on_the_true_classes():
    def drawn(true):
        tf.random.set_seed(1)
        classes = tf.constant(true, tf.int64)
        draws = [tf.random.log_uniform_candidate_sampler(classes, 1, 4, True, 9) for _ in range(3)]
        return [d.sampled_candidates.numpy().tolist() for d in draws]

    assert drawn([[0], [0]]) == drawn([[8], [3]])
