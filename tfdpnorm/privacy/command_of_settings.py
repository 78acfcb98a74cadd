"""The lines of `tfdpnorm-epsilon` for flags: epsilon from noise, noise from epsilon, a plan."""

import json
import sys
import warnings

from tfdpnorm import arguments
from tfdpnorm.choices import ACCOUNTANTS
from tfdpnorm.errors import PrivacyWarning
from tfdpnorm.privacy.accountants import composed_epsilon, epsilon_at
from tfdpnorm.privacy.budget import PrivacyBudget
from tfdpnorm.privacy.calibration import calibrate_noise_multiplier
from tfdpnorm.privacy.caveats import UNITS
from tfdpnorm.privacy.mechanisms import Mechanism
from tfdpnorm.privacy.plan import unit_of
from tfdpnorm.privacy.planning import make_plan, updates_of_epochs
from tfdpnorm.privacy.profiles import composed_profile
from tfdpnorm.privacy.rounding import ceil_text, json_number
from tfdpnorm.privacy.suggested_plan import suggest_plan

_OF_SUGGESTION = "suggest num_examples epsilon delta epochs steps expected_batch_size json".split()


def check_alone(flags, known, says):
    """Rejects flags that have no effect: `says` is "{} ..." with a place for them."""
    others = [name for name, value in vars(flags).items() if value not in (None, False)]
    others = [f"--{name}" for name in others if name not in known]
    if others:
        raise ValueError(says.format(", ".join(others)))


def records_of(names, record_of):
    """Returns a record per accountant, and then those that say why an accountant cannot.

    `record_of` is a function from a name to a record. If none can, the first error is raised.
    """
    records, lacking, errors = [], [], []
    for name in names:
        try:
            records.append(record_of(name))
        except (ValueError, ArithmeticError) as error:
            errors.append(error)
            lacking.append({"accountant": name, "epsilon": None, "cannot_because": str(error)})
    if not records:
        raise errors[0]
    return records + lacking


def printed(flags, records, sentence, *remarks):
    """Returns the lines: a sentence per record and the remarks, or with --json the records."""
    if flags.json:
        return [json.dumps(record) for record in records]
    return [
        *(
            f"{record['accountant']}: no value. {record['cannot_because']}"
            if "cannot_because" in record
            else f"{record['accountant']}: {sentence(record)}"
            for record in records
        ),
        *remarks,
    ]


def rounded(epsilon):
    """An epsilon of a record as text, rounded upwards."""
    return ceil_text(float(epsilon))


def lines(flags):
    """Returns the lines for a noise multiplier or an epsilon."""
    if flags.disjoint:
        raise ValueError("--disjoint is of several ledgers. Pass --ledger for each group.")
    if flags.most_per_person is not None:
        arguments.whole("--most_per_person", flags.most_per_person, at_least=1)
    sampling_rate, steps = _sampling_rate(flags), flags.steps
    if steps is None:
        arguments.positive("--epochs", flags.epochs)
        steps = updates_of_epochs(flags.epochs, sampling_rate)
    arguments.whole("--steps", steps, at_least=1)
    arguments.open_unit("--delta", flags.delta)
    names = ACCOUNTANTS if flags.accountant == "both" else (flags.accountant,)
    records = records_of(names, lambda name: _record(flags, sampling_rate, steps, name))
    _warn_of_delta(flags, sampling_rate)
    last = (
        "Holds for Poisson-sampled batches. Neighbours: add or remove "
        f"{UNITS[_unit(flags)].neighbours} (add_or_remove_one)."
    )
    if all(record["epsilon"] in ("inf", None) for record in records):
        last = "NO GUARANTEE: no epsilon is finite. Give more noise."
    return printed(flags, records, _sentence, last)


def _warn_of_delta(flags, sampling_rate):
    """Warns of a delta that allows publishing a whole example."""
    if flags.num_examples is not None:
        bound, said = 1 / flags.num_examples, f"={1 / flags.num_examples:g}"
    else:  # A batch has one example on average, or more.
        bound, said = sampling_rate, f", which is at most sampling_rate={sampling_rate:g}"
    if flags.delta >= bound:
        print(
            f"tfdpnorm-epsilon: warning: delta={flags.delta:g} is not below 1 / num_examples"
            f"{said}: such a guarantee allows publishing a whole example. Choose a smaller delta.",
            file=sys.stderr,
        )


def _sampling_rate(flags):
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
    return arguments.sampling_rate("--sampling_rate", sampling_rate)


def _record(flags, sampling_rate, steps, accountant):
    noise_multiplier, part = flags.noise_multiplier, None
    budget = None if flags.epsilon is None else PrivacyBudget(flags.epsilon, flags.delta)
    if flags.most_per_batch is not None:
        part = _limited(flags, sampling_rate, steps, budget, accountant)
        noise_multiplier = part.noise_multiplier
    elif noise_multiplier is None:
        noise_multiplier = calibrate_noise_multiplier(budget, sampling_rate, steps, accountant)
    part = part or Mechanism(sampling_rate, noise_multiplier, steps)
    epsilon = composed_epsilon([part], flags.delta, accountant)
    return {
        "accountant": accountant,
        "epsilon": json_number(epsilon),
        "person_epsilon": _person_epsilon(flags, part),
        "epsilon_target": None if flags.epsilon is None else json_number(flags.epsilon),
        "delta": flags.delta,
        "noise_multiplier": noise_multiplier,
        "sampling_rate": sampling_rate,
        "steps": steps,
        "num_examples": flags.num_examples,
        "most_per_batch": flags.most_per_batch,
        "adjacency": "add_or_remove_one",
        "unit": _unit(flags),
        "sampling": "poisson",
    }


def _limited(flags, sampling_rate, steps, budget, accountant):
    """The `Mechanism` of a run whose batches have a limit."""
    if flags.num_examples is None:
        raise ValueError("--most_per_batch needs --num_examples. Pass both.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # of delta: see `_warn_of_delta`
        plan = make_plan(
            num_examples=flags.num_examples,
            expected_batch_size=sampling_rate * flags.num_examples,
            steps=steps,
            l2_norm_clip=1.0,
            budget=budget,
            noise_multiplier=flags.noise_multiplier,
            delta=flags.delta if budget is None else None,
            accountant=accountant,
            most_per_batch=flags.most_per_batch,
        )
    return plan.mechanism(steps)


def _unit(flags):
    return unit_of(flags.unit, flags.most_per_person)


def _person_epsilon(flags, part):
    """For a person with several examples, whatever the accountant; None if it was not asked for."""
    rows = flags.most_per_person
    if rows is None or _unit(flags) == "person":
        return None
    if part[1] == 0:
        return "inf"
    profile = composed_profile((part,), flags.delta, rows)
    return json_number(epsilon_at(profile, flags.delta))


def _sentence(record):
    epsilon, person = rounded(record["epsilon"]), record["person_epsilon"]
    noise, target = record["noise_multiplier"], record["epsilon_target"]
    settings = (
        f"sampling_rate = {record['sampling_rate']:.6g}, steps = {record['steps']}, "
        f"delta = {record['delta']!r}"
    )
    if target is None:
        found = f"epsilon = {epsilon} (rounded up) for noise_multiplier = {noise!r}, {settings}"
    else:
        found = (
            f"noise_multiplier = {noise!r} for epsilon <= {target!r}, reaching {epsilon} "
            f"(rounded up), {settings}"
        )
    return (
        found
        if person is None
        else f"{found}; for persons epsilon = {rounded(person)} (rounded up)"
    )


def suggested(flags):
    """Returns the lines of --suggest."""
    check_alone(
        flags,
        _OF_SUGGESTION,
        "--suggest cannot be combined with {}. It takes --num_examples, --epsilon, --delta, "
        "--epochs, --steps and --expected_batch_size.",
    )
    if flags.epsilon is None or flags.num_examples is None:
        raise ValueError("--suggest needs --epsilon and --num_examples. Pass both.")
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
