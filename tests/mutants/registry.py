"""All mutants, by name."""

from tests.mutants import (
    accounting,
    audits,
    clipping,
    conditions,
    conversion,
    devices,
    dpvd,
    engines,
    fixed_features,
    ledger,
    noise,
    noised_statistics,
    one_release,
    operations,
    persons,
    proofs,
    residual_networks,
    resuming,
    rounding,
    rules,
    sampling,
    searches,
    statements,
    statistics,
    validation,
    verifier,
    what_a_run_notices,
)

_SUBJECTS = (
    clipping,
    noise,
    sampling,
    statistics,
    noised_statistics,
    one_release,
    persons,
    proofs,
    verifier,
    accounting,
    statements,
    what_a_run_notices,
    conditions,
    ledger,
    resuming,
    validation,
    searches,
    rules,
    operations,
    rounding,
    dpvd,
    conversion,
    residual_networks,
    fixed_features,
    engines,
    devices,
    audits,
)
ALL = tuple(mutant for subject in _SUBJECTS for mutant in subject.MUTANTS)


def named(names):
    """Returns the mutants of these names, in the order of the list; all for no name.

    Raises:
        ValueError: naming those that do not exist.
    """
    unknown = sorted(set(names) - {mutant.name for mutant in ALL})
    if unknown:
        raise ValueError(
            f"Expected names of mutants, got {', '.join(unknown)}. The option --list shows them."
        )
    return [mutant for mutant in ALL if not names or mutant.name in names]
