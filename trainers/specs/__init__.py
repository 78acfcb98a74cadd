"""The specs of runs: what one run is, as plain values.

A spec is flat and frozen, and checked when it is made. There are four kinds of run: private,
non-private, searches over settings of either, and audits. The fields of specs are also the flags of
the programs and the settings in records.
"""

from trainers.specs.audit import AuditSpec
from trainers.specs.private import PrivateSpec
from trainers.specs.search import SearchSpec, search_spec
from trainers.specs.training import NonPrivateSpec, TrainingSpec

__all__ = [
    "AuditSpec",
    "NonPrivateSpec",
    "PrivateSpec",
    "SearchSpec",
    "TrainingSpec",
    "search_spec",
]
