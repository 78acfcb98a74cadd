"""Examples that epsilon counts otherwise: of a second `fit`, or several times in the data."""

import warnings

import numpy as np
import pytest

from tests.sources import Source
from tfdpnorm.errors import PrivacyWarning

PAIRS = np.arange(40) // 2


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_other_examples(compiled, build, data):
    x, y = data
    trained = compiled(build(), num_examples=20, most_per_person=2)
    once = {"epochs": 1, "steps_per_epoch": 1, "verbose": 0}
    for rows, person, told in (
        (data, PAIRS, False),
        ((x.copy(), y), PAIRS, False),
        ((x, y), [f"{9 - n // 20}-{n}" for n in PAIRS], False),
        ((Source(x + 2, y),), PAIRS, False),
        ((x + 1, y), PAIRS, True),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trained.fit(*rows, person=person, **once)
        found = [w for w in caught if "not the examples of an earlier fit" in str(w.message)]
        assert len(found) == told


def test_other_persons_of_the_same_rows(compiled, build, data):
    """A person who owns rows under several ids could change more than is counted."""
    trained = compiled(build(), num_examples=20, most_per_person=2)
    once = {"epochs": 1, "steps_per_epoch": 1, "verbose": 0}
    trained.fit(*data, person=PAIRS, **once)
    for _ in range(2):
        with pytest.raises(ValueError, match="^Expected the persons of the earlier fit"):
            trained.fit(*data, person=np.arange(40) % 20, **once)
    assert trained.ledger.updates == 1
    with pytest.warns(UserWarning, match="not the examples of an earlier fit"):
        trained.fit(data[0] + 1, data[1], person=np.arange(40) % 20, **once)
    with pytest.raises(ValueError, match="^Expected the persons of the earlier fit"):
        trained.fit(*data, person=np.arange(40) % 20, **once)
    trained.fit(*data, person=PAIRS, **once)


@pytest.mark.parametrize(
    ("copies", "settings", "told"),
    [(4, {}, 1), (1, {}, 0), (4, {"most_per_person": 4, "unit": "row"}, 0)],
    ids=["four of each", "one of each", "counted"],
)
def test_equal_examples_are_warned_of_once(compiled, build, data, copies, settings, told):
    """Each record four times in the data: its epsilon is that of four."""
    rows = [np.repeat(part[: 40 // copies], copies, axis=0) for part in data]
    trained = compiled(build(), **settings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            trained.fit(*rows, epochs=1, steps_per_epoch=1, verbose=0)
    found = [w for w in caught if "copies-windows" in str(w.message)]
    assert [w.category for w in found] == [PrivacyWarning] * told
