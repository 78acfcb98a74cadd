"""Candidate samplers, as in `tf.nn.sampled_softmax_loss`.

Lemma. The candidates are drawn from a distribution over the range of classes, and as many random
numbers are set aside for a draw whatever the true classes [rows, n] are. The latter are looked up
only: entry n of the expected counts is that of true class n.
"""

from tfdpnorm.independence.verification.registry import rule
from tfdpnorm.independence.verification.verdicts import FREE


# Not the learned samplers, which keep how often they saw a class.
@rule("LogUniformCandidateSampler", "UniformCandidateSampler", "FixedUnigramCandidateSampler")
def _candidates(node):
    rows = FREE if node.all_free([0]) else node.of_rows(0)
    if rows is None:
        return node.mixed("looks up classes that are not of rows")
    return [FREE, rows, FREE]
