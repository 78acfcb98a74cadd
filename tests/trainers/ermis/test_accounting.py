"""The paper's sigmas: the readings of its formula, and what they give; record and tables."""

import pytest

from trainers.ermis import accounting, readings
from trainers.records.fields import ACCOUNTING_FIELDS
from trainers.records.store import read_records, write_record


@pytest.mark.parametrize(
    "reading, expected",
    [(readings.LITERAL, (46.1, 7.1, 69.8, 11.3)), (readings.NEAREST, (8.28, 2.59, 10.08, 3.21))],
)
def test_sigmas_at_epsilon_1(reading, expected):
    """In the order of `published.SIGMAS`: MNIST by AC and zCDP, DIGITS by AC and zCDP."""
    assert list(readings.sigmas(reading).values()) == pytest.approx(expected, rel=3e-3)


@pytest.fixture(scope="module")
def record():
    return accounting.accounting_record(epsilons=(1.0,))


def test_the_record(record, tmp_path):
    assert set(record) == set(ACCOUNTING_FIELDS)
    write_record(tmp_path, record, ACCOUNTING_FIELDS)
    (read,) = read_records(tmp_path, "ermis_figure3", ACCOUNTING_FIELDS)
    assert read["quoted"] == record["quoted"]
    digits = [r for r in record["quoted"] if (r["dataset"], r["accountant"]) == ("digits", "zcdp")]
    # Add/remove and replace-one by PLD, with the noise of Algorithm 1, and 5 % or the true rate.
    found = {(r["sampling_rate"], r["noise"]): r["epsilon"] for r in digits}
    stated = found[0.05, "noise 2 C sigma"]
    assert stated["add_or_remove_one"]["pld"] == pytest.approx(1.475, rel=3e-3)
    assert stated["replace_one"]["pld"] == pytest.approx(3.16, rel=3e-3)
    true = found[100 / 1439, "noise 2 C sigma"]
    assert true["add_or_remove_one"]["pld"] == pytest.approx(1.772, rel=3e-3)
    layers = found[0.05, "noise 2 C sigma, two layers clipped at C"]
    assert layers["add_or_remove_one"]["pld"] == pytest.approx(2.19, rel=3e-3)
    assert all(r["claimed_epsilon"] == 1 for r in record["quoted"])
    curve = record["curves"][1]["sigmas"]
    assert curve["pld, add_or_remove_one"] == pytest.approx([4.203], rel=3e-3)
    assert curve["pld, replace_one"] == pytest.approx([8.342], rel=3e-3)
