"""Options: what a field says of itself is what everything else does with it."""

import dataclasses
import inspect
import re
from types import SimpleNamespace

import numpy as np
import pytest

from tests.each import each
from tfdpnorm import Clipping, arguments, make_private
from trainers.runs import build
from trainers.specs import AuditSpec, NonPrivateSpec, PrivateSpec, SearchSpec
from trainers.specs.options import (
    check_fields,
    option,
    options,
    type_of,
)
from trainers.specs.training import TrainingSpec

SPECS = (PrivateSpec, NonPrivateSpec, SearchSpec, AuditSpec)
FIELDS = [(spec, field.name) for spec in SPECS for field in dataclasses.fields(spec)]


@each("spec, name", FIELDS)
def test_every_field_of_every_spec_says_what_it_is(spec, name):
    its_option = options(spec)[name]
    assert its_option.help.endswith(".") and len(its_option.help) > 5
    kind, _ = type_of(spec, name)
    assert not its_option.flag or kind in (str, int, float, bool)


@pytest.mark.parametrize("spec", SPECS)
def test_a_condition_names_flags_that_there_are(spec):
    conditions = [value.only_if for value in options(spec).values() if value.only_if is not None]
    assert conditions
    for condition in conditions:
        named = re.findall(r"--(\w+)", condition.needs)
        # One that always holds is of another kind of spec, with which this one shares the field.
        assert named and (set(named) <= {*options(spec)} or condition.holds({})), condition.needs


REQUIRED = {
    PrivateSpec: dict(experiment="e", network="n", column="c", dataset="d", epochs=1, epsilon=1.0),
    NonPrivateSpec: dict(experiment="e", network="n", column="c", dataset="d", epochs=1),
    AuditSpec: {},
}


def handed_on(spec, monkeypatch, **more):
    """What `make_private` gets of a spec, a dict, and what `make_plan` gets in "plan"."""
    data = SimpleNamespace(num_examples=99, public_x=np.zeros([2, 1]), foreign=())
    data.no_guarantee_because = ()
    ledger = SimpleNamespace(ledger=None)
    found = {}
    monkeypatch.setattr(build, "build_network", lambda *_, **options: None)
    monkeypatch.setattr(build, "make_plan", lambda **plan: plan)
    monkeypatch.setattr(
        build,
        "make_private",
        lambda network, plan, **given: found.update(given, plan=plan) or ledger,
    )
    build.build_private(spec, data, steps=3, **more)
    return found


def test_the_settings_of_a_spec_reach_the_library(monkeypatch):
    changed = dict(
        norm="public_batch", engine="per_example", physical_batch_size=7, noise_generator="philox",
        insecure_seed=5, expected_batch_size=11, l2_norm_clip=0.3, accountant="pld",
        epsilon=None, noise_multiplier=2.5, delta=1e-4,
        clipping="per_layer", pull_back="shrunk", pull_back_weight=2.0,
        augmentation_multiplicity=5, most_per_person=4, unit="row",
    )  # fmt: skip
    found = handed_on(PrivateSpec(**{**REQUIRED[PrivateSpec], **changed}), monkeypatch)
    views, public = found.pop("views"), found.pop("public_batch")
    assert views.multiplicity == 5
    assert (public.pull_back, public.pull_back_weight) == ("shrunk", 2.0)
    assert found == {
        "plan": {
            "num_examples": 99, "steps": 3, "expected_batch_size": 11, "l2_norm_clip": 0.3,
            "accountant": "pld", "statistics_budget_share": 0.0, "noise_multiplier": 2.5,
            "delta": 1e-4, "most_per_person": 4, "unit": "row",
        },
        "clipping": Clipping(grouping="per_layer"),
        "engine": "per_example", "physical_batch_size": 7, "noise_generator": "philox",
        "insecure_seed": 5,
    }  # fmt: skip
    audited = AuditSpec(clipping="per_layer", clip_function="automatic")
    found = handed_on(audited, monkeypatch, accountant="rdp")
    assert found["clipping"] == Clipping(grouping="per_layer", function="automatic")
    noised = dict(norm="noised_batch", statistics_budget_share=0.4)
    found = handed_on(PrivateSpec(**{**REQUIRED[PrivateSpec], **noised}), monkeypatch)
    assert found["plan"]["statistics_budget_share"] == 0.4


def test_the_defaults_of_a_spec_are_those_of_the_library(monkeypatch):
    found = handed_on(PrivateSpec(**REQUIRED[PrivateSpec]), monkeypatch)
    known = inspect.signature(make_private).parameters
    for name, value in found.items():
        if name not in ("plan", "clipping", "views"):
            assert value == known[name].default, name
    assert found["clipping"] == Clipping() and found["views"].are_rows


CHECKED = [
    (spec, name)
    for spec in REQUIRED
    for name, its_option in options(spec).items()
    if its_option.check is not None or its_option.choices is not None
]


@each("spec, name", CHECKED)
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
def test_a_spec_rejects_what_its_options_reject(fields, message):
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
    changed = search.replaced(seed=3, tuner="bayesian")
    assert (changed.seed, changed.run.seed, changed.tuner) == (3, 3, "bayesian")
    assert (search.cell, search.experiment, search.network) == ("n/c", "e", "n")
    assert issubclass(PrivateSpec, TrainingSpec) and run.run is run


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
@pytest.mark.parametrize("name", ["epsilon", "expected_batch_size", "public_batch_size"])
def test_audits_are_rejected_before_anything_is_loaded(name, value):
    with pytest.raises(ValueError, match=f"Expected {name} .*got {value!r}"):
        AuditSpec(**{name: value})
