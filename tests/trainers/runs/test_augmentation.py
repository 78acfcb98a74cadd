"""The views that experiments train on: where they are moved to, and what is rejected."""

import dataclasses

import numpy as np
import pytest

from tfdpnorm.layers import RandomCropAndFlip
from trainers.davody import cells as davody
from trainers.registry import run_cell
from trainers.runs.build import augmentations
from trainers.runs.private import PrivateRun
from trainers.specs import PrivateSpec
from trainers.specs.checks import MULTIPLICITIES


@pytest.mark.parametrize("count, reach", [(5, 1), (9, 2)])
@pytest.mark.parametrize("shape", [(9, 9, 1), (8, 5, 3)])
def test_views_are_the_image_and_it_moved_by_a_pixel(count, reach, shape):
    images = np.random.default_rng(0).random((4, *shape), np.float32)
    height, width, _ = shape
    moves = [
        (down, right)
        for down in (-1, 0, 1)
        for right in (-1, 0, 1)
        if abs(down) + abs(right) <= reach
    ]
    assert len(moves) == count
    # From scratch, pixel by pixel: what leaves on one side is mirrored in on the other.
    rows, columns = np.arange(height), np.arange(width)
    expected = [
        images[:, np.clip(rows - down, 0, height - 1)][:, :, np.clip(columns - right, 0, width - 1)]
        for down, right in moves
    ]
    made = [view(images).numpy() for view in augmentations(count, shape)]
    np.testing.assert_array_equal(made[0], images)
    for view in made:
        assert sum(np.array_equal(view, other) for other in expected) == 1
    assert len({view.tobytes() for view in made}) == count


def test_one_view_is_the_image():
    assert augmentations(1, (28, 28, 1)) is None
    assert augmentations(1, (16,)) is None


@pytest.mark.parametrize("shape", [(16,), (48, 16), (1, 28, 1), (28, 1, 1)])
def test_rows_that_are_no_images_are_rejected(shape):
    with pytest.raises(ValueError, match="augmentation_multiplicity=5, got rows of shape"):
        augmentations(5, shape)


@pytest.mark.parametrize("count", [0, -1, 2, 10, 5.5, None])
def test_other_counts_are_rejected(tiny_spec, count):
    with pytest.raises(ValueError, match=r"multiplicity to be (one of 1, 5, 9|a whole)"):
        tiny_spec(augmentation_multiplicity=count)


@pytest.mark.parametrize("count", [1, 2, 16])
def test_random_views_may_be_as_many_as_one_likes(tiny_spec, count):
    spec = tiny_spec(augmentation_multiplicity=count, views="random")
    assert isinstance(augmentations(count, (12, 12, 1), spec.views), RandomCropAndFlip)


@pytest.mark.parametrize("views", ["moved", "random"])
def test_a_run_is_made_with_its_kind_of_views(tiny_spec, tiny_data, views):
    spec = tiny_spec(augmentation_multiplicity=5, views=views, physical_batch_size=8)
    made = PrivateRun(spec, tiny_data).model._update.views
    assert made.multiplicity == 5
    assert {isinstance(view, RandomCropAndFlip) for view in made.augmentations} == {
        views == "random"
    }


@pytest.mark.slow
def test_a_run_trains_on_random_views_with_a_guarantee(tiny_spec, tiny_data):
    lines = []
    spec = tiny_spec(augmentation_multiplicity=2, views="random", physical_batch_size=8)
    result = run_cell(spec, data=tiny_data, echo=lines.append)
    assert result.record["guarantee_holds"] and result.record["flags"]["views"] == "random"
    assert "each image in 2 views, cropped and flipped at random" in "\n".join(lines)


@pytest.mark.slow
@pytest.mark.slow_cases("9-*", "1-*", "5-public_batch")
@pytest.mark.parametrize("norm", ["none", "public_batch"])
@pytest.mark.parametrize("count", MULTIPLICITIES)
def test_a_run_trains_on_views_and_says_so(tiny_spec, tiny_data, norm, count):
    lines = []
    spec = tiny_spec(norm=norm, augmentation_multiplicity=count)
    result = run_cell(spec, data=tiny_data, echo=lines.append)
    assert result.model._update.views.multiplicity == count
    assert result.record["guarantee_holds"]
    assert result.record["flags"]["augmentation_multiplicity"] == count
    assert (f"each image in {count} views" in "\n".join(lines)) == (count > 1)


@pytest.mark.slow
def test_views_change_the_update_and_not_the_epsilon(tiny_spec, tiny_data):
    def trained(count):
        spec = tiny_spec(insecure_seed=1, noise_multiplier=1e-6, augmentation_multiplicity=count)
        private = run_cell(spec, data=tiny_data, echo=lambda _: None).model
        weights = np.concatenate([w.ravel() for w in private.model.get_weights()])
        return weights, private.ledger.claimed_epsilon()

    plain, views = trained(1), trained(5)
    assert np.abs(plain[0] - views[0]).max() > 1e-3
    assert plain[1] == views[1]


def test_only_default_views_are_left_out_where_rows_are_joined():
    assert davody.spec("mnist", "public_batch", 1.0).augmentation_multiplicity > 1
    for statistics in ("lot", "example"):
        spec = davody.spec("mnist", "public_batch", 1.0, statistics=statistics)
        assert spec.augmentation_multiplicity == 1
        spec = davody.spec(
            "mnist", "public_batch", 1.0, statistics=statistics, augmentation_multiplicity=5
        )
        assert spec.augmentation_multiplicity == 5  # which make_private refuses
    assert all(cell.augmentation_multiplicity == 1 for cell in davody.statistics_cells())


@pytest.mark.parametrize(
    "norm, fields, cell",
    [
        ("public_batch", {}, "public_batch/eps=1"),
        ("public_batch", {"augmentation_multiplicity": 5}, "public_batch/eps=1"),
        ("public_batch", {"augmentation_multiplicity": 9}, "public_batch-9_views/eps=1"),
        ("public_batch", {"augmentation_multiplicity": 1}, "public_batch-no_views/eps=1"),
        ("layer", {"augmentation_multiplicity": 1}, "layer/eps=1"),
        ("layer", {"augmentation_multiplicity": 5}, "layer-5_views/eps=1"),
        ("public_batch", {"statistics": "lot"}, "public_batch-lot/eps=1"),
        (
            "public_batch",
            {"statistics_gradient": "stop", "augmentation_multiplicity": 1},
            "public_batch-stop-no_views/eps=1",
        ),
    ],
)
def test_cells_with_other_views_than_ours_are_named_so(norm, fields, cell):
    assert davody.spec("mnist", norm, 1.0, **fields).cell == cell


def test_the_table_has_cells_that_differ_in_nothing_but_views():
    """So that its rows can be compared."""
    cells = {spec.cell: spec for spec in davody.private_cells("mnist")}
    with_views = [spec for spec in cells.values() if spec.augmentation_multiplicity > 1]
    assert [spec.epsilon for spec in with_views] == [7.0, 1.0, 0.5]
    assert len(cells) == len(davody.private_cells("mnist")) == 3 * 7 + len(with_views)
    for spec in with_views:
        without = cells[spec.cell.replace("/", "-no_views/")]
        other = {name: getattr(without, name) for name in ("network", "reduced")}
        assert without == dataclasses.replace(spec, **other, augmentation_multiplicity=1)


def test_records_without_views_are_of_runs_without_views():
    assert PrivateSpec.__dataclass_fields__["augmentation_multiplicity"].default == 1
