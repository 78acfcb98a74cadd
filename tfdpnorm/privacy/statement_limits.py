"""What a privacy statement presumes and leaves out, and what floating-point numbers do to it."""

from tfdpnorm.privacy.added_delta import GRID_NUMBERS, rounding_loss
from tfdpnorm.privacy.rounding import ceil_text
from tfdpnorm.privacy.words import unit_of

_GENERATORS = {
    "shake256": "The noise generator is a cryptographic one (SHAKE256, FIPS 202).",
    None: "The noise generator, Philox, is not a cryptographic one.",
}
_OTHER_RUNS = (
    "Hyperparameter search: every further run or trial on the same data, kept or thrown away, adds "
    "to the epsilon, and so does choosing the best of several."
)
_OTHER_SEARCHES = (
    "Any other search: every further run on the same data, kept or thrown away, adds to this "
    "epsilon."
)
_LEFT_OUT = (
    "The training loss and every metric computed on private data during training, wherever they "
    "were printed or logged, and whatever was chosen by them: a stopping time, a checkpoint, a "
    "learning rate.",
    "Whatever else was computed from private data and went into the run: preprocessing, a "
    "vocabulary, sample weights or class weights, initial weights, the choice of examples.",
)
_VALIDATION = (
    "Private validation data that guided a choice: this epsilon does not protect its examples."
)
_OTHER_VALIDATION = (
    "Private validation data, where anything but the noisy answers counted above guided a choice."
)
_SIDE_CHANNELS = "How long training takes, and which memory it reads."
_FLOATING_POINT = (
    "Floating-point effects (Mironov 2012): the accountant assumes exact Gaussian noise on exact "
    "sums. This run draws the noise from 32-bit random words, and computes and adds it in float32, "
    "where some numbers never come out. Whoever knows two candidates for the sum of an update can "
    "tell from the bits of what was released which of them it was, whatever epsilon says."
)
_ROUNDED_SUM = (
    "Floating-point effects on the sums before the noise (Casacuberta et al. 2022): one example "
    "moves the exact sum by at most C, and the computed one by more, because it changes the "
    "rounding of others. For this engine there is no bound."
)


def threats(ledger):
    presumed = list(ledger.state.sentences("established"))
    if ledger.most_rows_per_person is not None:
        presumed.append(
            f"That no person owns more than {ledger.most_rows_per_person} examples is presumed, "
            "unless the program was given the owners and checked them."
        )
    return [
        "Against whom: anybody who sees the weights after every update, this statement and the "
        "ledger, and knows the code, all settings and all the other "
        f"{unit_of(ledger).many}.",
        "It is presumed that nobody learns the secrets of the run: the key of the noise, the "
        "members and slots of the sampled batches, sums, gradients and metrics without noise, or "
        "what else is in the memory of the process.",
        *presumed,
    ]


def not_covered(ledger):
    state, (of_noise, of_sums) = ledger.state, _is_exact(ledger)
    return [
        _OTHER_RUNS if state.search is None else _OTHER_SEARCHES,
        *_LEFT_OUT,
        _OTHER_VALIDATION if state.queries() else _VALIDATION,
        *([] if of_noise else [_FLOATING_POINT]),
        *([] if of_sums else [_ROUNDED_SUM]),
        _SIDE_CHANNELS,
        *state.sentences("not_covered"),
    ]


def _is_exact(ledger):
    """Whether noise lies on a grid, and whether sums have a bound on rounding, in all phases."""
    of_phases = all(phase.is_exact for phase in ledger.plan.earlier)
    settings = ledger.settings
    return (
        bool(settings.get("noise_grid")) and of_phases,
        bool(settings.get("sum_rounding")) and of_phases,
    )


def numerical_safety(ledger, figures, person):
    of_noise, of_sums = _is_exact(ledger)
    lines = []
    if of_noise:
        more = max(rounding_loss(ledger, each)[0] for each in _epsilons(figures, person))
        lines.append(
            "Noise (Mironov 2012): the noised sums are rounded to a grid and have the distribution "
            f"that the accountant assumes, up to factors that add at most {ceil_text(more)} to "
            "epsilon, and to delta what is stated above, for up to "
            f"{GRID_NUMBERS:.0e} noised numbers (weights times updates)."
        )
    else:
        lines.append("Noise: not safe, see Not covered.")
    if of_sums:
        lines.append(
            "Sums (Casacuberta et al. 2022): the noise is larger by what rounding can add to the "
            "effect of one example. That holds for processors and kernels that round each "
            "operation as IEEE 754 says, and compute the numbers of an example from nothing but "
            "that example and its position in the batch."
        )
    else:
        lines.append("Sums: there is no bound on what rounding does to them, see Not covered.")
    used = [ledger.settings.get("noise_generator")]
    used += [phase.noise_generator for phase in ledger.plan.earlier]
    return [*lines, *dict.fromkeys(_GENERATORS.get(each, _GENERATORS[None]) for each in used)]


def _epsilons(figures, person):
    return [None] if person is None else [None, min(person.epsilon, 700.0)]
