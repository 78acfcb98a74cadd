"""In which settings a run differs from another one."""

import dataclasses
import itertools
import math
import numbers

from trainers.specs import NonPrivateSpec, PrivateSpec, SearchSpec
from trainers.specs.options import defaults_of, options

# Whose fields the settings of a kind of run are; those of a search are also those of its run.
_SPECS = {
    "private": (PrivateSpec,),
    "non_private": (NonPrivateSpec,),
    "search": (NonPrivateSpec, PrivateSpec, SearchSpec),
}


def differences(spec, other):
    """Returns the names of the settings in which a run with settings `other` differs from `spec`.

    A setting that `other`, such as a record's "flags", lacks counts as its default: older records
    do not have the newer ones. One that the spec lacks is a difference. Left out are the seed, what
    changes nothing that is measured, and what has no effect in either run.
    """
    return _differences(spec.settings, other, _SPECS.get(spec.kind, (type(spec),)))


def differing(records):
    """Returns the names of the settings in which records of one cell differ, see `differences`."""
    first, *others = records
    specs = _SPECS.get(first["kind"], ())
    names = [_differences(first["flags"], other["flags"], specs) for other in others]
    return list(dict.fromkeys(itertools.chain.from_iterable(names)))


def _differences(first, second, specs):
    defaults = {n: default for spec in specs for n, default in defaults_of(spec).items()}
    first, second = ({**defaults, **settings} for settings in (first, second))
    left_out = {"seed", "run"}
    for name, option in {n: o for spec in specs for n, o in options(spec).items()}.items():
        if not (option.measured and option.has_effect(first, second)):
            left_out.add(name)
    missing = dataclasses.MISSING  # equal to nothing but itself
    return [
        name
        for name in dict.fromkeys([*first, *second])
        if name not in left_out and not _equal(first.get(name, missing), second.get(name, missing))
    ]


def _equal(first, second):
    if isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)):
        return len(first) == len(second) and all(map(_equal, first, second))
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, numbers.Real) and isinstance(second, numbers.Real):
        return math.isclose(first, second)  # 1.5 * 0.4 and 0.6 are the same setting
    return first == second
