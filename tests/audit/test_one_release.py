"""Attackers who know all but one row learn no more of it from a release than epsilon says."""

import numpy as np
import pytest

from tfdpnorm import PrivacyBudget, private_least_squares
from tfdpnorm.audit.lower_bounds import epsilon_from_samples
from tfdpnorm.least_squares.products import Coding, Products
from tfdpnorm.least_squares.ridge import gram_share_for
from tfdpnorm.privacy import calibrate_noise_multiplier

ROWS, FEATURES, CLASSES, DELTA, EPSILON = 12, 4, 3, 1e-3, 2.0
DRAWS = 200


@pytest.fixture(scope="module")
def data():
    """Rows of which the last one is known to be in the data, or not."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(ROWS, FEATURES))
    x[-1] = 1e3 * np.eye(FEATURES)[0]  # as long as anybody likes
    return x, rng.integers(CLASSES, size=ROWS)


def samples(data, rows):
    """[DRAWS]: what was released along the direction that tells most of the last row."""
    x, y = (part[:rows] for part in data)
    noise_multiplier = calibrate_noise_multiplier(PrivacyBudget(EPSILON, DELTA), 1.0, 1, "pld")
    share = gram_share_for(rows, noise_multiplier, FEATURES, CLASSES)
    products = Products(FEATURES + 1, Coding.of_classes(CLASSES), 1.0, share, 0.1)
    whole, _ = products.total(*data, np.ones(ROWS))
    known, _ = products.total(*(part[: ROWS - 1] for part in data), np.ones(ROWS - 1))
    along = (whole - known) / np.linalg.norm(whole - known)
    found = []
    for _ in range(DRAWS):
        head = private_least_squares(
            x, y, num_classes=CLASSES, budget=PrivacyBudget(EPSILON, DELTA)
        )
        upper = np.triu_indices(FEATURES + 1)
        gram = head.gram[upper] * np.where(upper[0] == upper[1], 1, np.sqrt(2))
        cross = head.cross.ravel() / np.sqrt(1 - 1 / CLASSES)
        vector = [np.sqrt(share) * gram, np.sqrt(1 - share) * cross]
        found.append(along @ (np.concatenate(vector) - known))
    return np.array(found)


@pytest.mark.filterwarnings("ignore:delta", "ignore:Little will be learnt")
def test_an_attack_learns_at_most_epsilon_of_a_row(data):
    with_row, without = samples(data, ROWS), samples(data, ROWS - 1)
    assert epsilon_from_samples(with_row, without, delta=DELTA) <= EPSILON
    # The difference of 1 over this deviation is all that anybody can know of the row.
    noise_multiplier = calibrate_noise_multiplier(PrivacyBudget(EPSILON, DELTA), 1.0, 1, "pld")
    assert np.std([*(with_row - 1), *without]) == pytest.approx(noise_multiplier, rel=0.15)
    assert with_row.mean() == pytest.approx(1, abs=0.35)
    assert without.mean() == pytest.approx(0, abs=0.35)
