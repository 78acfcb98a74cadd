"""Does the guarantee hold? Attacks on one private step, on clipped sums, and on a training.

    python -m trainers.audit --model=lenet5 --epsilon=1
    python -m trainers.audit --model=lenet5 --norm=public_batch --statistics=lot --epsilon=1
    python -m trainers.audit --check=sensitivity --models=mlp,lenet5
    python -m trainers.audit --check=canaries --norm=layer
    python -m trainers.audit --check=gradient_canaries --model=lenet5 --norm=layer --epsilon=4
    python -m trainers.audit --check=planted

An attack gives a lower bound on epsilon. One above the claim refutes it; one below proves nothing.
Records, table and plot go to --output_dir. The exit code is 1 if a path that has a guarantee is
caught breaking it, or if a fault that was planted is caught by no audit, or "no fault" by one.
"""

from trainers import common, spec_flags  # before everything that loads TensorFlow  # isort: skip

import dataclasses
import pathlib
import sys

from absl import flags, logging

from tfdpnorm.choices import CANARY_KINDS, STATISTICS
from tfdpnorm.files import make_folder
from trainers.knobs import defaults_of
from trainers.records.fields import AUDIT_FIELDS, SENSITIVITY_FIELDS
from trainers.records.store import read_records, write_record
from trainers.spec import AuditSpec

FLAGS = flags.FLAGS
_CHECKS = ("epsilon", "sensitivity", "canaries", "gradient_canaries", "planted")
_MECHANISM_SAMPLES, _BLACK_BOX_SAMPLES = 200_000, 2_000
_GRADIENT_CANARIES, _GRADIENT_CANARY_STEPS = 5_000, 4


def define_flags():
    """Defines this program's flags."""
    flags.DEFINE_enum(
        "check",
        "epsilon",
        _CHECKS,
        "epsilon: one update on neighbouring lots; sensitivity: how far one example moves the "
        "clipped sum, over a grid of paths; canaries: a whole training, in one run; "
        "gradient_canaries: the same, with canaries of which each has a number of the model to "
        "itself; planted: faults in noise, clip and sampling, each under every audit.",
    )
    flags.DEFINE_list(
        "models", ["mlp", "lenet5", "resnet9", "bilstm", "transformer"], "Networks of sensitivity."
    )
    spec_flags.define(
        AuditSpec,
        default=lambda name: f"{defaults_of(AuditSpec)[name]}",
        help={
            "statistics": "Whose moments public-batch normalisation takes; lot is NOT private. "
            "Default: all, one after the other; with canaries: public.",
            "expected_batch_size": "Lot size; default: 64, with canaries half of the data.",
        },
    )
    flags.DEFINE_integer(
        "samples",
        None,
        f"Released numbers from each lot; default: {_MECHANISM_SAMPLES:,}, {_BLACK_BOX_SAMPLES:,} "
        "with --black_box.",
    )
    flags.DEFINE_float("confidence", 0.95, "Of the lower bound on epsilon.")
    flags.DEFINE_bool(
        "black_box", False, "Runs the real training step, with its own noise, for every sample."
    )
    flags.DEFINE_integer(
        "ascent_steps",
        None,
        "Steps of gradient ascent to the worst row; default: 0, but 5 for sensitivity of mlp.",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "canaries",
        None,
        "Canaries, each in the data with probability 1/2; default: 200, of gradients 5,000.",
    )
    flags.DEFINE_integer(
        "guesses",
        None,
        "Coins guessed, even; default: half of the canaries, of those of gradients a fifth.",
    )
    flags.DEFINE_enum("canary_kind", "mislabelled", CANARY_KINDS, "What canaries are.")
    flags.DEFINE_integer("num_examples", 200, "Private rows beside the canaries.")
    flags.DEFINE_integer(
        "steps",
        None,
        "Updates of the training with canaries; default: 40, with those of gradients 4.",
        lower_bound=1,
    )
    common.define_data_dir()
    flags.DEFINE_string("output_dir", "results/audits", "Folder of records, table and plot.")


def main():
    """Runs the check that the flags ask for."""
    # TensorFlow and tensorflow-privacy report at length how they vectorise.
    logging.set_verbosity(logging.ERROR)
    folder = make_folder(FLAGS.output_dir, "output_dir")
    check = {
        "epsilon": _epsilon,
        "sensitivity": _sensitivity,
        "canaries": _canaries,
        "gradient_canaries": _gradient_canaries,
        "planted": _planted,
    }
    if check[FLAGS.check](folder):
        sys.exit(1)


def _epsilon(folder):
    """Audits one step in each mode; returns whether a guarantee was broken."""
    from trainers.report import audits as audit_report
    from trainers.runs import audits

    settings = spec_flags.given(AuditSpec)
    given = AuditSpec(**settings)
    one_mode = "statistics" in settings or not given.needs_public_rows
    modes = [given.statistics] if one_mode else list(STATISTICS)
    default = _BLACK_BOX_SAMPLES if FLAGS.black_box else _MECHANISM_SAMPLES
    records = []
    for mode in modes:
        record = audits.run_one_step(
            dataclasses.replace(given, statistics=mode),
            samples=default if FLAGS.samples is None else FLAGS.samples,
            confidence=FLAGS.confidence,
            black_box=FLAGS.black_box,
            ascent_steps=FLAGS.ascent_steps or 0,
            data_dir=FLAGS.data_dir,
        )
        records.append(record)
        _show(record, folder)
    print()
    print(audit_report.audit_table(records))
    title = f"One step of {given.model}, epsilon {given.epsilon:g} claimed"
    stem = "-".join([given.model, *(modes if len(modes) == 1 else []), records[0]["check"]])
    print(f"\nPlot: {audit_report.plot_audits(records, folder / f'{stem}.png', title)}")
    return any(record["violation"] and record["guarantee_holds"] for record in records)


def _canaries(folder):
    from trainers.report import audits as audit_report
    from trainers.runs import audits

    count = _given("canaries", 200)
    half = {"expected_batch_size": (FLAGS.num_examples + count) // 2}
    record = audits.run_canaries(
        AuditSpec(**{**half, **spec_flags.given(AuditSpec)}),
        canaries=count,
        guesses=_given("guesses", count // 4 * 2),
        num_examples=FLAGS.num_examples,
        steps=_given("steps", 40),
        kind=FLAGS.canary_kind,
        confidence=FLAGS.confidence,
        data_dir=FLAGS.data_dir,
    )
    details = record["details"]
    print(
        f"{details['canaries']} canaries, {details['guesses']} guesses, {details['correct']} of "
        "them correct."
    )
    _show(record, folder)
    print()
    print(audit_report.audit_table([record]))
    return record["violation"] and record["guarantee_holds"]


def _gradient_canaries(folder):
    """Audits one training; the table and the plot are of all such records in the folder."""
    from trainers.report import canaries as canary_report
    from trainers.runs import audits

    count = _given("canaries", _GRADIENT_CANARIES)
    half = {"expected_batch_size": (FLAGS.num_examples + count) // 2}
    record = audits.run_gradient_canaries(
        AuditSpec(**{**half, **spec_flags.given(AuditSpec)}),
        canaries=count,
        guesses=_given("guesses", count // 10 * 2),
        num_examples=FLAGS.num_examples,
        steps=_given("steps", _GRADIENT_CANARY_STEPS),
        confidence=FLAGS.confidence,
        data_dir=FLAGS.data_dir,
    )
    _show(record, folder)
    records = [
        r
        for r in read_records(folder, "audit", fields=AUDIT_FIELDS)
        if r["check"] == record["check"]
    ]
    table = canary_report.gradient_canary_table(records)
    text = pathlib.Path(folder) / "gradient_canaries.md"
    text.write_text(table + "\n")
    plot = canary_report.plot_gradient_canaries(records, folder / "gradient-canaries.png")
    print(f"\n{table}\n\nTable: {text}; plot: {plot}")
    details = record["details"]
    broken = record["violation"] or details["not_as_claimed"]
    return broken and record["guarantee_holds"]


def _planted(folder):
    """Plants every fault; returns whether one went unseen, or an alarm was false."""
    from trainers.report import planted as planted_report
    from trainers.runs import planted_audits

    count = _given("canaries", _GRADIENT_CANARIES)
    defaults = {
        "model": "mlp",
        "norm": "layer",
        "epsilon": 4.0,
        "expected_batch_size": (FLAGS.num_examples + count) // 2,
    }
    record = planted_audits.run_planted(
        AuditSpec(**{**defaults, **spec_flags.given(AuditSpec)}),
        canaries=count,
        num_examples=FLAGS.num_examples,
        steps=_given("steps", _GRADIENT_CANARY_STEPS),
        one_step_samples=_given("samples", _BLACK_BOX_SAMPLES),
        data_dir=FLAGS.data_dir,
    )
    table = planted_report.planted_text(record)
    print(f"\n{table}\n")
    text = pathlib.Path(folder) / f"planted-epsilon{record['flags']['epsilon']:g}.md"
    text.write_text(table + "\n")
    path = write_record(folder, record, SENSITIVITY_FIELDS)
    print(f"Record: {path}, {text}; {record['seconds']:.0f} s")
    return bool(planted_report.surprises(record))


def _given(name, default):
    value = FLAGS[name].value
    return default if value is None else value


def _sensitivity(folder):
    from trainers.report import audits as audit_report
    from trainers.runs import sensitivity_grid

    specs = sensitivity_grid.sensitivity_grid(FLAGS.models)
    record = sensitivity_grid.run_grid(
        specs, ascent_steps=FLAGS.ascent_steps, data_dir=FLAGS.data_dir
    )
    table = audit_report.sensitivity_table(record["rows"])
    print(f"\n{table}\n\n{audit_report.rounding_summary(record['rows'])}")
    text = pathlib.Path(folder) / "sensitivity.md"
    text.write_text(table + "\n")
    path = write_record(folder, record, SENSITIVITY_FIELDS)
    print(f"Record: {path}, {text}; {record['seconds']:.0f} s")
    return any(row["guarantee_holds"] and not row["bound_holds"] for row in record["rows"])


def _show(record, folder):
    from trainers.report import audits as audit_report

    print(f"{record['cell']}, {record['seconds']:.0f} s. {audit_report.audit_summary(record)}")
    print(f"  Record: {write_record(folder, record, AUDIT_FIELDS)}")


if __name__ == "__main__":
    define_flags()
    common.run_app(main)
