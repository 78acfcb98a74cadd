"""The views that experiments train on: where they are moved to, and what is refused."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tfdpnorm.experiments import davody, runner
from tfdpnorm.experiments.augmentation import make_augmentation
from tfdpnorm.experiments.spec import ExperimentSpec


def moves(views, image):
    """For each view the (rows, columns) by which `image` was moved, found by trying all."""
    padded = np.pad(image[..., 0], 3, mode="symmetric")
    side = len(image)
    tried = {
        (down, right): padded[3 - down : 3 - down + side, 3 - right : 3 - right + side]
        for down in range(-3, 4)
        for right in range(-3, 4)
    }
    found = []
    for view in views[..., 0]:
        fits = [move for move, moved in tried.items() if np.array_equal(view, moved)]
        assert len(fits) == 1
        found.append(fits[0])
    return found


@pytest.mark.parametrize("pixels", [1, 2])
@pytest.mark.parametrize("side", [9, 28])
def test_an_image_is_moved_by_whole_pixels_uniformly(tiny_spec, pixels, side):
    image = np.random.default_rng(0).random((side, side, 1), np.float32)
    layer = make_augmentation(tiny_spec(random_shift=pixels), image.shape)
    views = layer(tf.tile(image[tf.newaxis], [5000, 1, 1, 1]), training=True).numpy()
    found, counts = np.unique(moves(views, image), axis=0, return_counts=True)
    places = (2 * pixels + 1) ** 2
    assert len(found) == places and np.abs(found).max() == pixels
    mean = 5000 / places
    assert np.all(np.abs(counts - mean) < 5 * np.sqrt(mean))


def test_each_view_is_of_one_image_alone(tiny_spec):
    images = np.stack([np.full((8, 8, 1), value, np.float32) for value in range(50)])
    layer = make_augmentation(tiny_spec(random_shift=3), (8, 8, 1))
    np.testing.assert_array_equal(layer(images, training=True), images)


def test_without_a_shift_there_is_no_augmentation(tiny_spec):
    assert make_augmentation(tiny_spec(), (28, 28, 1)) is None


@pytest.mark.parametrize("shape", [(16,), (48, 16), (2, 28, 1), (28, 2, 1)])
def test_rows_that_cannot_be_moved_are_refused(tiny_spec, shape):
    with pytest.raises(ValueError, match="more than 2 pixels.*random_shift=2, got rows of shape"):
        make_augmentation(tiny_spec(random_shift=2), shape)


@pytest.mark.parametrize(
    "fields, part",
    [
        (dict(random_shift=-1), "random_shift >= 0, got -1"),
        (dict(augmentation_multiplicity=0), "augmentation_multiplicity > 0, got 0"),
        (dict(augmentation_multiplicity=3), "random_shift > 0 with augmentation_multiplicity=3"),
    ],
)
def test_views_that_mean_nothing_are_refused(tiny_spec, fields, part):
    with pytest.raises(ValueError) as error:
        tiny_spec(**fields)
    assert part in str(error.value)


@pytest.mark.parametrize("norm", ["none", "public_batch"])
def test_a_run_trains_on_views_and_says_so(tiny_spec, tiny_data, norm):
    lines = []
    spec = tiny_spec(norm=norm, augmentation_multiplicity=3, random_shift=2)
    result = runner.run(spec, data=tiny_data, echo=lines.append)
    assert result.private.ledger.details["augmentation_multiplicity"] == 3
    assert result.record["guarantee_holds"]
    assert result.record["flags"]["augmentation_multiplicity"] == 3
    assert result.record["flags"]["random_shift"] == 2
    assert any("views: 3 of each image, moved by up to 2 px" in line for line in lines)


def test_views_change_the_update_and_not_the_epsilon(tiny_spec, tiny_data):
    def trained(**fields):
        spec = tiny_spec(insecure_seed=1, noise_multiplier=1e-6, **fields)
        private = runner.run(spec, data=tiny_data, echo=lambda _: None).private
        weights = np.concatenate([w.ravel() for w in private.model.get_weights()])
        return weights, private.ledger.claimed_epsilon()

    plain, views = trained(), trained(augmentation_multiplicity=4, random_shift=2)
    assert np.abs(plain[0] - views[0]).max() > 1e-3
    assert plain[1] == views[1]


def test_our_views_are_left_out_where_rows_are_joined_and_a_users_are_not():
    ours = davody.spec("mnist", "public_batch", 1.0)
    assert ours.augmentation_multiplicity > 1 and ours.random_shift > 0
    for statistics in ("lot", "example"):
        spec = davody.spec("mnist", "public_batch", 1.0, statistics=statistics)
        assert (spec.augmentation_multiplicity, spec.random_shift) == (1, 0)
        spec = davody.spec("mnist", "public_batch", 1.0, statistics=statistics, random_shift=1)
        assert spec.random_shift == 1  # which make_private refuses
    assert all(cell.random_shift == 0 for cell in davody.statistics_cells())


def test_cells_with_other_views_than_ours_are_named_so():
    def cell(norm, **views):
        return davody.spec("mnist", norm, 1.0, **views).cell

    none = dict(augmentation_multiplicity=1, random_shift=0)
    assert cell("public_batch") == "public_batch/eps=1"
    assert cell("public_batch", augmentation_multiplicity=4) == "public_batch/eps=1"
    assert cell("public_batch", augmentation_multiplicity=8) == "public_batch-8_views/eps=1"
    assert cell("public_batch", **none) == "public_batch-no_views/eps=1"
    assert cell("layer", **none) == cell("layer") == "layer/eps=1"
    views = dict(augmentation_multiplicity=2, random_shift=1)
    assert cell("layer", **views) == "layer-2_views/eps=1"
    assert cell("public_batch", statistics="lot") == "public_batch-lot/eps=1"
    assert cell("public_batch", statistics_gradient="stop", **none) == (
        "public_batch-stop-no_views/eps=1"
    )


def test_the_table_has_cells_that_differ_in_nothing_but_views():
    """So that its rows can be compared."""
    cells = {spec.cell: spec for spec in davody.private_cells("mnist")}
    with_views = [spec for spec in cells.values() if spec.random_shift]
    assert [spec.epsilon for spec in with_views] == [7.0, 1.0, 0.5]
    for spec in with_views:
        without = cells[spec.cell.replace("/", "-no_views/")]
        other = dataclasses.replace(
            spec, cell=without.cell, augmentation_multiplicity=1, random_shift=0
        )
        assert other == without


def test_records_from_before_there_were_views_are_of_runs_without():
    fields = {f.name: f.default for f in ExperimentSpec.__dataclass_fields__.values()}
    assert (fields["augmentation_multiplicity"], fields["random_shift"]) == (1, 0)
