"""In which settings a run differs from another one."""

import dataclasses
import math
import numbers

from trainers.knobs import defaults_of, has_effect, knobs


def differences(spec, other):
    """Returns the names of the settings in which a run with settings `other` differs from `spec`.

    Lists count as tuples, and a field that `other` lacks counts as its default: older records do
    not have the newer fields. A field that the spec lacks is a difference. Left out are the seed,
    what changes nothing that is measured, and what has no effect in either run.

    Args:
        spec: Spec of a run, such as an `ExperimentSpec`.
        other: Dict, such as the "flags" of a record.
    """
    return _differences(dataclasses.asdict(spec), other, type(spec))


def have_same_settings(records, spec_class):
    """Whether records, of one cell, differ in none of their settings, as `differences` has it.

    Args:
        records: List of records, at least one.
        spec_class: Class of their specs.
    """
    first, *others = records
    return not any(_differences(first["flags"], other["flags"], spec_class) for other in others)


def _differences(first, second, spec_class):
    defaults = defaults_of(spec_class)
    first, second = ({**defaults, **given} for given in (first, second))
    left_out = {"seed"}
    for name, knob in knobs(spec_class).items():
        if not (knob.measured and has_effect(knob, first, second)):
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
