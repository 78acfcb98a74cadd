"""The cells of all experiments, and specs beside them, as approved texts.

A line of `approved/cells.txt` has what a spec says and does not say by default. A line "paper" has
what differs at the paper's scale, in all cells up to the next one.
`python -m tests.trainers.test_approved_cells` writes the file again.
"""

import json
import pathlib

import pytest

from tfdpnorm import models
from tfdpnorm.privacy import added_delta
from tfdpnorm.privacy.added_delta import floating_point_loss
from trainers import registry
from trainers.davody import cells as davody
from trainers.ermis import cells as ermis
from trainers.ermis.settings import paper_settings
from trainers.klause import cells as klause
from trainers.ours import finetune_cells
from trainers.runs.fixed_features import NETWORKS
from trainers.runs.settings import differences
from trainers.scale import at_scale
from trainers.specs.options import defaults_of

APPROVED = pathlib.Path(__file__).parent / "approved" / "cells.txt"
KLAUSES = dict(epochs=50, plateau="test", precision="float32", optimizer="nadam")
OTHERS = {
    davody.spec: [
        (("mnist", "none", 0.05), {}),
        *(((dataset, "group", None), dict(noise_multiplier=1.25))
          for dataset in ("mnist", "cifar10", "ag_news")),
        (("ag_news", "layer", float("inf")), {}),
        (("mnist", "group", 1.0), {}),
        (("mnist", "public_batch", 2.0), {}),
        (("mnist", "public_batch", 1.0), dict(delta=1e-3)),
        (("mnist", "public_batch", 1.0), dict(held_out=5_000)),
        (("mnist", "public_batch", 1.0), dict(public_batch_size=128, augmentation_multiplicity=1)),
        (("mnist", "public_batch", 3.0), dict(statistics="lot", epochs=None)),
        (("mnist", "public_batch", 3.0), dict(statistics_gradient="stop")),
        (("mnist", "public_batch", 3.0), dict(views="random", augmentation_multiplicity=4)),
        (("mnist", "public_batch", 3.0), dict(augmentation_multiplicity=9)),
        (("mnist", "layer", 1.0), dict(norm_placement="hidden")),
        (("mnist", "layer", 1.0), dict(norm_placement="all")),
        (("mnist", "layer", 1.0), dict(norm_placement="mod")),
        (("mnist", "none", 1.0), dict(model="mlp", steps=7)),
        (("digits", "public_batch", 3.0), {}),
        (("cifar10", "public_batch", 8.0), dict(model="vgg", public_dataset="kmnist")),
        (("ag_news", "noised_batch", 3.0), {}),
        *(((dataset, "layer", epsilon), {}) for dataset in ("mnist", "cifar10", "ag_news")
          for epsilon in (1e9, 6.001, 3.001, 2.001, 0.201, 0.199, 0.099, 1e-6)),
        *(((dataset, norm, epsilon), {}) for dataset in ("mnist", "cifar10", "digits")
          for norm in ("none", "public_batch") for epsilon in (6.001, 2.001, 0.199, 1e-6)),
    ],
    davody.weight_noise_spec: [
        (("mnist", "group", 1.0), {}),
        (("mnist", "batch", 5.0), dict(norm_placement="mod")),
        (("ag_news", "layer", 1.0), dict(epochs=7)),
        (("ag_news", "layer", 1.0), dict(epochs=25, validation_examples=24_000)),
        (("ag_news", "layer", 1.0), dict(early_stopping=9)),
        (("cifar10", "batch", 1.0), dict(model_options=(("width", 64),))),
    ],
    klause.spec: [
        *((("cifar10", "resnet9", 7.42), fields) for fields in [
            KLAUSES,
            KLAUSES | dict(precision="mixed_bfloat16", accountant="pld"),
            KLAUSES | dict(epochs=None, steps=7, plateau_patience=1),
            KLAUSES | dict(optimizer="sgd", learning_rate=3.0, l2_norm_clip=1.0),
            KLAUSES | dict(expected_batch_size=2048, views="random"),
            dict(norm="layer"),
            dict(delta=1e-6),
            dict(scale_norm=True, options={"groups": 16}),
            dict(options={"groups": 32, "order": None}),
            dict(options={"order": "conv_act_norm"}),
            dict(augmentation_multiplicity=4, views="random"),
            dict(held_out=5000),
            dict(image_size=16, options={"width": 8}),
            dict(plateau="private"),
            dict(norm="public_batch", pull_back="shrunk"),
            dict(epochs=3, learning_rate=0.25, physical_batch_size=7),
        ]),
        (("imagenette", "resnet50", 7.42), dict(options={"width": 16})),
        (("imagenette", "resnet9", 7.42), dict(options={"standardized_by": "cifar100"})),
        (("imagenette", "resnet9", 7.42), dict(options={"width": 8}, image_size=40)),
        (("cifar10", "wrn_16_4", 8.0), dict(steps=7)),
    ],
    klause.non_private_spec: [(("cifar10", "resnet9"), dict(epochs=25))],
    ermis.spec: [
        (("mnist", "dpsgd", 1.0), dict(hidden_units=500)),
        (("mnist", "dpsgd", 1.0), dict(delta=1e-6)),
        (("mnist", "dpsgd", 1.0), dict(held_out=5_000)),
        (("mnist", "svi", None), dict(noise_multiplier=1.0)),
        (("digits", "dpvd", 1.0), dict(model="small_cnn", kl_weight=0.5)),
        (("digits", "svi", 1.0), paper_settings("digits", "svi")),
        (("mnist", "dpvd", 1.0), paper_settings("mnist", "dpvd") | dict(epochs=5)),
    ],
    finetune_cells.spec: [(("photos/", 4), dict(model="mine.keras"))],
}  # fmt: skip


def said(spec):
    """What a spec says and does not say by default, a dict of what JSON can hold."""
    found = {"run": said(spec.run)} if spec.kind == "search" else {}
    settings = spec.settings
    for name, default in defaults_of(spec).items():
        if name != "run" and settings[name] != default:
            found[name] = str(settings[name]) if settings[name] == float("inf") else settings[name]
    return json.loads(json.dumps(found))


def lines():
    """The text of the file, a list of lines."""
    made = {name: lambda name=name: registry.cells(name) for name in registry.EXPERIMENTS}
    for function, calls in OTHERS.items():
        module = function.__module__.removeprefix("trainers.")
        for args, fields in calls:
            name = f"{module}.{function.__name__}{args} {fields}"
            made[name] = lambda f=function, a=args, k=fields: [f(*a, **k)]
    found = []
    for name, make in made.items():
        found += ["", name]
        with at_scale("paper"):
            try:
                papers = {spec.cell: said(spec) for spec in make()}
            except ValueError as error:  # what is asked for contradicts the paper's settings
                papers = {}
                found.append(f"  paper: {error}")
        before = {}
        for spec in make():
            one = said(spec)
            other = papers.get(spec.cell, {}) if papers else one
            if papers and not other:
                other = {**one, "cell": None}  # it is another one's there
            differs = {n: other.get(n) for n in {**one, **other} if one.get(n) != other.get(n)}
            found += [] if differs == before else ["  paper: " + json.dumps(differs)]
            found.append(json.dumps(one))
            before = differs
    return found[1:]


def test_cells_are_the_approved_ones():
    assert lines() == APPROVED.read_text("utf-8").splitlines()


@pytest.mark.parametrize("name", registry.EXPERIMENTS)
def test_cells_have_names_of_their_own_and_options_of_their_models(name):
    specs = registry.cells(name)
    assert len({spec.cell for spec in specs}) == len(specs)
    for spec in specs:
        assert spec.seed == 0 and spec.run.search
        if not spec.run.model.endswith(".h5") and spec.run.model not in NETWORKS:  # imported ones
            assert set(dict(spec.run.model_options)) <= set(models.options(spec.run.model))
        if spec.kind == "private" and spec.epsilon is not None:
            _, rounding = floating_point_loss(added_delta.GRID_NUMBERS, spec.epsilon, spec.delta)
            assert added_delta.too_much(rounding, spec.epsilon, spec.delta) is None, spec.cell


def test_unknown_experiments_are_rejected():
    with pytest.raises(ValueError, match="'davody_table2'.*got 'davody_table1'"):
        registry.cells("davody_table1")


def main():
    APPROVED.write_text("\n".join(lines()) + "\n", "utf-8")


if __name__ == "__main__":
    main()


def test_no_cell_keeps_our_scale_at_the_papers_in_silence():
    for experiment in registry.EXPERIMENTS:
        ours = {spec.cell: spec for spec in registry.cells(experiment)}
        with at_scale("paper"):
            papers = {spec.cell: spec for spec in registry.cells(experiment)}
        assert papers.keys() <= ours.keys() or experiment == "ermis_figure5"
        for cell, spec in papers.items():
            if (
                cell in ours
                and ours[cell].run.reduced
                and not differences(spec, ours[cell].settings)
            ):
                assert "--scale=paper changes nothing" in spec.run.reduced, (experiment, cell)
