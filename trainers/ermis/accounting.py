"""What the paper's sigmas give: readings, true epsilons and the curves of Figure 3, as a record."""

import math
import time

from tfdpnorm.choices import ACCOUNTANTS
from tfdpnorm.privacy import PrivacyBudget
from trainers.ermis import published as paper
from trainers.ermis.comparison import ADJACENCIES, noise_stated, stated
from trainers.ermis.readings import (
    LITERAL,
    NEAREST,
    READINGS,
    deviation,
    quoted_settings,
    sigmas,
)
from trainers.records.made_with import made_with
from trainers.specs.parts import CLAIMING_ACCOUNTANTS

EPSILONS = (0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0)

# What one update's noise may be in the paper, over the sensitivity of one example's removal in
# clipping norms C: Algorithm 1 has 2 C sigma, its text C sigma; a clip of each of two layers at C
# lets an example move the sum by sqrt(2) C.
_SCALES = {
    "noise 2 C sigma": 2.0,
    "noise C sigma": 1.0,
    "noise 2 C sigma, two layers clipped at C": 2.0 / math.sqrt(2),
}
# S = 100 of N = 1439 is no 0.05: the sampling that the lots of DIGITS really have.
_TRUE_SAMPLING = ("digits", 100 / 1439, 1439)


def accounting_record(epsilons=EPSILONS):
    """Computes everything, in a few minutes; returns a record with `ACCOUNTING_FIELDS`.

    `epsilons` are those of the curves. Sigmas are noise over two clipping norms.
    """
    started = time.perf_counter()
    return {
        "experiment": "ermis_figure3",
        "kind": "accounting",
        "cell": "accountants",
        "readings": [
            {
                "name": reading.name,
                "sigmas": {"/".join(key): sigma for key, sigma in sigmas(reading).items()},
                "deviation": deviation(reading),
            }
            for reading in READINGS
        ],
        "nearest": NEAREST.name,
        "quoted": _quoted(),
        "curves": [_curve(dataset, epsilons) for dataset in paper.DATASETS],
        "seed": 0,
        "seconds": round(time.perf_counter() - started, 1),
        **made_with({"delta": paper.DELTA, "epsilons": list(epsilons)}),
    }


def _quoted():
    """What each quoted sigma gives: a list of dicts."""
    true = {_TRUE_SAMPLING[0]: [_TRUE_SAMPLING[1:]]}
    return [
        {
            "dataset": dataset,
            "accountant": accountant,
            "sigma": sigma,
            "claimed_epsilon": 1.0,
            "sampling_rate": rate,
            "updates": updates,
            "noise": words,
            "epsilon": {
                adjacency: {
                    name: stated(name, rate, scale * sigma, updates, paper.DELTA, adjacency).epsilon
                    for name in ACCOUNTANTS
                }
                for adjacency in ADJACENCIES
            },
        }
        for (dataset, accountant), sigma in paper.SIGMAS.items()
        for rate, updates in [quoted_settings(dataset), *true.get(dataset, [])]
        for words, scale in _SCALES.items()
    ]


def _curve(dataset, epsilons):
    """Sigma against epsilon: the paper's accountants in two readings, and what holds."""
    rate, updates = quoted_settings(dataset)
    lines = {
        f"{accountant}, {reading.name}": [
            reading.sigma(accountant, epsilon, rate, updates) for epsilon in epsilons
        ]
        for accountant in CLAIMING_ACCOUNTANTS
        for reading in (LITERAL, NEAREST)
    }
    for adjacency in ADJACENCIES:
        for name in ACCOUNTANTS:
            lines[f"{name}, {adjacency}"] = [
                noise_stated(name, PrivacyBudget(e, paper.DELTA), rate, updates, adjacency) / 2
                for e in epsilons
            ]
    return {
        "dataset": dataset,
        "sampling_rate": rate,
        "updates": updates,
        "epsilons": list(epsilons),
        "sigmas": lines,
    }
