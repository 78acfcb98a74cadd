"""Rules by their meaning: what TensorFlow computes must not contradict a claim."""

import numpy as np
import tensorflow as tf

from tests.each import each
from tests.independence.verification.perturbation import wrong
from tests.independence.verification.random_operations import DRAWN, Draw, P, changed, values
from tfdpnorm.independence.verification.claims import Asked, Question, verify
from tfdpnorm.independence.verification.verdicts import FREE, Mixed, Rows
from tfdpnorm.keras_compat.plain_graphs import plain_graph

DRAWS = 24
# How often examples stay apart although no rule says so: on axes that are not those of the batch,
# where an operation happens to have one entry, by constants that no rule follows, or after a number
# of turns that transpose. A rule that says so is welcome; one that says less than today is noticed.
GAPS = {
    "turned": 1,
    "matrices": 8,
    "segments": 1,
    "pools": 2,
    "images": 4,
    "lists": 3,
    "loops": 8,
}


class Drawn:
    """Several draws of a family of operations, traced as one function.

    Attributes:
        inputs: List of the inputs of each draw.
        verdicts: That on the output of each.
    """

    def __init__(self, name, count=DRAWS):
        self._seeds = [[sum(name.encode()), number] for number in range(count)]
        function, self.inputs = DRAWN[name], []
        for seed in self._seeds:
            draw = Draw(np.random.default_rng(seed))
            tf.function(lambda draw=draw: function(draw), autograph=False).get_concrete_function()
            self.inputs.append(draw.inputs)
        flat = [given for inputs in self.inputs for given in inputs]

        def whole(*tensors):
            tensors, outputs = list(tensors), []
            for seed, inputs in zip(self._seeds, self.inputs, strict=True):
                own = [tensors.pop(0) for _ in inputs]
                outputs.append(function(Draw(np.random.default_rng(seed), own)))
            return outputs

        specs = [tf.TensorSpec(shape, dtype) for shape, dtype, *_ in flat]
        self._concrete = tf.function(whole, autograph=False).get_concrete_function(*specs)
        plain = plain_graph(self._concrete.graph).graph
        verdicts = [verdict for _, _, verdict, _ in flat]
        verdicts += [FREE] * (len(plain.inputs) - len(flat))
        asked = [Asked(f"{name} {i}", t) for i, t in enumerate(plain.outputs)]
        proof = verify(Question(plain, P, verdicts, asked))
        self.verdicts = [claim.verdict for claim in proof.claims]

    def run(self, arrays):
        """The outputs for arrays of each draw."""
        flat = [tf.constant(array) for own in arrays for array in own]
        return [np.asarray(t) for t in tf.nest.flatten(self._concrete(*flat))]


def changes(drawn):
    """Yields triples of an example, and the outputs before and after it changed."""
    rng = np.random.default_rng(7)
    base = [values(inputs, rng) for inputs in drawn.inputs]
    before = drawn.run(base)
    for example in (*range(P), *range(P)):
        pairs = zip(base, drawn.inputs, strict=True)
        after = drawn.run([changed(arrays, inputs, example, rng) for arrays, inputs in pairs])
        yield example, before, after


def keeps_apart(changes, number):
    """Whether some layout of rows agrees with all changes of an output, and one did change it."""
    shape = changes[0][1][number].shape
    layouts = [
        Rows(axis, m, n // (P * m))
        for axis, n in enumerate(shape)
        for m in (1, 2, 4, 6)
        if n and n % (P * m) == 0
    ]
    moved = any(not np.array_equal(b[number], a[number]) for _, b, a in changes)
    return moved and any(
        not any(wrong(layout, b[number], a[number], example, P) for example, b, a in changes)
        for layout in layouts
    )


@each("name", DRAWN)
def test_no_claim_is_contradicted_and_none_is_missing(name):
    drawn = Drawn(name)
    found = list(changes(drawn))
    contradicted = {
        (number, str(verdict))
        for number, verdict in enumerate(drawn.verdicts)
        for example, before, after in found
        if wrong(verdict, before[number], after[number], example, P)
    }
    assert not contradicted
    mixed = [i for i, v in enumerate(drawn.verdicts) if isinstance(v, Mixed)]
    assert sum(keeps_apart(found, i) for i in mixed) == GAPS.get(name, 0)
    assert any(isinstance(v, Rows) for v in drawn.verdicts), "no rule was tested"
