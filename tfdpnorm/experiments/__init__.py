"""The papers' experiments: specs of values, one runner, records and tables."""

from tfdpnorm.experiments.records.record import read_records, write_record
from tfdpnorm.experiments.spec import ExperimentSpec

__all__ = ["ExperimentSpec", "read_records", "write_record"]
