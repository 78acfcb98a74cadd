"""The console command `tfdpnorm-epsilon`: epsilon from noise, or noise from epsilon.

    tfdpnorm-epsilon --num_examples=60000 --expected_batch_size=600 --epochs=40 --delta=1e-5 \
        --epsilon=1 --accountant=both

It loads no TensorFlow.
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence

from tfdpnorm.privacy import _validate
from tfdpnorm.privacy.accountants import ACCOUNTANTS, dp_sgd_event, epsilon_of
from tfdpnorm.privacy.budget import PrivacyBudget
from tfdpnorm.privacy.calibration import calibrate_noise_multiplier
from tfdpnorm.privacy.rounding import ceil_text


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        # argparse would print the usage first; one line is what a script can show.
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
      argv: Arguments without the program's name; those of the process if None.

    Returns:
      0. Prints, for each accountant, a sentence, or with --json one flat JSON object on a line of
      its own, in which an infinite epsilon is the string "inf".

    Raises:
      SystemExit: With code 2, after one line on standard error, where the arguments are not valid
        or the epsilon cannot be reached; with code 0 after --help.
    """
    parser = _make_parser()
    flags = parser.parse_args(argv)
    try:
        records = _compute(flags)
    except ValueError as error:
        parser.error(str(error))
    if flags.num_examples is not None and flags.delta >= 1 / flags.num_examples:
        print(
            f"{parser.prog}: warning: delta={flags.delta:g} is not below 1 / num_examples="
            f"{1 / flags.num_examples:g}; choose a smaller delta.",
            file=sys.stderr,
        )
    for record in records:
        print(json.dumps(record) if flags.json else _sentence(record))
    if not flags.json:
        print("Holds for Poisson-sampled lots, for adding or removing one example.")
    return 0


def _make_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tfdpnorm-epsilon",
        description="Epsilon of DP-SGD for a noise multiplier, or the noise multiplier for it.",
        allow_abbrev=False,
    )
    parser.add_argument("--num_examples", type=int, help="private training examples")
    lot = parser.add_mutually_exclusive_group(required=True)
    lot.add_argument("--expected_batch_size", type=float, help="expected lot size")
    lot.add_argument("--sampling_rate", type=float, help="lot size over number of examples")
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--steps", type=int, help="optimizer updates")
    length.add_argument("--epochs", type=float, help="steps = ceil(epochs / sampling_rate)")
    parser.add_argument("--delta", type=float, required=True, help="well below 1 / num_examples")
    noise = parser.add_mutually_exclusive_group(required=True)
    noise.add_argument("--noise_multiplier", type=float, help="prints the epsilon of this noise")
    noise.add_argument("--epsilon", type=float, help="prints the least noise for this epsilon")
    parser.add_argument("--accountant", choices=(*ACCOUNTANTS, "both"), default="rdp")
    parser.add_argument("--json", action="store_true", help="prints a JSON object per accountant")
    return parser


def _compute(flags: argparse.Namespace) -> list[dict[str, object]]:
    if flags.num_examples is not None:
        _validate.whole("--num_examples", flags.num_examples, at_least=1)
    sampling_rate = flags.sampling_rate
    if sampling_rate is None:
        if flags.num_examples is None:
            raise ValueError(
                "Expected --num_examples with --expected_batch_size, received none. Give it, or "
                "--sampling_rate instead of both."
            )
        size = _validate.positive("--expected_batch_size", flags.expected_batch_size)
        if size > flags.num_examples:
            raise ValueError(
                f"Expected --expected_batch_size <= --num_examples, received {size:g} and "
                f"{flags.num_examples}. Lower --expected_batch_size."
            )
        sampling_rate = size / flags.num_examples
    _validate.sampling_rate("--sampling_rate", sampling_rate)
    steps = flags.steps
    if steps is None:
        epochs = _validate.positive("--epochs", flags.epochs)
        steps = _steps(epochs, sampling_rate)
    _validate.whole("--steps", steps, at_least=1)
    _validate.open_unit("--delta", flags.delta)
    names = ACCOUNTANTS if flags.accountant == "both" else (flags.accountant,)
    return [_record(flags, sampling_rate, steps, name) for name in names]


def _steps(epochs: float, sampling_rate: float) -> int:
    steps = epochs / sampling_rate
    # 21 epochs at rate 0.35 come out a hair above 60 in floating point, and are not 61 updates.
    return round(steps) if math.isclose(steps, round(steps), rel_tol=1e-9) else math.ceil(steps)


def _record(
    flags: argparse.Namespace, sampling_rate: float, steps: int, accountant: str
) -> dict[str, object]:
    noise_multiplier = flags.noise_multiplier
    if noise_multiplier is None:
        budget = PrivacyBudget(flags.epsilon, flags.delta)
        noise_multiplier = calibrate_noise_multiplier(budget, sampling_rate, steps, accountant)
    event = dp_sgd_event(sampling_rate, noise_multiplier, steps)
    epsilon = epsilon_of(event, flags.delta, accountant)
    return {
        "accountant": accountant,
        "epsilon": _json_number(epsilon),
        "epsilon_target": None if flags.epsilon is None else _json_number(flags.epsilon),
        "delta": flags.delta,
        "noise_multiplier": noise_multiplier,
        "sampling_rate": sampling_rate,
        "steps": steps,
        "num_examples": flags.num_examples,
        "adjacency": "add_or_remove_one",
        "sampling": "poisson",
    }


def _json_number(value: float) -> float | str:
    return "inf" if math.isinf(value) else value  # JSON has no infinity.


def _sentence(record: dict[str, object]) -> str:
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
