"""The console command `tfdpnorm-epsilon`: epsilon from noise, noise from epsilon, or from a ledger.

    tfdpnorm-epsilon --num_examples=60000 --expected_batch_size=600 --epochs=40 --delta=1e-5 \
        --epsilon=1 --accountant=both
    tfdpnorm-epsilon --suggest --num_examples=60000 --delta=1e-5 --epsilon=1
    tfdpnorm-epsilon --ledger=run/ledger.jsonl

The command loads no TensorFlow; and the accountants, which load SciPy, once the arguments are
understood.
"""

import argparse
import os
import sys
import warnings

from tfdpnorm.choices import ACCOUNTANTS, UNITS
from tfdpnorm.errors import PrivacyWarning

_SIZES = "num_examples expected_batch_size steps epochs most_per_person unit"
_OF_ALL = "json delta"
_TAKES = {
    "ledger": f"{_OF_ALL} ledger disjoint accountant".split(),
    "suggest": f"{_OF_ALL} {_SIZES} suggest epsilon".split(),
    "": f"{_OF_ALL} {_SIZES} epsilon noise_multiplier accountant most_per_batch".split(),
}


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        # argparse would print the usage first; one line is what a script can show.
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())}\n")


def main(argv=None):
    """Runs the command.

    For settings it prints a sentence for each accountant, for a ledger the privacy statement. With
    --json, it prints one JSON object on a line of its own instead, in which an infinite epsilon is
    the string "inf".

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
    parser = _make_parser()
    flags = parser.parse_args(argv)
    mode = next((mode for mode in ("ledger", "suggest") if getattr(flags, mode)), "")
    given = [name for name, value in vars(flags).items() if value not in (None, False)]
    others = [f"--{name}" for name in given if name not in _TAKES[mode]]
    if others:
        where = f"together with --{mode}" if mode else "without --ledger"
        parser.error(f"{', '.join(others)} cannot be given {where}. Leave them out.")
    # Here, after --help and the errors above.
    from tfdpnorm.privacy import command_of_ledgers, command_of_settings

    lines_of = {
        "ledger": command_of_ledgers.lines,
        "suggest": command_of_settings.suggested,
        "": command_of_settings.lines,
    }
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", PrivacyWarning)
            lines = lines_of[mode](flags)
    except OSError as error:
        parser.error(f"{error.strerror}: {error.filename!r}")
    except (ValueError, ArithmeticError) as error:
        parser.error(str(error))
    for said in dict.fromkeys(str(each.message) for each in caught):
        print(f"{parser.prog}: warning: {said}", file=sys.stderr)
    try:
        print("\n".join(lines), flush=True)
    except BrokenPipeError:  # by `| head`; what is left must not be written at exit, either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _make_parser():
    parser = _Parser(
        prog="tfdpnorm-epsilon",
        description="Prints the epsilon of DP-SGD for a noise multiplier, the noise multiplier for "
        "an epsilon, or the epsilon that a run has spent according to its ledger.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--ledger",
        action="append",
        help="ledger file of a run: print its privacy statement. Several files: the epsilon of "
        "all runs composed, at --delta if their deltas differ",
    )
    add(
        "--disjoint",
        action="store_true",
        help="no example or person is in the data of two of the ledgers: the largest epsilon holds",
    )
    add("--num_examples", type=int, help="private training examples")
    add("--expected_batch_size", type=float, help="expected batch size")
    add("--steps", type=int, help="optimizer updates")
    add("--epochs", type=float, help="steps = ceil(epochs * num_examples / expected_batch_size)")
    add(
        "--delta",
        type=float,
        help="at most 0.1 / num_examples; with --epsilon, the smaller of that and 1e-5 by default",
    )
    add("--noise_multiplier", type=float, help="print the epsilon of this noise multiplier")
    add("--epsilon", type=float, help="print the smallest noise multiplier for this epsilon")
    add(
        "--accountant",
        choices=(*ACCOUNTANTS, "both"),
        help="default: rdp; of several ledgers, both: rdp and pld",
    )
    add(
        "--suggest",
        action="store_true",
        help="suggest batch size, updates and noise for --epsilon and --num_examples; --delta, "
        "--epochs, --steps and --expected_batch_size are used if given",
    )
    add(
        "--most_per_person",
        type=int,
        help="most rows of a person. Persons are sampled: the other numbers count persons",
    )
    add(
        "--unit",
        choices=UNITS,
        help="what is sampled and protected; row: with --most_per_person, also print epsilon for a "
        "person with so many rows",
    )
    add(
        "--most_per_batch",
        type=int,
        help="most examples that take part in an update, for runs of this library",
    )
    add("--json", action="store_true", help="print JSON, one object per accountant or ledger")
    return parser


if __name__ == "__main__":
    sys.exit(main())
