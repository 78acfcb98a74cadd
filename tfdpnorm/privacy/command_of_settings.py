"""The lines of `tfdpnorm-epsilon` for flags: epsilon from noise, noise from epsilon, a plan."""

import json

from tfdpnorm.choices import ACCOUNTANTS
from tfdpnorm.privacy.accountants import epsilon_at
from tfdpnorm.privacy.budget import PrivacyBudget
from tfdpnorm.privacy.caveats import UNITS
from tfdpnorm.privacy.planning import make_plan
from tfdpnorm.privacy.profiles import composed_profile
from tfdpnorm.privacy.rounding import ceil_text, json_number
from tfdpnorm.privacy.suggested_plan import suggest_plan

_SIZES = ("num_examples", "expected_batch_size", "steps", "epochs", "most_per_person", "unit")


def printed(flags, names, record_of, sentence, remarks):
    """Returns the lines: a sentence per accountant and the remarks, or with --json records alone.

    `record_of` is a function from a name to a record. An accountant that cannot compute it comes
    last and says why; if none can, the first error is raised. `remarks` is a function of the
    records.
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
    if flags.json:
        return [json.dumps(record) for record in records + lacking]
    return [
        *(f"{record['accountant']}: {sentence(record)}" for record in records),
        *(f"{each['accountant']}: no value. {each['cannot_because']}" for each in lacking),
        *remarks(records),
    ]


def rounded(epsilon):
    """An epsilon of a record as text, rounded upwards."""
    return ceil_text(float(epsilon))


def lines(flags):
    """Returns the lines for a noise multiplier or an epsilon."""
    names = ACCOUNTANTS if flags.accountant == "both" else (flags.accountant or "rdp",)
    return printed(flags, names, lambda name: _record(flags, name), _sentence, _remarks)


def _record(flags, accountant):
    budget = None if flags.epsilon is None else PrivacyBudget(flags.epsilon, flags.delta)
    limit = flags.num_examples if flags.most_per_batch is None else flags.most_per_batch
    plan = make_plan(
        **{name: getattr(flags, name) for name in _SIZES},
        l2_norm_clip=1.0,
        budget=budget,
        noise_multiplier=flags.noise_multiplier,
        delta=flags.delta if budget is None else None,
        accountant=accountant,
        most_per_batch=limit,
    )
    updates, rows = plan.mechanism(plan.steps), plan.stated_per_person
    person = None
    if rows is not None:
        person = "inf"
        if plan.noise_multiplier:
            profile = composed_profile((updates,), plan.delta, rows)
            person = json_number(epsilon_at(profile, plan.delta))
    return {
        "accountant": accountant,
        "epsilon": json_number(plan.claimed_epsilon_after(plan.steps)),
        "person_epsilon": person,
        "epsilon_target": None if budget is None else json_number(budget.epsilon),
        "delta": plan.delta,
        "noise_multiplier": plan.noise_multiplier,
        "sampling_rate": plan.sampling_rate,
        "steps": plan.steps,
        "num_examples": plan.num_examples,
        "most_per_batch": flags.most_per_batch,
        "adjacency": "add_or_remove_one",
        "unit": plan.unit,
        "sampling": "poisson",
    }


def _sentence(record):
    epsilon, person = rounded(record["epsilon"]), record["person_epsilon"]
    noise, target = record["noise_multiplier"], record["epsilon_target"]
    found = f"epsilon = {epsilon} (rounded up) for noise_multiplier = {noise!r}"
    if target is not None:
        found = f"noise_multiplier = {noise!r} for epsilon <= {target!r}, reaching {epsilon} "
        found += "(rounded up)"
    found += (
        f", sampling_rate = {record['sampling_rate']:.6g}, steps = {record['steps']}, "
        f"delta = {record['delta']!r}"
    )
    if person is None:
        return found
    return f"{found}; for persons epsilon = {rounded(person)} (rounded up)"


def _remarks(records):
    if all(record["epsilon"] == "inf" for record in records):
        return ["NO GUARANTEE: no epsilon is finite. Give more noise."]
    return [
        "Holds for Poisson-sampled batches. Neighbours: add or remove "
        f"{UNITS[records[0]['unit']].neighbours} (add_or_remove_one)."
    ]


def suggested(flags):
    """Returns the lines of --suggest."""
    if flags.epsilon is None or flags.num_examples is None:
        raise ValueError("--suggest needs --epsilon and --num_examples. Pass both.")
    budget = PrivacyBudget(flags.epsilon, flags.delta)
    found = suggest_plan(budget=budget, **{name: getattr(flags, name) for name in _SIZES})
    names = ("expected_batch_size", "steps", "accountant", "noise_multiplier")
    values = {name: getattr(found.plan, name) for name in names}
    if flags.json:
        return [json.dumps({**values, "reasons": found.reasons})]
    return [
        *(f"{name} = {value}: {found.reasons[name]}" for name, value in values.items()),
        "Clipping, views and learning rate follow from the model: tfdpnorm.suggest(model, ...).",
    ]
