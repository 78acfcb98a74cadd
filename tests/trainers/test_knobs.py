"""Knobs: what a field says of itself is what the rest of the house does with it."""

import dataclasses
import inspect
import re

import pytest

from tfdpnorm import arguments, make_private
from trainers import parts
from trainers.knobs import Part, again, knob, knobs, make_private_arguments, type_of
from trainers.spec import (
    AuditSpec,
    ExperimentSpec,
    FinetuneSpec,
    VariationalSpec,
    WeightNoiseSpec,
)

SPECS = (ExperimentSpec, WeightNoiseSpec, AuditSpec)
PARTS = [
    value
    for value in vars(parts).values()
    if isinstance(value, type) and issubclass(value, Part) and value is not Part
]
FIELDS = [(spec, field.name) for spec in SPECS for field in dataclasses.fields(spec)]
MAKE_PRIVATE = inspect.signature(make_private).parameters


@pytest.mark.parametrize("spec, name", FIELDS)
def test_every_field_of_every_spec_says_what_it_is(spec, name):
    its_knob = knobs(spec)[name]
    assert its_knob.help.endswith(".") and len(its_knob.help) > 5
    kind, _ = type_of(spec, name)
    assert not its_knob.flag or kind in (str, int, float)


@pytest.mark.parametrize("spec", [*SPECS, FinetuneSpec, VariationalSpec])
def test_a_condition_names_flags_that_there_are(spec):
    conditions = [value.only_if for value in knobs(spec).values() if value.only_if is not None]
    assert conditions
    for condition in conditions:
        named = re.findall(r"--(\w+)", condition.needs)
        assert named and set(named) <= {*knobs(spec)}, condition.needs


@pytest.mark.parametrize(
    "spec, name", [(spec, name) for spec, name in FIELDS if knobs(spec)[name].make_private]
)
def test_an_argument_of_make_private_is_one_and_has_its_default(spec, name):
    (field,) = [field for field in dataclasses.fields(spec) if field.name == name]
    default = MAKE_PRIVATE[name].default
    required = ("expected_batch_size", "l2_norm_clip")
    assert (default is inspect.Parameter.empty) if name in required else default == field.default


@pytest.mark.parametrize("spec", [ExperimentSpec, AuditSpec])
def test_no_argument_of_make_private_is_forgotten(spec):
    # `trainers.runs.build` makes these from the fields of the same names.
    made = {"noise_multiplier", "delta", "steps", "model"}
    ours = {name for name, its_knob in knobs(spec).items() if its_knob.make_private}
    assert set(knobs(spec)) & set(MAKE_PRIVATE) - made == ours


def test_all_arguments_of_make_private_are_read_from_a_spec():
    spec = AuditSpec(clipping="per_layer", engine="per_example")
    given = make_private_arguments(spec)
    assert given["clipping"] == "per_layer" and given["engine"] == "per_example"
    assert set(given) <= set(MAKE_PRIVATE)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_checks_its_fields_by_itself(part):
    """Whoever is made of it, so that another paper's spec can be."""
    required = {
        field.name: "x"
        for field in dataclasses.fields(part)
        if field.default is dataclasses.MISSING
    }
    one_of = {k.instead_of: 1 for k in knobs(part).values() if k.instead_of is not None}
    part(**required, **one_of)
    for name, its_knob in knobs(part).items():
        if its_knob.check is not None or its_knob.choices is not None:
            with pytest.raises(ValueError, match=f"Expected {name} .*got 'odd'"):
                part(**{**required, **one_of, name: "odd"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Toy(parts.Network, parts.Dataset):
    share: float | None = knob(None, "A share.", check=arguments.open_unit)
    parts_of_it: int | None = knob(None, "Parts.", at_least=2, instead_of="share", flag="pieces")
    plain: int = 3
    seed: int = again(parts.Dataset, "seed", 7, help="A seed.")


@pytest.mark.parametrize(
    "fields, message",
    [
        (dict(share=1.0), "Expected share strictly between 0 and 1, got 1.0"),
        (dict(share=True), "Expected share strictly between 0 and 1, got True"),
        (dict(parts_of_it=2.5), "Expected parts_of_it to be a whole number >= 2, got 2.5"),
        (dict(), "Expected exactly one of share and parts_of_it, got neither"),
        (dict(share=0.5, parts_of_it=2), "exactly one of share and parts_of_it, got share and"),
        (dict(share=0.5, norm="banana"), "Expected norm to be one of 'none', .*got 'banana'"),
        (dict(share=0.5, seed=-1), "Expected seed to be a whole number >= 0, got -1"),
        (dict(share=0.5, seed=None), "Expected seed to be a whole number >= 0, got None"),
    ],
    ids=range(8),
)
def test_a_spec_of_parts_refuses_what_its_knobs_refuse(fields, message):
    with pytest.raises(ValueError, match=message):
        Toy(dataset="digits", **fields)


def test_a_spec_of_parts_is_flat():
    toy = Toy(dataset="digits", share=0.5)
    assert (toy.seed, toy.plain, toy.norm) == (7, 3, "none")
    assert list(dataclasses.asdict(toy)) == [
        "dataset", "seed", "norm", "model", "model_options", "precision", "share", "parts_of_it",
        "plain",
    ]  # fmt: skip
    assert dataclasses.replace(toy, seed=8).seed == 8
    with pytest.raises(ValueError, match="Expected seed"):
        dataclasses.replace(toy, seed=-1)
    assert knobs(Toy)["seed"].help == "A seed." and not knobs(Toy)["plain"].flag
    assert type_of(Toy, "parts_of_it") == (int, True) and type_of(Toy, "seed") == (int, False)


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
@pytest.mark.parametrize("name", ["epsilon", "expected_batch_size", "public_batch_size"])
def test_audits_are_refused_before_anything_is_loaded(name, value):
    with pytest.raises(ValueError, match=f"Expected {name} .*got {value!r}"):
        AuditSpec(**{name: value})
