"""The released sum: products of features with features and with targets.

An example has a row of features and an intercept a, x = (features, a), scaled to u with |u| <= 1,
and a target t with |t| <= b. With
svec(M) the upper triangle of a symmetric matrix, the entries off the diagonal times sqrt(2), and a
share 0 < s < 1, it adds the vector

    v = (sqrt(s) svec(u u^T),  sqrt(1 - s) / b  u t^T)

to the sum.

**Sensitivity.** Adding or removing an example moves the exact sum by |v| <= 1:

1. |svec(M)| is the Frobenius norm of M, and |u u^T| = |u|^2 <= 1; the sqrt(2) counts both halves.
2. |u t^T| = |u| |t| <= b.
3. |v|^2 = s |u|^4 + (1 - s) |u|^2 |t|^2 / b^2 <= s + 1 - s = 1.

**Persons.** A person adds the mean of v over up to k of their rows. A mean of vectors in the unit
ball is in it, so that 1 bounds what a person moves, whatever rows they have.
"""

import math
from typing import NamedTuple

import numpy as np

from tfdpnorm.data.persons import Persons

SENSITIVITY = 1.0
_BLOCK = 4096  # rows
_UNIT = 2.0**-53  # unit roundoff of float64
_SINGLE = 16  # of roundings that a number goes through besides those of its block


class Coding(NamedTuple):
    """How labels become targets t of `outputs` entries with a `bound`, b, on |t|.

    `num_classes` is K for labels that are whole numbers in [0, K): t is one-hot minus 1 / K in each
    class. That changes no difference between scores, and makes t shorter. It is None for labels
    that are targets; longer ones are scaled down to b.
    """

    num_classes: int | None
    outputs: int
    bound: float

    @classmethod
    def of_classes(cls, num_classes):
        """Returns the coding of K classes."""
        return cls(num_classes, num_classes, math.sqrt(1 - 1 / num_classes))

    def targets(self, labels):
        """Returns targets, float64 [n, outputs], and whether each label has one, bool [n]."""
        if self.num_classes is None:
            return clipped(np.reshape(labels, (len(labels), self.outputs)), self.bound, 1.0)
        valid = (labels >= 0) & (labels < self.num_classes)
        targets = np.full((len(labels), self.outputs), -1 / self.num_classes)
        targets[np.arange(len(labels)), np.where(valid, labels, 0)] += 1
        return targets * valid[:, np.newaxis], valid


def clipped(rows, norm, over=None):
    """Returns rows scaled down to a norm where they are longer, and which of them are finite.

    Rows are [n, d], the results float64 [n, d] and bool [n]. Rows with a norm that is not finite
    become zeros. All are divided by `over`, or for None by `norm`, which leaves norms of at most 1.
    """
    rows = np.asarray(rows, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.linalg.norm(rows, axis=1)
    finite = np.isfinite(norms)
    rows = np.where(finite[:, np.newaxis], rows, 0.0)
    longer = np.maximum(np.where(finite, norms, norm), norm)
    divisor = longer if over is None else longer * (over / norm)
    return rows / divisor[:, np.newaxis], finite


class Products:
    """Sums of v over examples with d - 1 features and an intercept, and back.

    `columns` is d. Rows longer than C = `l2_norm_clip` are scaled down to it, and all are divided
    by it. `gram_share` is s, the share of the privacy loss that X'X takes.
    """

    def __init__(self, columns, coding, l2_norm_clip, gram_share, intercept):
        self.columns, self.gram_share = columns, gram_share
        self._coding, self._clip, self._intercept = coding, l2_norm_clip, intercept
        self._upper = np.triu_indices(columns)
        self._double = np.where(self._upper[0] == self._upper[1], 1.0, math.sqrt(2))
        self._of_gram = math.sqrt(gram_share)
        self._of_cross = math.sqrt(1 - gram_share) / coding.bound

    def total(self, features, labels, weights):
        """Returns the sum of weights times v, float64 [d (d + 1) / 2 + d outputs]. **Not private.**

        Features are [M, d - 1], labels [M] or [M, outputs], weights, in [0, 1], [M]. A row that is
        not finite, or without a valid label, adds nothing; the second result says whether every
        row has added something. Blocks of rows are added up by Kahan's method, so that the rounding
        of the sum does not grow with their number.
        """
        total = np.zeros(len(self._double) + self.columns * self._coding.outputs)
        lost = np.zeros_like(total)
        complete = True
        for start in range(0, len(features), _BLOCK):
            rows = slice(start, start + _BLOCK)
            x = np.insert(
                np.asarray(features[rows], np.float64), self.columns - 1, self._intercept, 1
            )
            u, is_finite = clipped(x, self._clip)
            targets, has_target = self._coding.targets(labels[rows])
            valid = is_finite & has_target
            complete = complete and bool(valid.all())
            weighted = u * (weights[rows] * valid)[:, np.newaxis]
            added = self._vector(u.T @ weighted, weighted.T @ targets) - lost
            moved = total + added
            lost = (moved - total) - added
            total = moved
        return total, complete

    def _vector(self, gram, cross):
        gram = gram[self._upper] * self._double * self._of_gram
        return np.concatenate([gram, cross.ravel() * self._of_cross])

    def matrices(self, vector):
        """Returns the pair X'X [d, d] and X'Y [d, outputs] that a sum stands for."""
        upper, cross = np.split(vector, [len(self._double)])
        gram = np.zeros((self.columns, self.columns))
        gram[self._upper] = upper / self._double / self._of_gram
        gram = gram + np.triu(gram, 1).T
        return gram, cross.reshape(self.columns, -1) / self._of_cross

    def gram_noise(self, stddev):
        """Returns the standard deviation of X'X off its diagonal, for noise of `stddev` on a sum.

        On the diagonal it is sqrt(2) times that.
        """
        return stddev / math.sqrt(2) / self._of_gram

    def rounding(self, num_examples):
        """Returns how much more than 1 an example can move the sum of N; see docs/one_release."""
        most = (_BLOCK + _SINGLE) * _UNIT
        of_sum = most / (1 - most)
        of_row = 2 * (self.columns + self._coding.outputs + _SINGLE) * _UNIT
        return of_row + 2 * (num_examples + 1) * of_sum


def row_weights(count, person=None, most_per_person=None):
    """Returns the number of examples N and the weight of each of `count` rows, float64 [M].

    That is 1, or with persons (`person` says whose each row is, [M]) 1 / r for the r rows that are
    read of one: the first `most_per_person`, in the order of the data.
    """
    if person is None:
        return count, np.ones(count)
    persons = Persons(person, most_per_person)
    starts, order = (np.asarray(part) for part in persons.index)
    have = np.diff(starts)
    place = np.arange(count) - np.repeat(starts[:-1], have)
    share = np.repeat(1 / np.minimum(have, persons.most), have)
    weights = np.zeros(count)
    weights[order] = np.where(place < persons.most, share, 0.0)
    return persons.count, weights
