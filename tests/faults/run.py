"""Plants faults in noise, clip and sampling, each under every audit: which are seen?

    python -m tests.faults.run

Record and table go to --output_dir. The exit code is 1 if a fault is caught by no audit, or "no
fault" by one.
"""

from trainers import common, spec_flags  # before everything that loads TensorFlow  # isort: skip

import sys

from absl import flags, logging

from tfdpnorm.files import make_folder
from trainers.records.fields import SENSITIVITY_FIELDS
from trainers.records.store import write_record
from trainers.specs import AuditSpec

FLAGS = flags.FLAGS
_DEFAULTS = {"model": "mlp", "norm": "layer", "epsilon": 4.0}


def define_flags():
    """Defines this program's flags."""
    spec_flags.define(AuditSpec, default=lambda name: _DEFAULTS.get(name, "that of the audits"))
    flags.DEFINE_integer("canaries", 5_000, "Gradient canaries; a fifth of them is guessed.")
    flags.DEFINE_integer("num_examples", 200, "Private examples in addition to these.")
    flags.DEFINE_integer("steps", 4, "Updates of the training with canaries.", lower_bound=1)
    flags.DEFINE_integer("samples", 2_000, "Runs of one step on each of two batches.")
    common.define("data_dir")
    flags.DEFINE_string("output_dir", "outputs/audits", "Folder of record and table.")


def main():
    """Plants every fault."""
    logging.set_verbosity(logging.ERROR)
    folder = make_folder(FLAGS.output_dir, "output_dir")
    from tests.faults import audits, report

    half = {"expected_batch_size": (FLAGS.num_examples + FLAGS.canaries) // 2}
    record = audits.run_planted(
        AuditSpec(**{**_DEFAULTS, **half, **spec_flags.parsed(AuditSpec)}),
        canaries=FLAGS.canaries,
        num_examples=FLAGS.num_examples,
        steps=FLAGS.steps,
        one_step_samples=FLAGS.samples,
        data_dir=FLAGS.data_dir,
    )
    table = report.planted_text(record)
    text = folder / f"planted-epsilon{record['flags']['epsilon']:g}.md"
    text.write_text(table + "\n")
    path = write_record(folder, record, SENSITIVITY_FIELDS)
    print(f"\n{table}\n\nRecord: {path}, {text}; {record['seconds']:.0f} s")
    if report.surprises(record):
        sys.exit(1)


if __name__ == "__main__":
    define_flags()
    common.run_app(main)
