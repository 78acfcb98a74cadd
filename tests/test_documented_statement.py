"""The pages on privacy statements: their example and figures are what the code gives."""

import math
import pathlib
import re

import numpy as np
import pytest
from scipy import optimize, stats

from tests.each import each
from tests.statements import of_any_run, summary
from tfdpnorm.privacy import epsilons, privacy_statement, profiles, read_ledger
from tfdpnorm.privacy.accountants import RDP_ORDERS, rdp_to_epsilon
from tfdpnorm.privacy.mixtures import added, composed_losses, removed
from tfdpnorm.privacy.profiles import composed_profile
from tfdpnorm.privacy.rounding import ceil_text

DOCS = pathlib.Path(__file__).parents[1] / "docs"
LEDGER = DOCS / "demo_ledger.jsonl"
PAGE = (DOCS / "privacy_statement.md").read_text()
ASKED = (DOCS / "what_may_be_asked.md").read_text()
QUOTED = re.findall(r"^> \d+\. (.*)$", PAGE, re.MULTILINE)


def cells(first):
    """The rows of the table whose first heading is `first`, lists of strings."""
    table = re.search(rf"^\| {first} \|.*\n\|---.*\n((?:\|.*\n)+)", ASKED, re.MULTILINE)[1]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]


def test_the_example_is_the_statement_of_its_ledger():
    """All but the date, and the digest of weights, which no ledger has."""
    weights = re.search(r"weights with the SHA-256 (\w{64});", PAGE)[1]
    text = privacy_statement(read_ledger(LEDGER), weights)
    found = summary(text)
    assert len(QUOTED) == 10
    assert of_any_run("\n".join(QUOTED)) == of_any_run("\n".join(found))
    assert QUOTED[7] == found[7]
    assert re.sub(r"\d{4}-\d\d-\d\d", "", QUOTED[8]) == re.sub(r"\d{4}-\d\d-\d\d", "", found[8])


@each(
    "rows, told", [(2, "6.711 for a person with two"), (3, "11.00 with three"), (5, "21.21 with")]
)
def test_figures_of_persons_on_the_page(rows, told):
    epsilon = epsilons.person_epsilon(read_ledger(LEDGER).state, rows)
    assert ceil_text(epsilon) == told.split()[0] and told in " ".join(PAGE.split())


def test_figures_of_four_copies():
    page = (DOCS / "several_rows_per_person.md").read_text()
    stated = re.search(r"epsilon ([0-9.]+) of a row is ([0-9.]+) of the record", page).groups()
    block = next(b for b in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "2.92" in b)
    names = {}
    exec("import tfdpnorm\n" + block.replace("print", "found = "), names)
    assert [float(x) for x in stated] == pytest.approx(list(names["found"]), rel=3e-3)


def test_the_commands_of_the_page():
    lines = read_ledger(LEDGER).file.tail[0]
    assert f"head -n {lines} docs/{LEDGER.name} | sha256sum" in PAGE
    assert f"tfdpnorm-epsilon --ledger=docs/{LEDGER.name}" in PAGE


def test_a_bound_on_the_odds_and_the_tail_that_it_bounds():
    said = re.search(r"says (\S+), where the tail .* at most (\S+)\.", PAGE)
    stated, of_tail = map(float, said.groups())
    part = read_ledger(LEDGER).plan.mechanism(400)[:3]
    bound = math.exp(profiles.loss_at(composed_profile((part,), 1e-5), 1e-5))
    assert stated == pytest.approx(bound, rel=0.005)  # without what rounding adds to delta
    (q, z, count), tails = part, []
    for pair in (removed, added):
        losses = composed_losses([(pair(q, z, 1), count)], 1e-3)
        above = losses.infinite + np.cumsum(losses.masses[::-1])[::-1]
        tails.append((losses.first + np.flatnonzero(above <= 1e-5)[0]) * losses.interval)
    assert of_tail - 0.1 < math.exp(max(tails)) <= of_tail < bound


def test_the_table_of_epsilons():
    rows = cells("epsilon")
    assert len(rows) == 9
    for epsilon, odds, sure, found, mu in rows:
        e = float(epsilon)

        def excess(m, e=e):
            near, far = stats.norm.cdf(m / 2 - e / m), stats.norm.cdf(-m / 2 - e / m)
            return near - math.exp(e) * far - 1e-5

        exact = optimize.brentq(excess, 1e-3, 50)
        assert float(mu) == pytest.approx(exact, abs=0.005)
        rate = stats.norm.cdf(stats.norm.ppf(0.01) + exact)
        assert float(found.split()[0]) / 100 == pytest.approx(rate, abs=0.0006)
        factor = float(odds.replace(",", "").replace(" million", "e6").split()[0])
        loss = exact**2 / 2 + exact * stats.norm.isf(1e-5)  # of results with this probability
        assert factor == pytest.approx(math.exp(loss), rel=0.005)
        certain = 1 / (1 + math.exp(-loss))
        assert float(sure.split()[0]) / 100 == pytest.approx(certain, abs=5e-4)


@each("rho, told", [(0.81, "6.26"), (0.015, "0.680")])
def test_epsilons_converted_from_zcdp_on_the_page(rho, told):
    epsilon = rdp_to_epsilon([rho * order for order in RDP_ORDERS], 1e-5)
    assert float(told) == pytest.approx(epsilon, rel=2e-3) and float(told) >= epsilon
    assert f"rho = {rho}: {told} at delta 1e-5 by our conversion" in ASKED
