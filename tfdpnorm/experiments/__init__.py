"""The papers' experiments: specs of values, one skeleton of runs, records and tables."""

from tfdpnorm.experiments.records.store import read_records, write_record
from tfdpnorm.experiments.spec import ExperimentSpec

__all__ = ["ExperimentSpec", "read_records", "write_record"]
