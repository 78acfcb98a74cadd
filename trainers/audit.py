"""Does the guarantee hold? Attacks on one private step, on clipped sums, and on a training.

    python -m trainers.audit --model=lenet5 --epsilon=1
    python -m trainers.audit --model=lenet5 --norm=public_batch --statistics=lot --epsilon=1
    python -m trainers.audit --check=sensitivity --models=mlp,lenet5
    python -m trainers.audit --check=gradient_canaries --model=lenet5 --norm=layer --epsilon=4

An attack gives a lower bound on epsilon. One above the claim refutes it; one below proves nothing.
Records, table and plot go to --output_dir. The exit code is 1 if a path that has a guarantee is
caught breaking it. Faults that are planted, under every audit: python -m tests.faults.run
"""

from trainers import common, spec_flags  # before everything that loads TensorFlow  # isort: skip

import sys

from absl import flags, logging

from tfdpnorm.choices import STATISTICS
from trainers.records.fields import AUDIT_FIELDS, SENSITIVITY_FIELDS
from trainers.records.store import read_records, write_record
from trainers.specs import AuditSpec
from trainers.specs.options import defaults_of

FLAGS = flags.FLAGS
_MECHANISM_SAMPLES, _BLACK_BOX_SAMPLES = 200_000, 2_000


def define_flags():
    flags.DEFINE_enum(
        "check",
        "epsilon",
        ("epsilon", "sensitivity", "gradient_canaries"),
        "epsilon: one update on neighbouring batches; sensitivity: how far one example moves the "
        "clipped sum, over a grid of paths; gradient_canaries: a whole training, in one run, with "
        "canaries that each have one number of the model to themselves.",
    )
    flags.DEFINE_list(
        "models", ["mlp", "lenet5", "resnet9", "bilstm", "transformer"], "Networks of sensitivity."
    )
    spec_flags.define(
        AuditSpec,
        default=lambda name: f"{defaults_of(AuditSpec)[name]}",
        help={
            "statistics": "Moments of public-batch normalisation; lot is NOT private. "
            "Default: all, one after the other; with canaries: public.",
            "expected_batch_size": "Batch size; default: 64, with canaries half of the data.",
        },
    )
    flags.DEFINE_integer(
        "samples",
        None,
        f"Released numbers per batch; default: {_MECHANISM_SAMPLES:,}, {_BLACK_BOX_SAMPLES:,} "
        "with --black_box.",
        lower_bound=1,
    )
    flags.DEFINE_float("confidence", 0.95, "Confidence of the lower bound on epsilon.")
    flags.DEFINE_bool(
        "black_box", False, "Run the real training step, with its own noise, for every sample."
    )
    flags.DEFINE_integer(
        "ascent_steps",
        None,
        "Steps of gradient ascent to the worst row; default: 0, but 5 for sensitivity of mlp.",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "canaries",
        5_000,
        "Canaries, each in the data with probability 1/2.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "guesses",
        None,
        "Coins guessed, an even number; default: a fifth of the canaries.",
        lower_bound=2,
    )
    flags.DEFINE_integer("num_examples", 200, "Private rows in addition to the canaries.")
    flags.DEFINE_integer(
        "steps",
        4,
        "Updates of the training with canaries.",
        lower_bound=1,
    )
    common.define("mixed_precision", "data_dir")
    flags.DEFINE_string("output_dir", "outputs/audits", "Folder of records, table and plot.")


def main():
    # TensorFlow and tensorflow-privacy report at length how they vectorise.
    logging.set_verbosity(logging.ERROR)
    folder = common.make_output_dir()
    check = {"epsilon": _epsilon, "sensitivity": _sensitivity}.get(FLAGS.check, _canaries)
    if check(folder):  # a guarantee was broken
        sys.exit(1)


def _epsilon(folder):
    from trainers.audits import report, run

    settings = common.parsed(AuditSpec)
    spec = AuditSpec(**settings)
    one_mode = "statistics" in settings or not spec.needs_public_rows
    modes = [spec.statistics] if one_mode else list(STATISTICS)
    default = _BLACK_BOX_SAMPLES if FLAGS.black_box else _MECHANISM_SAMPLES
    records = []
    for mode in modes:
        record = run.run_one_step(
            spec.replaced(statistics=mode),
            samples=FLAGS.samples or default,
            confidence=FLAGS.confidence,
            black_box=FLAGS.black_box,
            ascent_steps=FLAGS.ascent_steps or 0,
            data_dir=FLAGS.data_dir,
        )
        records.append(record)
        _show(record, folder)
    print(f"\n{report.audit_table(records)}")
    stem = "-".join([spec.model, *(modes if len(modes) == 1 else []), records[0]["check"]])
    print(f"\nPlot: {report.plot_audits(records, folder / f'{stem}.png')}")
    return any(record["violation"] and record["guarantee_holds"] for record in records)


def _canaries(folder):
    from trainers.audits import report, run

    half = {"expected_batch_size": (FLAGS.num_examples + FLAGS.canaries) // 2}
    record = run.run_gradient_canaries(
        AuditSpec(**{**half, **common.parsed(AuditSpec)}),
        canaries=FLAGS.canaries,
        guesses=FLAGS.guesses or FLAGS.canaries // 10 * 2,
        num_examples=FLAGS.num_examples,
        steps=FLAGS.steps,
        confidence=FLAGS.confidence,
        data_dir=FLAGS.data_dir,
    )
    _show(record, folder)
    # Table and plot are of all such records in the folder.
    in_folder = read_records(folder, "audit", fields=AUDIT_FIELDS)
    records = [r for r in in_folder if r["check"] == record["check"]]
    table, text = report.gradient_canary_table(records), folder / "gradient_canaries.md"
    text.write_text(table + "\n")
    plot = report.plot_gradient_canaries(records, folder / "gradient-canaries.png")
    print(f"\n{table}\n\nTable: {text}; plot: {plot}")
    broken = record["violation"] or record["details"]["not_as_claimed"]
    return broken and record["guarantee_holds"]


def _sensitivity(folder):
    from trainers.audits import report, sensitivity_grid

    specs = sensitivity_grid.sensitivity_grid(FLAGS.models)
    if FLAGS.mixed_precision is not None:
        specs = [spec.replaced(precision=common.given_precision()) for spec in specs]
    record = sensitivity_grid.run_grid(
        specs, ascent_steps=FLAGS.ascent_steps, data_dir=FLAGS.data_dir
    )
    table, text = report.sensitivity_table(record["rows"]), folder / "sensitivity.md"
    print(f"\n{table}\n\n{report.rounding_summary(record['rows'])}")
    text.write_text(table + "\n")
    path = write_record(folder, record, SENSITIVITY_FIELDS)
    print(f"Record: {path}, {text}; {record['seconds']:.0f} s")
    return any(row["guarantee_holds"] and not row["bound_holds"] for row in record["rows"])


def _show(record, folder):
    from trainers.audits import report

    print(f"{record['cell']}, {record['seconds']:.0f} s. {report.audit_summary(record)}")
    print(f"  Record: {write_record(folder, record, AUDIT_FIELDS)}")


if __name__ == "__main__":
    common.run(__name__)
