"""The budget rejects what is no budget."""

import math

import numpy as np
import pytest

from tfdpnorm.privacy import PrivacyBudget


@pytest.mark.parametrize("epsilon", [1e-3, 1, 8.0, math.inf, np.float32(2), np.int64(3)])
def test_valid_budgets_hold_plain_floats(epsilon):
    budget = PrivacyBudget(epsilon=epsilon, delta=np.float64(1e-5))
    assert (budget.epsilon, budget.delta) == (float(epsilon), 1e-5)
    assert type(budget.epsilon) is float and type(budget.delta) is float


@pytest.mark.parametrize("epsilon", [0, -1.0, -math.inf, math.nan, "1", None, True, 1j, [1.0]])
def test_bad_epsilon_is_rejected(epsilon):
    with pytest.raises(ValueError, match=r"Expected epsilon > 0, got "):
        PrivacyBudget(epsilon=epsilon, delta=1e-5)


@pytest.mark.parametrize("delta", [0, 1, -1e-5, 2.0, math.inf, math.nan, "1e-5", None, False])
def test_bad_delta_is_rejected(delta):
    with pytest.raises(ValueError, match=r"Expected delta strictly between 0 and 1, got "):
        PrivacyBudget(epsilon=1.0, delta=delta)
