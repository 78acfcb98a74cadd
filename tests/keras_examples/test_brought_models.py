"""Models that users bring are proved, or stopped by an operation that is known to be beyond."""

import pytest

from tests.keras_examples.case import P, private_with
from tests.keras_examples.images import IMAGES, IMAGES_REFUSED
from tests.keras_examples.others import OTHERS, OTHERS_REFUSED
from tests.keras_examples.positions import EACH_EXAMPLE, NO_EXAMPLE, POSITIONS_REFUSED
from tests.keras_examples.sequences import SEQUENCES, SEQUENCES_REFUSED
from tfdpnorm.independence import prove_training

PROVED = {**IMAGES, **SEQUENCES, **OTHERS, **EACH_EXAMPLE, **NO_EXAMPLE}
REFUSED = {**IMAGES_REFUSED, **SEQUENCES_REFUSED, **OTHERS_REFUSED, **POSITIONS_REFUSED}
BY_ENGINE = ("window_attention_on_merged_rows",)  # refused before anything is proved
QUICK = ("k_max_pooling", "wide_and_deep", "class_token_tiled", "distillation", "positions_counted")

pytestmark = pytest.mark.filterwarnings("ignore:There is no gradient rule")


def proof_of(case):
    return prove_training(case.build(), case.whole_loss, case.x, case.y)


@pytest.mark.quick_cases("wide_and_deep", "distillation")
@pytest.mark.slow_cases(*sorted(set(PROVED) - set(QUICK)))
@pytest.mark.parametrize("name", PROVED)
def test_a_model_that_users_bring_is_verified(name):
    proof = proof_of(PROVED[name])
    assert proof.holds, proof.obstacle
    assert len(proof.claims) >= 4


@pytest.mark.slow_cases("words_in", "window_*", "last_step_*", "positions_*_vectors")
@pytest.mark.parametrize("name", REFUSED)
def test_obstacles_to_verification_are_named(name):
    case, words = REFUSED[name]
    if name in BY_ENGINE:
        with pytest.raises(ValueError, match=words):
            proof_of(case)
        return
    proof = proof_of(case)
    assert not proof.holds
    assert words in proof.obstacle


@pytest.mark.slow_cases("positions_*_vectors")
@pytest.mark.parametrize("name", POSITIONS_REFUSED)
def test_positions_given_rows_later_are_rejected_with_remedy(name):
    case, _ = POSITIONS_REFUSED[name]
    with pytest.raises(ValueError, match='engine="per_example"'):
        private = private_with(case, steps=1, engine="book_keeping")
        private.fit(*case.rows(P), verbose=0)
