"""Options: what a field says of itself is what everything else does with it."""

import dataclasses
import inspect
import re

import pytest

from tfdpnorm import arguments, make_private
from trainers.specs import AuditSpec, NonPrivateSpec, PrivateSpec, SearchSpec
from trainers.specs.options import (
    check_fields,
    make_private_arguments,
    option,
    options,
    type_of,
)
from trainers.specs.training import TrainingSpec

SPECS = (PrivateSpec, NonPrivateSpec, SearchSpec, AuditSpec)
FIELDS = [(spec, field.name) for spec in SPECS for field in dataclasses.fields(spec)]
MAKE_PRIVATE = inspect.signature(make_private).parameters


@pytest.mark.parametrize("spec, name", FIELDS)
def test_every_field_of_every_spec_says_what_it_is(spec, name):
    its_option = options(spec)[name]
    assert its_option.help.endswith(".") and len(its_option.help) > 5
    kind, _ = type_of(spec, name)
    assert not its_option.flag or kind in (str, int, float)


@pytest.mark.parametrize("spec", SPECS)
def test_a_condition_names_flags_that_there_are(spec):
    conditions = [value.only_if for value in options(spec).values() if value.only_if is not None]
    assert conditions
    for condition in conditions:
        named = re.findall(r"--(\w+)", condition.needs)
        assert named and set(named) <= {*options(spec)}, condition.needs


@pytest.mark.parametrize(
    "spec, name", [(spec, name) for spec, name in FIELDS if options(spec)[name].make_private]
)
def test_an_argument_of_make_private_is_one_and_has_its_default(spec, name):
    (field,) = [field for field in dataclasses.fields(spec) if field.name == name]
    default = MAKE_PRIVATE[name].default
    required = ("expected_batch_size", "l2_norm_clip")
    assert (default is inspect.Parameter.empty) if name in required else default == field.default


@pytest.mark.parametrize("spec", [PrivateSpec, AuditSpec])
def test_no_argument_of_make_private_is_forgotten(spec):
    # `trainers.runs.build` makes these from the fields of the same names.
    made = {"noise_multiplier", "delta", "steps", "model"}
    ours = {name for name, its_option in options(spec).items() if its_option.make_private}
    assert set(options(spec)) & set(MAKE_PRIVATE) - made == ours


def test_all_arguments_of_make_private_are_read_from_a_spec():
    spec = AuditSpec(clipping="per_layer", engine="per_example")
    given = make_private_arguments(spec)
    assert given["clipping"] == "per_layer" and given["engine"] == "per_example"
    assert set(given) <= set(MAKE_PRIVATE)


REQUIRED = {
    PrivateSpec: dict(experiment="e", network="n", column="c", dataset="d", epochs=1, epsilon=1.0),
    NonPrivateSpec: dict(experiment="e", network="n", column="c", dataset="d", epochs=1),
    AuditSpec: {},
}
CHECKED = [
    (spec, name)
    for spec in REQUIRED
    for name, its_option in options(spec).items()
    if its_option.check is not None or its_option.choices is not None
]


@pytest.mark.parametrize("spec, name", CHECKED)
def test_a_spec_checks_its_fields(spec, name):
    with pytest.raises(ValueError, match=f"Expected {name} .*got 'odd'"):
        spec(**{**REQUIRED[spec], name: "odd"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Toy:
    dataset: str = option(help="A set.")
    norm: str = option("none", "A norm.", choices=("none", "layer"))
    share: float | None = option(None, "A share.", check=arguments.open_unit)
    parts_of_it: int | None = option(None, "Parts.", at_least=2, instead_of="share", flag="pieces")
    seed: int = option(7, "A seed.", at_least=0)

    def __post_init__(self):
        check_fields(self)


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
def test_a_spec_refuses_what_its_options_refuse(fields, message):
    with pytest.raises(ValueError, match=message):
        Toy(dataset="digits", **fields)


def test_a_changed_spec_is_checked_too():
    toy = Toy(dataset="digits", share=0.5)
    assert dataclasses.replace(toy, seed=8).seed == 8
    with pytest.raises(ValueError, match="Expected seed"):
        dataclasses.replace(toy, seed=-1)
    assert type_of(Toy, "parts_of_it") == (int, True) and type_of(Toy, "seed") == (int, False)


def test_a_search_has_the_settings_of_its_run_and_its_own():
    run = PrivateSpec(**REQUIRED[PrivateSpec])
    search = SearchSpec(run=run, over="learning_rate")
    own = {name for name in options(SearchSpec) if name != "run"}
    assert search.settings == {**run.settings, **{n: getattr(search, n) for n in own}}
    changed = search.replaced(seed=3, tuner="random")
    assert (changed.seed, changed.run.seed, changed.tuner) == (3, 3, "random")
    assert (search.cell, search.experiment, search.network) == ("n/c", "e", "n")
    assert issubclass(PrivateSpec, TrainingSpec) and run.run is run


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
@pytest.mark.parametrize("name", ["epsilon", "expected_batch_size", "public_batch_size"])
def test_audits_are_refused_before_anything_is_loaded(name, value):
    with pytest.raises(ValueError, match=f"Expected {name} .*got {value!r}"):
        AuditSpec(**{name: value})
