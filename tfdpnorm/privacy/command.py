"""The console command `tfdpnorm-epsilon`: epsilon from noise, noise from epsilon, or from a ledger.

    tfdpnorm-epsilon --num_examples=60000 --expected_batch_size=600 --epochs=40 --delta=1e-5 \
        --epsilon=1 --accountant=both
    tfdpnorm-epsilon --suggest --num_examples=60000 --delta=1e-5 --epsilon=1
    tfdpnorm-epsilon --ledger=run/ledger.jsonl

--suggest prints suggested settings. The command loads no TensorFlow; and the accountants, which
load SciPy, once the arguments are understood.
"""

import argparse
import json
import math
import os
import sys

from tfdpnorm import arguments
from tfdpnorm.choices import ACCOUNTANTS
from tfdpnorm.privacy.budget import PrivacyBudget
from tfdpnorm.privacy.rounding import ceil_text, delta_text


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        # argparse would print the usage first; one line is what a script can show.
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())}\n")


def main(argv=None):
    """Runs the command.

    It prints a sentence for each accountant. With --json, it prints one flat JSON object on a line
    of its own instead, in which an infinite epsilon is the string "inf".

    Args:
        argv: Arguments without the program's name, a sequence of strings; those of the process if
            None.

    Returns:
        0.

    Raises:
        SystemExit: with code 2, after one line on standard error, if the arguments are not valid,
            no noise reaches the epsilon, or the ledger is absent or was changed; with code 0 after
            --help.
    """
    argv = sys.argv[1:] if argv is None else list(argv)
    names = {argument.split("=")[0] for argument in argv}
    of_ledger, suggests = "--ledger" in names, "--suggest" in names
    parser = _make_parser(of_ledger, suggests)
    flags = parser.parse_args(argv)
    try:
        if of_ledger:
            lines = _of_ledger(flags)
        else:
            lines = _suggested(flags) if suggests else _of_settings(flags, parser.prog)
    except FileNotFoundError as error:
        parser.error(
            f"File not found: --ledger={error.filename!r}. A run with a run_dir keeps it as "
            "ledger.jsonl in that folder."
        )
    except IsADirectoryError as error:
        parser.error(
            f"Expected --ledger to be the file of a run, got the folder {error.filename!r}. Pass "
            "the ledger.jsonl in it."
        )
    except ArithmeticError as error:
        parser.error(
            "The epsilon of these settings cannot be computed: a number is too small or too large "
            f"({error}). Choose a noise multiplier between 1e-3 and 1e6."
        )
    except (ValueError, OSError) as error:
        parser.error(str(error))
    try:
        print("\n".join(lines), flush=True)
    except BrokenPipeError:  # by `| head`; what is left must not be written at exit, either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _make_parser(of_ledger, suggests):
    parser = _Parser(
        prog="tfdpnorm-epsilon",
        description="Prints the epsilon of DP-SGD for a noise multiplier, the noise multiplier for "
        "an epsilon, or the epsilon that a run has spent according to its ledger.",
        allow_abbrev=False,
    )
    needed = not (of_ledger or suggests)
    parser.add_argument(
        "--ledger",
        action="append",
        help="ledger file of a run; alone, or with --accountant and --json. Several files: the "
        "epsilon of all runs composed, at --delta if their deltas differ",
    )
    parser.add_argument("--num_examples", type=int, help="private training examples")
    lot = parser.add_mutually_exclusive_group(required=needed)
    lot.add_argument("--expected_batch_size", type=float, help="expected batch size")
    lot.add_argument("--sampling_rate", type=float, help="batch size over number of examples")
    length = parser.add_mutually_exclusive_group(required=needed)
    length.add_argument("--steps", type=int, help="optimizer updates")
    length.add_argument("--epochs", type=float, help="steps = ceil(epochs / sampling_rate)")
    parser.add_argument(
        "--delta", type=float, required=not of_ledger, help="at most 0.1 / num_examples"
    )
    noise = parser.add_mutually_exclusive_group(required=needed)
    noise.add_argument(
        "--noise_multiplier", type=float, help="print the epsilon of this noise multiplier"
    )
    noise.add_argument(
        "--epsilon", type=float, help="print the smallest noise multiplier for this epsilon"
    )
    parser.add_argument(
        "--accountant",
        choices=(*ACCOUNTANTS, "both"),
        default=None if of_ledger or suggests else "rdp",
        help="default: rdp, or that of the ledger; both: rdp and pld",
    )
    parser.add_argument(
        "--suggest",
        action="store_true",
        help="suggest batch size, updates and noise for --epsilon, --delta and --num_examples; "
        "--epochs, --steps and --expected_batch_size are used if given. To protect persons, give "
        "the number of persons as --num_examples; the batch size then counts persons",
    )
    parser.add_argument(
        "--most_rows_per_person",
        type=int,
        help="also print epsilon for a person who owns up to this many examples",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per accountant")
    return parser


def _of_ledger(flags):
    alone = ("ledger", "accountant", "json", *(["delta"] if len(flags.ledger) > 1 else []))
    others = [name for name, value in vars(flags).items() if value not in (None, False)]
    others = [f"--{name}" for name in others if name not in alone]
    if others:
        raise ValueError(
            f"--ledger cannot be combined with {', '.join(others)}, since the ledger holds its own "
            "settings. Remove the others."
        )
    from tfdpnorm.privacy.ledger import read_ledger

    if len(flags.ledger) > 1:
        if len({os.path.realpath(path) for path in flags.ledger}) < len(flags.ledger):
            raise ValueError("A ledger is given twice, and would count twice. Give each file once.")
        return _of_ledgers(flags, [read_ledger(path) for path in flags.ledger])
    ledger = read_ledger(flags.ledger[0])
    names = ACCOUNTANTS if flags.accountant == "both" else (flags.accountant,)
    records, lacking = _of_each(
        names, lambda name: _ledger_record(ledger, name or ledger.plan.accountant)
    )
    if flags.json:
        return [json.dumps(record) for record in (*records, *lacking)]
    sentences = [*map(_ledger_sentence, records), *map(_lack, lacking)]
    return [*sentences, *_ledger_remarks(ledger)]


def _of_ledgers(flags, ledgers):
    """The epsilon of several runs composed.

    A run that has a ledger here and is an earlier phase of another one counts once, if both say the
    same of it. Two ledgers of one run count twice: a copied folder may have gone on by itself.
    """
    from tfdpnorm.privacy.added_delta import added_to_phases
    from tfdpnorm.privacy.composition import composed_epsilon
    from tfdpnorm.privacy.words import unit_of

    deltas = sorted({ledger.plan.delta for ledger in ledgers})
    if flags.delta is None and len(deltas) > 1:
        raise ValueError(
            f"The ledgers have different deltas, {', '.join(map(repr, deltas))}, and there is no "
            "--delta. Pass the delta of the composed guarantee."
        )
    delta = deltas[0] if flags.delta is None else arguments.open_unit("--delta", flags.delta)
    runs = [ledger.as_phase() for ledger in ledgers]
    units = {phase.unit: phase.run for phase in runs}
    if len(units) > 1:
        raise ValueError(
            f"Run {units['person']} protects a person and run {units['row']} an example: their "
            "epsilons do not compose. Give the ledgers of runs that protect the same."
        )
    earlier = dict.fromkeys(phase for ledger in ledgers for phase in ledger.plan.earlier)
    runs += [phase for phase in earlier if phase not in runs]
    is_unconfirmed = any(ledger.confirmed_guarantee is None for ledger in ledgers)
    reasons = [f"run {phase.run}: {reason}" for phase in runs for reason in phase.reasons]

    def record_of(accountant):
        trained, validated = (
            composed_epsilon([part for p in parts for part in p], delta, accountant)
            for parts in ([p.mechanisms for p in runs], [p.validation for p in runs])
        )
        added, excess = added_to_phases(runs, trained, delta)
        because = [*reasons, *([excess] if excess else [])]
        return {
            "ledgers": [ledger.file.path for ledger in ledgers],
            "runs": [phase.run for phase in runs],
            "unit": ledgers[0].unit,
            "accountant": accountant,
            "guarantee_holds": None if is_unconfirmed and not because else not because,
            "no_guarantee_because": because,
            "epsilon": _json_number(math.inf if because else trained),
            "claimed_epsilon": _json_number(trained),
            "validation_epsilon": _json_number(math.inf if because else validated),
            "delta": delta,
            "added_to_delta": added,
            "updates": sum(phase.updates for phase in runs),
            "adjacency": "add_or_remove_one",
        }

    names = ACCOUNTANTS if flags.accountant in (None, "both") else (flags.accountant,)
    records, lacking = _of_each(names, record_of)
    if flags.json:
        return [json.dumps(record) for record in (*records, *lacking)]
    return [
        *map(_composed_sentence, records),
        *map(_lack, lacking),
        *dict.fromkeys(f"- {why}" for record in records for why in record["no_guarantee_because"]),
        *(f"- run {phase.run}: {phase.in_words}" for phase in runs),
        f"Holds for {unit_of(ledgers[0]).neighbours}, in the data of every run "
        "(add_or_remove_one). It assumes that the results of a run influenced neither the noise, "
        "the sampling rate and the number of updates of another run, nor the time at which it "
        "ended. Each run's own statement lists what it does not cover: tfdpnorm-epsilon "
        "--ledger=FILE.",
    ]


def _composed_sentence(record):
    of = f"{len(record['runs'])} runs composed, {record['updates']} updates, at delta = "
    of += delta_text(record["delta"])
    if record["guarantee_holds"] is False:
        claimed = ceil_text(float(record["claimed_epsilon"]))
        return (
            f"{record['accountant']}: NO GUARANTEE; claimed epsilon = {claimed} (not a guarantee) "
            f"for {of}, because:"
        )
    sentence = (
        f"{record['accountant']}: epsilon = {ceil_text(float(record['epsilon']))} (rounded up) for "
        f"{of}, to which at most {ceil_text(record['added_to_delta'])} is added"
    )
    if record["validation_epsilon"]:
        validated = ceil_text(float(record["validation_epsilon"]))
        sentence += f"; for validation examples epsilon = {validated}"
    return sentence


def _of_each(names, record_of):
    """Computes a record per accountant; one accountant that cannot does not hide the others.

    Args:
        names: Of the accountants.
        record_of: Function from a name to a record.

    Returns:
        Pair of the records, and of records of those that cannot, which say why not: lists.

    Raises:
        ValueError: of the first accountant, if none can; ArithmeticError likewise.
    """
    records, lacking, first = [], [], None
    for name in names:
        try:
            records.append(record_of(name))
        except (ValueError, ArithmeticError) as error:
            first = first or error
            lacking.append({"accountant": name, "epsilon": None, "cannot_because": str(error)})
    if not records:
        raise first
    return records, lacking


def _lack(record):
    return f"{record['accountant']}: no value. {record['cannot_because']}"


def _ledger_record(ledger, accountant):
    from tfdpnorm.privacy.statement_as_json import statement_json

    plan, state = ledger.plan, ledger.state
    return {
        "ledger": ledger.file.path,
        "accountant": accountant,
        "guarantee_holds": ledger.confirmed_guarantee,
        "no_guarantee_because": list(ledger.no_guarantee_because),
        "epsilon": _json_number(ledger.epsilon(accountant) if ledger.guarantee_holds else math.inf),
        "claimed_epsilon": _json_number(ledger.claimed_epsilon(accountant)),
        "whole_plan_epsilon": _json_number(ledger.epsilon(accountant, whole_plan=True)),
        "validation_epsilon": _json_number(ledger.validation_epsilon(accountant)),
        "delta": plan.delta,
        "updates": state.updates,
        "position": state.position,
        "steps": plan.steps,
        "lost_updates": state.lost_updates,
        "resumes": state.resumes,
        "queries": state.queries(),
        "torn": ledger.file.torn,
        "lines": ledger.file.tail[0],
        "noise_multiplier": plan.noise_multiplier,
        "l2_norm_clip": _json_number(plan.l2_norm_clip),
        "sampling_rate": plan.sampling_rate,
        "num_examples": plan.num_examples,
        "adjacency": "add_or_remove_one",
        "sampling": plan.sampling,
        "held_to_plan_because": list(state.sentences("held_to_plan")),
        "excluded": list(state.sentences("not_covered")),
        "foreign": list(state.sentences("foreign_weights")),
        "finished": state.is_finished,
        "search": None if state.search is None else state.search.entry(),
        "is_of_search": ledger.is_of_search,
        "settings": ledger.settings,  # As in the header of the ledger.
        "statement": statement_json(ledger),
    }


def _ledger_sentence(record):
    name, spent = record["accountant"], f"at delta = {delta_text(record['delta'])}, for "
    if record["is_of_search"]:
        spent += "a whole search: this is its own ledger, and each of its trials has another one"
    else:
        spent += (
            f"{record['updates']} of {record['steps']} planned updates, which are spent; the "
            f"present weights result from {record['position']} of them"
        )
    if record["guarantee_holds"] is not False:
        return f"{name}: epsilon = {ceil_text(float(record['epsilon']))} (rounded up) {spent}"
    claimed = ceil_text(float(record["claimed_epsilon"]))
    return f"{name}: NO GUARANTEE; claimed epsilon = {claimed} (not a guarantee) {spent}"


def _ledger_remarks(ledger):
    from tfdpnorm.privacy.statement import CANNOT_SHOW, privacy_statement

    lines, state = ledger.file.tail[0], "none of them torn"
    if ledger.file.torn:
        state = "the last line is torn: the updates it announces did not happen and are not counted"
    return [
        f"Ledger: {lines} lines; {state}. {CANNOT_SHOW}",
        *privacy_statement(ledger).splitlines(),
    ]


_OF_SUGGESTION = "suggest num_examples epsilon delta epochs steps expected_batch_size json".split()


def _suggested(flags):
    others = [name for name, value in vars(flags).items() if value not in (None, False)]
    others = [f"--{name}" for name in others if name not in _OF_SUGGESTION]
    if others:
        raise ValueError(
            f"--suggest cannot be combined with {', '.join(others)}. It takes --num_examples, "
            "--epsilon, --delta, --epochs, --steps and --expected_batch_size."
        )
    if flags.epsilon is None or flags.num_examples is None:
        raise ValueError("--suggest needs --epsilon and --num_examples. Pass both.")
    from tfdpnorm.privacy.suggested_plan import suggest_plan

    suggested = suggest_plan(
        budget=PrivacyBudget(flags.epsilon, flags.delta),
        num_examples=flags.num_examples,
        epochs=flags.epochs,
        steps=flags.steps,
        expected_batch_size=flags.expected_batch_size,
    )
    names = ("expected_batch_size", "steps", "accountant", "noise_multiplier")
    values = {name: getattr(suggested.plan, name) for name in names}
    if flags.json:
        return [json.dumps({**values, "reasons": suggested.reasons})]
    return [
        *(f"{name} = {value}: {suggested.reasons[name]}" for name, value in values.items()),
        "Clipping, views and learning rate follow from the model: tfdpnorm.suggest(model, ...).",
    ]


def _of_settings(flags, program):
    if flags.most_rows_per_person is not None:
        arguments.whole("--most_rows_per_person", flags.most_rows_per_person, at_least=1)
    sampling_rate, steps = _lots(flags)
    names = ACCOUNTANTS if flags.accountant == "both" else (flags.accountant,)
    records, lacking = _of_each(names, lambda name: _record(flags, sampling_rate, steps, name))
    _warn_of_delta(flags, sampling_rate, program)
    if flags.json:
        return [json.dumps(record) for record in (*records, *lacking)]
    last = (
        "Holds for Poisson-sampled batches. Neighbours: add or remove one example "
        "(add_or_remove_one)."
    )
    if all(record["epsilon"] == "inf" for record in records):
        last = "NO GUARANTEE: no epsilon is finite. Give more noise."
    return [*map(_sentence, records), *map(_lack, lacking), last]


def _warn_of_delta(flags, sampling_rate, program):
    """Warns of a delta that allows publishing a whole example."""
    if flags.num_examples is not None:
        bound, said = 1 / flags.num_examples, f"={1 / flags.num_examples:g}"
    else:  # A batch has one example on average, or more.
        bound, said = sampling_rate, f", which is at most sampling_rate={sampling_rate:g}"
    if flags.delta >= bound:
        print(
            f"{program}: warning: delta={flags.delta:g} is not below 1 / num_examples{said}: such "
            "a guarantee allows publishing a whole example. Choose a smaller delta.",
            file=sys.stderr,
        )


def _lots(flags):
    """Returns sampling rate and number of updates, checked; checks delta, too."""
    if flags.num_examples is not None:
        arguments.whole("--num_examples", flags.num_examples, at_least=1)
    sampling_rate = flags.sampling_rate
    if sampling_rate is None:
        if flags.num_examples is None:
            raise ValueError(
                "--expected_batch_size needs --num_examples. Pass it, or --sampling_rate instead "
                "of both."
            )
        size = arguments.positive("--expected_batch_size", flags.expected_batch_size)
        if size > flags.num_examples:
            raise ValueError(
                f"Expected --expected_batch_size <= --num_examples, got {size:g} and "
                f"{flags.num_examples}. Lower --expected_batch_size."
            )
        sampling_rate = size / flags.num_examples
    arguments.sampling_rate("--sampling_rate", sampling_rate)
    steps = flags.steps
    if steps is None:
        from tfdpnorm.privacy.planning import updates_of_epochs

        arguments.positive("--epochs", flags.epochs)
        steps = updates_of_epochs(flags.epochs, sampling_rate)
    arguments.whole("--steps", steps, at_least=1)
    arguments.open_unit("--delta", flags.delta)
    return sampling_rate, steps


def _record(flags, sampling_rate, steps, accountant):
    from tfdpnorm.privacy.accountants import dp_sgd_event, epsilon_of
    from tfdpnorm.privacy.calibration import calibrate_noise_multiplier

    noise_multiplier = flags.noise_multiplier
    if noise_multiplier is None:
        budget = PrivacyBudget(flags.epsilon, flags.delta)
        noise_multiplier = calibrate_noise_multiplier(budget, sampling_rate, steps, accountant)
    event = dp_sgd_event(sampling_rate, noise_multiplier, steps)
    epsilon = epsilon_of(event, flags.delta, accountant)
    return {
        "accountant": accountant,
        "epsilon": _json_number(epsilon),
        "person_epsilon": _person_epsilon(flags, sampling_rate, noise_multiplier, steps),
        "epsilon_target": None if flags.epsilon is None else _json_number(flags.epsilon),
        "delta": flags.delta,
        "noise_multiplier": noise_multiplier,
        "sampling_rate": sampling_rate,
        "steps": steps,
        "num_examples": flags.num_examples,
        "adjacency": "add_or_remove_one",
        "sampling": "poisson",
    }


def _person_epsilon(flags, sampling_rate, noise_multiplier, steps):
    """For a person with several examples, whatever the accountant; None if it was not asked for."""
    rows = flags.most_rows_per_person
    if rows is None:
        return None
    from tfdpnorm.privacy.composition import composed_profile
    from tfdpnorm.privacy.profiles import epsilon_at

    if noise_multiplier == 0:
        return "inf"
    profile = composed_profile(((sampling_rate, noise_multiplier, steps),), flags.delta, rows)
    return _json_number(epsilon_at(profile, flags.delta))


def _json_number(value):
    return "inf" if math.isinf(value) else value  # JSON has no infinity.


def _sentence(record):
    person = record["person_epsilon"]
    if person is None:
        return _of_example(record)
    return f"{_of_example(record)}; for persons epsilon = {ceil_text(float(person))} (rounded up)"


def _of_example(record):
    epsilon = ceil_text(float(record["epsilon"]))
    settings = (
        f"sampling_rate = {record['sampling_rate']:.6g}, steps = {record['steps']}, "
        f"delta = {record['delta']!r}"
    )
    if record["epsilon_target"] is None:
        return (
            f"{record['accountant']}: epsilon = {epsilon} (rounded up) for noise_multiplier = "
            f"{record['noise_multiplier']!r}, {settings}"
        )
    return (
        f"{record['accountant']}: noise_multiplier = {record['noise_multiplier']!r} for epsilon "
        f"<= {record['epsilon_target']!r}, reaching {epsilon} (rounded up), {settings}"
    )


if __name__ == "__main__":
    sys.exit(main())
