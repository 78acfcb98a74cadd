"""The parts that specs are made of.

A spec of a kind of run inherits its parts, so that all its fields are its own: `spec.norm`, not
`spec.network.norm`; flags, JSON and Python have the same names. A part that needs the fields of
another one inherits it.
"""

from trainers.parts.cell import Cell
from trainers.parts.course import (
    OPTIMIZERS,
    PLATEAUS,
    ROUNDS,
    SCHEDULES,
    Evaluation,
    Optimizer,
    Plateau,
    PowerSchedule,
)
from trainers.parts.data import (
    CACHE_DIR,
    VOCABULARIES,
    Dataset,
    HeldOut,
    Pretraining,
    ScoredOn,
    Texts,
    TrainingSet,
    check_not_private,
)
from trainers.parts.network import (
    PRECISIONS,
    Network,
    NoisedStatistics,
    PublicRows,
    Statistics,
)
from trainers.parts.privacy import (
    MULTIPLICITIES,
    VIEWS,
    Claim,
    ClippedLots,
    Noise,
    Views,
)
from trainers.parts.search import Search, Trials

__all__ = [
    "CACHE_DIR",
    "Cell",
    "Claim",
    "ClippedLots",
    "Dataset",
    "Evaluation",
    "HeldOut",
    "MULTIPLICITIES",
    "Network",
    "Noise",
    "NoisedStatistics",
    "OPTIMIZERS",
    "Optimizer",
    "PLATEAUS",
    "PRECISIONS",
    "Plateau",
    "PowerSchedule",
    "Pretraining",
    "PublicRows",
    "ROUNDS",
    "SCHEDULES",
    "ScoredOn",
    "Search",
    "Statistics",
    "Texts",
    "TrainingSet",
    "Trials",
    "VIEWS",
    "VOCABULARIES",
    "Views",
    "check_not_private",
]
