"""Trains a run again from its record, with the settings that it had.

    python -m trainers.rerun results/davody_table5-layer-eps=1-seed0.json
    python -m trainers.rerun results/davody_table5-layer-eps=1-seed0.json --dry_run

Shows its accuracy beside the one on record, and writes a record of its own into --output_dir.
"""

from trainers import common  # before everything that loads TensorFlow  # isort: skip

import pathlib
import sys

from absl import flags

from trainers.cells import in_precision
from trainers.records.store import read_record
from trainers.specs import NonPrivateSpec, PrivateSpec, SearchSpec
from trainers.specs.options import options

FLAGS = flags.FLAGS


def define_flags():
    flags.DEFINE_string("record", None, "JSON file of the record; or the first argument.")
    flags.mark_flag_as_required("record")
    common.define(*common.OF_PRIVATE_RUNS)


def spec_of(record):
    """Returns the spec of the run that a record is of; what is newer than it has its default."""
    settings = record["flags"]
    kinds = {"private": PrivateSpec, "non_private": NonPrivateSpec}
    if record["kind"] not in (*kinds, "search"):
        raise ValueError(f"Expected the record of a training, got one of kind {record['kind']!r}.")
    of = kinds["private" if "epsilon" in settings else "non_private"]
    run = of.of(**{name: _frozen(settings[name]) for name in options(of) if name in settings})
    if record["kind"] != "search":
        return run
    own = {name: settings[name] for name in options(SearchSpec) if name in settings}
    return SearchSpec(run=run, **own)


def _frozen(value):
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def main():
    record = read_record(pathlib.Path(FLAGS.record))
    result = common.train(in_precision(spec_of(record), common.given_precision()))
    if result is not None:
        found = f"{result.record['test_accuracy']:.2f} %, on record {record['test_accuracy']:.2f} %"
        print(f"Test accuracy {found}, seed {record['seed']}.")


if __name__ == "__main__":
    sys.argv[1:] = [a if a.startswith("-") else f"--record={a}" for a in sys.argv[1:]]
    common.run(__name__)
