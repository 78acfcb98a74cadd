"""The cells of Klause et al.: what they train, what they say of it, and their tables."""

import dataclasses
import math

import pytest

from tfdpnorm import models
from tfdpnorm.privacy import added_delta
from tfdpnorm.privacy.floating_point import floating_point_loss
from trainers import registry
from trainers.klause import cells as klause
from trainers.klause import published
from trainers.klause.notes import NOTES
from trainers.report import plots, tables
from trainers.scale import at_scale
from trainers.specs import NonPrivateSpec
from trainers.sweeps.runs import is_done

KLAUSE = [name for name in registry.EXPERIMENTS if name.startswith("klause")]


def test_there_are_all_tables():
    counts = {name: len(registry.cells(name)) for name in KLAUSE}
    assert counts == {
        "klause_table1": 16,
        "klause_table2": 4,
        "klause_table3": 2,
        "klause_table4": 6,
        "klause_appendix_b": 2,
        "klause_norms": 10,
        "klause_norms_narrow": 15,
        "klause_wide": 2,
    }


@pytest.mark.parametrize("name", registry.EXPERIMENTS)
def test_no_budget_of_a_cell_is_rejected(name):
    for spec in registry.cells(name):
        if spec.kind == "private" and spec.epsilon is not None:
            _, rounding = floating_point_loss(added_delta.GRID_NUMBERS, spec.epsilon, spec.delta)
            assert added_delta.too_much(rounding, spec.epsilon, spec.delta) is None, spec.cell


def test_what_has_no_cell_is_said_below_the_table(make_record):
    said = NOTES["klause_table1"]([make_record(network="tiny_imagenet-resnet9")])[-1]
    assert "epsilon 70 has no cell" in said and "25.8 with ScaleNorm, 24.7 without" in said


@pytest.mark.parametrize("runs, told", [(1, False), (2, True)])
def test_curves_are_compared_where_there_are_several_runs(make_record, runs, told):
    curve = [dict(updates=4, test_accuracy=50.0, epsilon=1.0)]
    made = [
        make_record(network=network, column="eps=7.42", seed=seed, curve=curve)
        for network in ("cifar10-resnet9-scale_norm", "cifar10-resnet9")
        for seed in range(runs)
    ]
    said = "Test accuracy of cifar10-resnet9 during training at epsilon 7.42:"
    assert (said in "".join(NOTES["klause_table1"](made))) == told


@pytest.mark.parametrize("name", KLAUSE)
def test_cells_have_names_of_their_own_and_say_what_is_smaller(name):
    specs = registry.cells(name)
    assert len({spec.cell for spec in specs}) == len(specs)
    for spec in specs:
        assert spec.reduced and spec.model in models.names()
        assert set(dict(spec.model_options)) <= set(models.options(spec.model))
        with_scale = "scale_norm" in spec.network
        assert dict(spec.model_options)["scale_norm"] == with_scale


def test_the_figures_are_the_papers():
    specs = {spec.cell: spec for spec in registry.cells("klause_table1")}
    assert specs["cifar10-resnet9-scale_norm/eps=7.42"].paper_value == 71.8
    assert specs["cifar10-resnet9/eps=7.42"].paper_value == 71.4
    other = klause.spec("cifar10", "resnet9", 7.42, norm="layer")
    assert other.paper_value is None and other.network == "cifar10-resnet9-layer"
    assert klause.spec("cifar10", "resnet9", 7.42, delta=1e-6).paper_value is None
    other_order = klause.spec("cifar10", "resnet9", 7.42, options={"order": "conv_act_norm"})
    assert other_order.paper_value == 71.4
    for options in ({"width": 16}, {"groups": 16}):
        other = klause.spec("imagenette", "resnet50", 7.42, options=options)
        assert other.paper_value is None and other.network.startswith("imagenette-resnet50-")


def test_the_figures_are_those_of_the_text():
    """Typed a second time from the tables, Section 3.1 and the appendices: ScaleNorm / none.

    Tiny ImageNet comes twice, by top-1 and by top-5 accuracy.
    """
    inf = math.inf
    text = {
        ("TABLE1", "cifar10", "resnet9"): {2.89: "65.6/65", 7.42: "71.8/71.4", 9.88: "73/72.4"},
        ("TABLE1", "imagenette", "resnet9"): {
            2.89: "56.6/55.5",
            7.42: "64.8/63.8",
            9.88: "67.1/65",
        },
        ("TABLE1", "tiny_imagenet", "resnet9"): {5: "15.2/14.2", 10: "19.4/18.7", 70: "25.8/24.7"},
        ("TABLE1_TOP5", "tiny_imagenet", "resnet9"): {
            5: "36/34.4",
            10: "41.8/40.5",
            70: "50.8/48.3",
        },
        ("TABLE2", "cifar10", "wrn_16_4"): {8: "82.5/81.25"},
        ("TABLE2", "cifar10", "resnet9"): {7.42: "71.8/71.4"},
        ("TABLE3", "imagenette", "resnet50"): {7.42: "44.2/43"},
        ("TABLE4", "cifar10", "resnet9"): {7.42: "72.4/71.5"},
        ("TABLE4", "imagenette", "resnet9"): {7.42: "66.1/64.4"},
        ("TABLE4", "tiny_imagenet", "resnet9"): {10: "42.8/41.2"},
        ("APPENDIX_B", "cifar10", "resnet9"): {inf: "89.8/89.3"},
    }
    tables = {name for name in vars(published) if name.startswith(("TABLE", "APPENDIX"))}
    found = {
        (table, dataset, model): {
            epsilon: "/".join(
                f"{getattr(published, table)[dataset, model, scaled][epsilon]:g}"
                for scaled in (True, False)
            )
            for epsilon in row
        }
        for table in tables
        for (dataset, model, _), row in getattr(published, table).items()
    }
    assert found == text
    assert (published.HESSIAN_TRACE, published.LARGEST_EIGENVALUE) == (
        (6637.3, 9045.7),
        (2654.2, 3920.4),
    )
    assert published.NEGATIVE_EIGENVALUES == (115, 119)
    assert published.CONDITION_NUMBER == (0.0021, 0.0023)


def test_normalisations_side_by_side_differ_in_nothing_else():
    specs = registry.cells("klause_norms")
    shared = {
        (s.epsilon, s.epochs, s.expected_batch_size, s.l2_norm_clip, s.learning_rate, s.optimizer)
        for s in specs
    }
    assert len(shared) == 1 and specs[0].epsilon == 7.42
    public = [s.public_dataset for s in specs if s.needs_public_rows]
    assert public == ["cifar100"] * 5 + ["synthetic:fractal", "cifar100"]
    assert specs[-2].network == "cifar10-resnet9-public_batch-synthetic_fractal"
    assert specs[-1].network == "cifar10-resnet9-public_batch-stopped"


def test_narrow_networks_differ_in_their_normalisation_alone():
    specs = registry.cells("klause_norms_narrow")
    shared = {(s.steps, s.expected_batch_size, s.learning_rate) for s in specs}
    assert shared == {(100, 1024, 3e-3)}
    assert [s.epsilon for s in specs] == 11 * [7.42] + 2 * [2.89] + 2 * [9.88]
    options = [dict(s.model_options, scale_norm=None, groups=None) for s in specs]
    assert all(o == options[0] for o in options) and options[0]["standardized_by"] == "cifar100"
    assert [dict(s.model_options)["groups"] for s in specs[7:11]] == [2, 4, 8, 16]


def test_appendix_b_is_trained_without_privacy():
    for spec in registry.cells("klause_appendix_b"):
        assert isinstance(spec, NonPrivateSpec) and spec.norm == "batch"
        assert spec.kind == "non_private"


@pytest.mark.parametrize(
    "fields, network",
    [
        ({}, "cifar10-resnet9"),
        ({"scale_norm": True, "options": {"groups": 16}}, "cifar10-resnet9-scale_norm-16_groups"),
        ({"options": {"groups": 32, "order": None}}, "cifar10-resnet9"),
        ({"options": {"order": "conv_act_norm"}}, "cifar10-resnet9-conv_act_norm"),
        (
            {"augmentation_multiplicity": 4, "views": "random"},
            "cifar10-resnet9-4_random_views",
        ),
        ({"held_out": 5000}, "cifar10-resnet9-held_out"),
        ({"image_size": 16, "options": {"width": 8}}, "cifar10-resnet9-width_8-16px"),
        ({"plateau": "test"}, "cifar10-resnet9-test_plateau"),
        ({"plateau": "private"}, "cifar10-resnet9-private_plateau"),
        (
            {"norm": "public_batch", "pull_back": "shrunk"},
            "cifar10-resnet9-public_batch-shrunk",
        ),
    ],
)
def test_cells_that_differ_from_ours_are_named_so(fields, network):
    assert klause.spec("cifar10", "resnet9", 7.42, **fields).network == network


def records(make_record, spec, accuracies, top5):
    return [
        make_record(
            experiment=spec.experiment,
            cell=spec.cell,
            paper_value=spec.paper_value,
            test_accuracy=accuracy,
            test_accuracy_ema=accuracy + 1,
            test_top5=five,
            test_top5_ema=None,
            epsilon=spec.epsilon,
            epsilon_target=spec.epsilon,
            seed=seed,
        )
        for seed, (accuracy, five) in enumerate(zip(accuracies, top5, strict=True))
    ]


def test_tables_have_medians_and_table_4_the_best(make_record):
    spec = klause.spec("tiny_imagenet", "resnet9", 10.0, scale_norm=True)
    made = records(make_record, spec, (10.0, 13.0, 11.0), (31.0, 30.0, 35.0))
    first = tables.experiment_table(made, form=registry.table_form("klause_table1"))
    assert "11.00 (11.33 +- 1.53, 10.00 to 13.00) [12.00]; paper 19.40" in first
    assert "top-5 31.00 (32.00 +- 2.65, 30.00 to 35.00); paper 41.80 (3 runs)" in first
    best = tables.experiment_table(made, form=registry.table_form("klause_table4"))
    assert "top-5 35.00; paper 42.80 (3 runs)" in best and "13.00" not in best
    assert "11.33 +- 1.53 [12.33]; paper 19.40 (3 runs)" in tables.experiment_table(made)


def test_table_4_is_made_of_the_runs_of_table_1():
    assert registry.sources("klause_table4") == ("klause_table1",)
    assert registry.sources("davody_table5") == ("davody_table5",)
    first = {spec.cell: spec for spec in registry.cells("klause_table1")}
    for spec in registry.cells("klause_table4"):
        assert spec == first[spec.cell]
    assert set(registry.table_form("klause_table4").paper) <= set(first)


def test_the_best_are_drawn_where_the_table_has_them(make_record, tmp_path, drawn):
    spec = klause.spec("tiny_imagenet", "resnet9", 10.0, scale_norm=True)
    made = records(make_record, spec, (10.0, 13.0, 11.0), (31.0, 30.0, 35.0))
    for name, ours, theirs in (("klause_table1", 11.0, 19.4), ("klause_table4", 35.0, 42.8)):
        form = registry.table_form(name)
        plots.plot_experiment(made, tmp_path / "e.png", "title", form=form)
        (bar,) = drawn[-1].patches
        (paper,) = [line for line in drawn[-1].lines if line.get_label() == "the paper"]
        assert (bar.get_width(), paper.get_xdata()[0]) == (ours, theirs), name


def test_table_2_has_the_runs_of_table_1_and_their_minutes(make_record):
    assert registry.sources("klause_table2") == ("klause_table2", "klause_table1")
    spec = registry.cells("klause_table2")[-1]
    assert spec == klause.spec("cifar10", "resnet9", 7.42)
    made = records(make_record, spec, (10.0, 13.0, 11.0), (1.0, 2.0, 3.0))
    for record, seconds in zip(made, (60.0, 6000.0, 1234.0), strict=True):
        record |= dict(seconds=seconds, device="CPU, 2 cores")
    text = tables.experiment_table(made, form=registry.table_form("klause_table2"))
    assert text.splitlines()[0].endswith("| minutes a run, beside others | paper: minutes |")
    assert text.splitlines()[2].endswith("| 21 on CPU, 2 cores | 22 on one Quadro RTX 8000 |")


def test_of_wide_networks_the_paper_states_no_length():
    assert klause.spec("cifar10", "wrn_16_4", 8.0).reduced == (
        "epochs 0.5 for the length of De et al., which the paper does not repeat; expected lot 512 "
        "for 4096; ema decay 0.9 for 0.9999; views 4 for 16"
    )
    of_steps = klause.spec("cifar10", "wrn_16_4", 8.0, steps=7)
    assert of_steps.reduced.startswith("updates 7 for the length")


def test_a_run_as_in_the_paper_is_of_full_scale_and_every_other_says_why_not():
    def reduced(**fields):
        return klause.spec("cifar10", "resnet9", 7.42, **{**papers, **fields}).reduced

    papers = dict(epochs=50, plateau="test", precision="float32", optimizer="nadam")
    assert reduced() == "" == reduced(ema_decay=0.9)  # the average is taken beside
    assert reduced(precision="mixed_bfloat16") == "precision mixed_bfloat16 for float32"
    assert reduced(views="random") == "kind of views random for moved"
    assert reduced(plateau="none") == "plateau none for test"
    assert reduced(epochs=60) == "epochs 60 for 50"
    assert reduced(epochs=None, steps=7) == "updates 7 for 50 epochs"
    assert reduced(plateau_patience=1) == "plateau patience 1 for 4"
    assert reduced(accountant="pld") == "accountant pld for rdp"
    assert reduced(optimizer="sgd", learning_rate=3.0, l2_norm_clip=1.0) == (
        "l2 norm clip 1 for 1.5; optimizer sgd for nadam; learning rate 3 for 0.001"
    )
    assert reduced(expected_batch_size=2048) == "expected lot 2048 for 1024"
    assert reduced(augmentation_multiplicity=4, views="random") == (
        "views 4 for 1; kind of views random for moved"
    )
    held_out = klause.spec("cifar10", "resnet9", 7.42, held_out=5000)
    assert held_out.paper_value is None  # of other images


def test_without_privacy_the_length_is_that_of_the_authors_code():
    others = "learning rate schedule cosine for halving on plateaus"
    spec = klause.non_private_spec("cifar10", "resnet9")
    assert spec.reduced == f"epochs 3 for 25 epochs in the authors' code; {others}"
    assert klause.non_private_spec("cifar10", "resnet9", epochs=25).reduced == others


def test_a_search_of_others_is_not_claimed():
    for spec in registry.cells("klause_norms"):
        assert spec.search == "not searched; rate and clip are those of group normalisation"


def test_a_record_of_a_cell_is_done(make_record):
    spec = klause.spec("cifar10", "resnet9", 7.42, scale_norm=True)
    record = make_record(experiment=spec.experiment, cell=spec.cell, flags=dataclasses.asdict(spec))
    assert is_done(spec, [record])
    assert not is_done(klause.spec("cifar10", "resnet9", 7.42), [record])


def test_epsilon_inf_is_the_papers_name_for_none():
    assert published.APPENDIX_B[("cifar10", "resnet9", True)] == {math.inf: 89.8}


def test_inputs_are_standardised_at_the_papers_scale_and_where_asked():
    kept = klause.spec("cifar10", "resnet9", 7.42)
    assert "standardized_by" not in dict(kept.model_options)
    with at_scale("paper"):
        full = klause.spec("cifar10", "resnet9", 7.42)
        own = klause.spec("imagenette", "resnet9", 7.42, options={"standardized_by": "cifar100"})
    assert dict(full.model_options)["standardized_by"] == "cifar100"
    assert full.network == kept.network and full.paper_value == kept.paper_value
    assert dict(own.model_options)["standardized_by"] == "cifar100"
    assert own.network.endswith("-standardized")


def test_of_imagenette_we_train_fewer_pixels_and_channels_and_say_so():
    ours = klause.spec("imagenette", "resnet9", 7.42)
    assert (ours.image_size, dict(ours.model_options)["width"]) == (80, 16)
    assert ours.network == "imagenette-resnet9" and ours.paper_value == 63.8
    assert "image size 80 for 160" in ours.reduced
    assert "channels in the first stage 16 for 64" in ours.reduced
    with at_scale("paper"):
        theirs = klause.spec("imagenette", "resnet9", 7.42)
        given = klause.spec("imagenette", "resnet9", 7.42, options={"width": 8}, image_size=40)
    assert "width" not in dict(theirs.model_options) and theirs.image_size in (None, 160)
    assert theirs.network == ours.network and "image size" not in theirs.reduced
    assert (given.image_size, dict(given.model_options)["width"]) == (40, 8)
    assert given.paper_value is None


def test_wide_networks_differ_in_nothing_but_scale_norm():
    first, second = registry.cells("klause_wide")
    assert first.network == "cifar10-wrn_16_1-scale_norm-16px"
    assert second.network == "cifar10-wrn_16_1-16px"
    assert dict(first.model_options) == {**dict(second.model_options), "scale_norm": True}
    one = dict(network="", model_options=())
    assert dataclasses.replace(first, **one) == dataclasses.replace(second, **one)
