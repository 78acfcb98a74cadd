"""A second `fit` of a private model on other examples, or other persons, is warned of."""

import warnings

import numpy as np
import pytest

from tests.sources import Source

PAIRS = np.arange(40) // 2


@pytest.mark.parametrize(
    ("second", "told"),
    [
        (lambda x, y: ((x.copy(), y), PAIRS), False),
        (lambda x, y: ((x + 1, y), PAIRS), True),
        (lambda x, y: ((x, y), [f"{9 - n // 20}-{n}" for n in PAIRS]), False),
        (lambda x, y: ((Source(x + 1, y),), PAIRS), False),
    ],
    ids=["the same", "other rows", "other names of persons", "a source"],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_other_examples(build, private, data, cross_entropy, second, told):
    trained = private(build(), num_examples=20, most_per_person=2)
    trained.compile("sgd", cross_entropy)
    once = {"epochs": 1, "steps_per_epoch": 1, "verbose": 0}
    trained.fit(*data, person=PAIRS, **once)
    rows, person = second(*data)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained.fit(*rows, person=person, **once)
    found = [
        str(w.message) for w in caught if "not the examples of an earlier fit" in str(w.message)
    ]
    assert len(found) == told


def test_other_persons_of_the_same_rows(build, private, data, cross_entropy):
    """A person who owns rows under several ids could change more than is counted."""
    trained = private(build(), num_examples=20, most_per_person=2)
    trained.compile("sgd", cross_entropy)
    once = {"epochs": 1, "steps_per_epoch": 1, "verbose": 0}
    trained.fit(*data, person=PAIRS, **once)
    for _ in range(2):
        with pytest.raises(ValueError, match="^Expected the persons of the earlier fit"):
            trained.fit(*data, person=np.arange(40) % 20, **once)
    assert trained.ledger.updates == 1
    trained.fit(*data, person=PAIRS, **once)


def test_persons_belong_to_their_rows_whatever_was_trained_on_between(
    build, private, data, cross_entropy
):
    trained = private(build(), num_examples=20, most_per_person=2)
    trained.compile("sgd", cross_entropy)
    once = {"epochs": 1, "steps_per_epoch": 1, "verbose": 0}
    others = np.arange(40) % 20
    trained.fit(*data, person=PAIRS, **once)
    with pytest.warns(UserWarning, match="not the examples of an earlier fit"):
        trained.fit(data[0] + 1, data[1], person=others, **once)
    with pytest.raises(ValueError, match="^Expected the persons of the earlier fit"):
        trained.fit(*data, person=others, **once)
    trained.fit(*data, person=PAIRS, **once)
