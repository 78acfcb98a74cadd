"""The console command `tfdpnorm-epsilon`: epsilon from noise, noise from epsilon, or from a ledger.

    tfdpnorm-epsilon --num_examples=60000 --expected_batch_size=600 --epochs=40 --delta=1e-5 \
        --epsilon=1 --accountant=both
    tfdpnorm-epsilon --suggest --num_examples=60000 --delta=1e-5 --epsilon=1
    tfdpnorm-epsilon --ledger=run/ledger.jsonl

--suggest prints suggested settings. The command loads no TensorFlow; and the accountants, which
load SciPy, once the arguments are understood.
"""

import argparse
import os
import sys

from tfdpnorm.choices import ACCOUNTANTS, UNITS


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
        lines = _lines(flags, of_ledger, suggests)
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


def _lines(flags, of_ledger, suggests):
    """The output; what it needs is imported here, after --help and the errors of the parser."""
    from tfdpnorm.privacy import command_of_ledgers, command_of_settings

    if of_ledger:
        return command_of_ledgers.lines(flags)
    return (command_of_settings.suggested if suggests else command_of_settings.lines)(flags)


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
    parser.add_argument(
        "--disjoint",
        action="store_true",
        help="no example or person is in the data of two of the ledgers: the largest epsilon holds",
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
        "--most_per_person",
        type=int,
        help="most rows of a person. Persons are sampled: the other numbers count persons",
    )
    parser.add_argument(
        "--unit",
        choices=UNITS,
        help="what is sampled and protected; row: with --most_per_person, also print epsilon for a "
        "person with so many rows",
    )
    parser.add_argument(
        "--most_per_batch",
        type=int,
        help="most examples that take part in an update, for runs of this library; needs "
        "--num_examples",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per accountant")
    return parser


if __name__ == "__main__":
    sys.exit(main())
