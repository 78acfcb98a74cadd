"""Options: what a field says of itself is what everything else does with it."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from tests.each import each
from tfdpnorm import Clipping, arguments
from trainers.runs import build
from trainers.specs import AuditSpec, NonPrivateSpec, PrivateSpec, SearchSpec
from trainers.specs.options import Spec, option, options
from trainers.specs.training import TrainingSpec

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
    found = handed_on(PrivateSpec.of(**{**REQUIRED[PrivateSpec], **changed}), monkeypatch)
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
    found = handed_on(PrivateSpec.of(**{**REQUIRED[PrivateSpec], **noised}), monkeypatch)
    assert found["plan"]["statistics_budget_share"] == 0.4


CHECKED = [
    (spec, name)
    for spec in REQUIRED
    for name, its_option in options(spec).items()
    if its_option.check is not None or its_option.choices is not None
]


@each("spec, name", CHECKED)
def test_a_spec_checks_its_fields(spec, name):
    with pytest.raises(ValueError, match=f"Expected {name} .*got 'odd'"):
        spec.of(**{**REQUIRED[spec], name: "odd"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part(Spec):
    depth: int = option(3, "How deep it is.", at_least=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Toy(Spec):
    dataset: str = option(help="A set.")
    norm: str = option("none", "A norm.", choices=("none", "layer"))
    share: float | None = option(None, "A share.", check=arguments.open_unit)
    parts_of_it: int | None = option(None, "Parts.", at_least=2, instead_of="share", flag="pieces")
    seed: int = option(7, "A seed.", at_least=0)
    part: Part = Part()


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
        (dict(share=0.5, depth=0), "Expected depth to be a whole number >= 1, got 0"),
    ],
    ids=range(9),
)
def test_a_spec_rejects_what_its_options_reject(fields, message):
    with pytest.raises(ValueError, match=message):
        Toy.of(dataset="digits", **fields)


def test_a_search_has_the_settings_of_its_run_and_its_own():
    run = PrivateSpec(**REQUIRED[PrivateSpec])
    search = SearchSpec(run=run, over="learning_rate")
    own = {name for name in options(SearchSpec) if name != "run"}
    assert search.settings == {**run.settings, **{n: getattr(search, n) for n in own}}
    changed = search.replaced(seed=3, tuner="bayesian")
    assert (changed.seed, changed.run.seed, changed.tuner) == (3, 3, "bayesian")
    assert (search.cell, search.experiment, search.network) == ("n/c", "e", "n")
    assert issubclass(PrivateSpec, TrainingSpec) and run.run is run
