"""Assumptions and limits of a privacy statement, and the effect of floating-point numbers."""

from tfdpnorm.privacy.added_delta import GRID_NUMBERS, rounding_loss
from tfdpnorm.privacy.rounding import ceil_text
from tfdpnorm.privacy.words import manner_of, number, unit_of

_GENERATORS = {
    "openssl": "The noise generator is cryptographic: that of OpenSSL, seeded by the operating "
    "system.",
    None: "The noise generator, Philox, is not cryptographic. No way to predict it from released "
    "values is known, but none is proved impossible.",
}
_OTHER_RUNS = (
    "Hyperparameter search: every further run or trial on the same data, used or discarded, adds "
    "to the epsilon, and so does choosing the best of several."
)
_OTHER_SEARCHES = (
    "Any other search: every further run on the same data, used or discarded, adds to this "
    "epsilon, and so does every copy of this search's folder in which the search continued as well."
)
_COPIES = (
    "Copies of this run: its folder was opened again, and a copy or an earlier state of it looks "
    "the same. It is assumed that no copy of the folder was continued as well, and that no earlier "
    "state of it was restored. Otherwise, everything released adds up, and no ledger records it."
)
_LEFT_OUT = (
    "The training loss and every metric computed on private data during training, wherever they "
    "were printed or logged, and every choice based on them: a stopping time, a checkpoint, a "
    "learning rate.",
    "All other inputs of the run that were computed from private data: preprocessing, a "
    "vocabulary, sample weights or class weights, initial weights, the choice of the examples to "
    "train on.",
    "Scores on private examples outside the training data, such as a test accuracy: they are "
    "exact, and nothing here protects those examples.",
)
_VALIDATION = (
    "Private validation data that guided a choice: this epsilon does not protect its examples."
)
_OTHER_VALIDATION = (
    "Private validation data, where anything other than the noisy answers counted above guided a "
    "choice."
)
_SIDE_CHANNELS = "Side channels: the duration of training, and its memory accesses."
_FLOATING_POINT = (
    "Floating-point effects (Mironov 2012): the accountant assumes exact Gaussian noise on exact "
    "sums. This run draws the noise from 32-bit random words, and computes and adds it in float32, "
    "where some results are impossible. An attacker who knows two candidates for the sum of an "
    "update can tell from the bits of the release which of them it was, regardless of epsilon."
)
_ROUNDED_SUM = (
    "Floating-point effects on the sums before the noise (Casacuberta et al. 2022): one example "
    "changes the exact sum by at most C, but the computed sum by more, because it changes the "
    "rounding of other examples. For this engine no bound is known."
)


def threats(ledger):
    presumed = list(ledger.state.sentences("established"))
    if ledger.most_rows_per_person is not None:
        presumed.append(
            f"It is assumed that no person owns more than "
            f"{number(ledger.most_rows_per_person, 'example')}, "
            "unless the program was given the owners and checked them."
        )
    return [
        f"Attacker: sees {manner_of(ledger).weights}, this statement and the ledger, and knows "
        f"the code, all settings and all other {unit_of(ledger).many}.",
        "It is assumed that the attacker does not learn the secrets of the run: the noise key, the "
        "members and slots of the sampled batches, exact sums, gradients and metrics, and the rest "
        "of the memory of the process.",
        *presumed,
    ]


def not_covered(ledger):
    state, (of_noise, of_sums) = ledger.state, _is_exact(ledger)
    return [
        _OTHER_RUNS if state.search is None else _OTHER_SEARCHES,
        *([_COPIES] if state.resumes else []),
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
        of_all = "" if ledger.state.search is None else ", of all trials together"
        more = max(rounding_loss(ledger, each)[0] for each in _epsilons(figures, person))
        lines.append(
            "Noise (Mironov 2012): the noisy sums are rounded to a grid and have the distribution "
            f"that the accountant assumes, up to factors that add at most {ceil_text(more)} to "
            "epsilon, and to delta the amount stated above, for up to "
            f"{GRID_NUMBERS:.0e} noisy numbers (weights times updates{of_all})."
        )
    else:
        lines.append("Noise: not safe, see Not covered.")
    if of_sums:
        lines.append(
            "Sums (Casacuberta et al. 2022): the noise is increased by the most that rounding can "
            f"add to the effect of one {unit_of(ledger).one}. This assumes processors and kernels "
            "that round each operation according to IEEE 754, and compute the numbers of an "
            "example only from that example and its position in the batch."
        )
    else:
        lines.append("Sums: the effect of rounding is not bounded, see Not covered.")
    used = [ledger.settings.get("noise_generator")]
    used += [phase.noise_generator for phase in ledger.plan.earlier]
    return [*lines, *dict.fromkeys(_GENERATORS.get(each, _GENERATORS[None]) for each in used)]


def _epsilons(figures, person):
    return [each.epsilon for each in (figures, person) if each is not None]
