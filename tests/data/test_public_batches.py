"""Public rows: choice, split, fitting and checks."""

import collections
import dataclasses

import numpy as np
import pytest

from tests.each import each
from tfdpnorm.data import (
    Examples,
    arrays,
    check_public_batch,
    match_images,
    split_public,
    take_public_batch,
    unlike_public,
)


def numbered(n):
    """A set whose every image tells its row."""
    x = np.broadcast_to(np.arange(n, dtype=np.float32)[:, None, None, None], (n, 2, 2, 1)) / n
    return Examples("numbered", "train", x, np.zeros(n, np.int32), 1, True)


def test_take_is_repeatable_and_without_replacement():
    examples = numbered(50)
    chosen = take_public_batch(examples, 20, seed=1)
    assert chosen.shape == (20, 2, 2, 1) and chosen.dtype == np.float32
    assert len(np.unique(chosen[:, 0, 0, 0])) == 20
    np.testing.assert_array_equal(chosen, take_public_batch(examples.x, 20, seed=1))
    assert (chosen != take_public_batch(examples, 20, seed=2)).any()
    assert len(take_public_batch(examples, 50, seed=0)) == 50


def test_split_parts_are_disjoint_complete_and_blind_to_content():
    examples = numbered(50)
    public, private = split_public(examples, 12, 3)
    assert (len(public), len(private)) == (12, 38)
    assert (public.split, private.split) == ("train[public]", "train[private]")
    assert not public.is_complete and not private.is_complete
    together = np.concatenate([public.x, private.x])[:, 0, 0, 0]
    np.testing.assert_array_equal(np.sort(together), examples.x[:, 0, 0, 0])
    check_public_batch(public.x, private.x)
    other = Examples(
        "other", "train", np.random.rand(50, 3), np.arange(50, dtype=np.int32), 50, True
    )
    rows = split_public(other, 12, 3)[0].y
    np.testing.assert_allclose(public.x[:, 0, 0, 0], rows / 50)


def test_persons_are_split_with_all_their_rows():
    examples = dataclasses.replace(numbered(50), persons=np.arange(50) * 7 % 12)
    assert examples.num_persons == 12
    public, private = split_public(examples, 5, 3)
    assert (public.num_persons, private.num_persons) == (5, 7)
    assert not set(public.persons) & set(private.persons) and len(public) + len(private) == 50
    assert (np.diff(private.x[:, 0, 0, 0]) > 0).all()
    for part in (public, private):
        np.testing.assert_array_equal(part.persons, np.rint(part.x[:, 0, 0, 0] * 50) * 7 % 12)
    assert examples.take_persons([0]).persons.tolist() == [0] * 5
    assert examples.take_persons([1, 2]).persons.tolist()[:3] == [7, 2, 7]
    with pytest.raises(ValueError, match="<= 11, .* got 12"):
        split_public(examples, 12, 3)
    with pytest.raises(ValueError, match=r"Expected persons of shape \[50\], as y has, got \[49\]"):
        dataclasses.replace(examples, persons=np.arange(49))


@each("given", [(8, 8, 1), (32, 32, 3), (40, 20, 1)])
@each("wanted", [(28, 28, 1), (32, 32, 3)])
def test_match_images_reaches_the_shape_and_keeps_the_range(given, wanted):
    images = np.random.default_rng(0).random((5, *given))
    fitted = match_images(images, wanted)
    assert fitted.shape == (5, *wanted) and fitted.dtype == np.float32
    assert fitted.min() > -1e-6 and fitted.max() < 1 + 1e-6
    # Each image alone, and a flat one stays flat.
    np.testing.assert_allclose(match_images(images[2:3], wanted)[0], fitted[2], atol=1e-6)
    np.testing.assert_allclose(match_images(np.full((2, *given), 0.25), wanted), 0.25, atol=1e-6)
    if given == wanted:
        np.testing.assert_array_equal(fitted, images.astype(np.float32))


def test_match_images_values():
    ramp = np.array([0.0, 1.0])[None, None, :, None]
    wide = match_images(np.repeat(ramp, 2, axis=1), (2, 4, 1))
    np.testing.assert_allclose(wide[0, 0, :, 0], [0, 0.25, 0.75, 1], atol=1e-6)
    colour = np.random.rand(1, 2, 2, 3)
    np.testing.assert_allclose(
        match_images(colour, (2, 2, 1)), colour.mean(-1, keepdims=True), rtol=1e-6
    )
    grey = np.random.rand(1, 2, 2, 1)
    np.testing.assert_allclose(
        match_images(grey, (2, 2, 3)), np.concatenate([grey] * 3, -1), rtol=1e-6
    )


PRIVATE = np.random.default_rng(1).random((100, 3, 2)).astype(np.float32)
PUBLIC = np.random.default_rng(2).random((10, 3, 2)).astype(np.float32)


@each(
    "public,error,match",
    [
        (PUBLIC[:, :2], ValueError, r"\[10, 2, 2\] and private_x \[100, 3, 2\]"),
        (PUBLIC[..., None], ValueError, "match_images"),
        ((PUBLIC * 255).astype(np.uint8), TypeError, "uint8 and float32"),
        (PUBLIC[:1], ValueError, "at least 2 rows, got 1"),
        (PUBLIC[:0], ValueError, "at least 2 rows, got 0"),
        (PUBLIC * np.nan, ValueError, "finite values in public_x"),
        (np.concatenate([PUBLIC, PRIVATE[[99, 0]]]), ValueError, r"2 of 12 .* \[10, 11\]"),
        (
            np.concatenate([PUBLIC, PRIVATE[[5]], PRIVATE[[5]]]),
            ValueError,
            r"2 of 12 .* \[10, 11\]",
        ),
        (np.concatenate([PUBLIC, PRIVATE[:7]]).astype(np.float64), ValueError, "7 of 17"),
    ],
)
def test_bad_public_batches(public, error, match):
    with pytest.raises(error, match=match):
        check_public_batch(public, PRIVATE)


def test_overlap_is_found_between_precisions_and_signs_of_zero():
    private = np.random.default_rng(3).random((20, 4))
    for public, own in (
        (private[:3].astype(np.float32), private),
        (private[:3], private.astype(np.float32)),
    ):
        with pytest.raises(ValueError, match="3 of 3"):
            check_public_batch(public, own)
    with pytest.raises(ValueError, match="1 of 2"):
        check_public_batch(np.array([[-0.0, 1.0], [2.0, 2.0]]), np.array([[0.0, 1.0]]))
    check_public_batch(PUBLIC.astype(np.float64), PRIVATE)


def test_rows_of_several_inputs_are_compared_together():
    flags = np.arange(100).reshape(-1, 1) % 2
    private = {"x": PRIVATE, "flag": flags}
    public = {"flag": flags[:10], "x": PUBLIC}
    check_public_batch(public, private)
    assert unlike_public(private, public).all()
    public["x"] = np.concatenate([PUBLIC[:-2], PRIVATE[[1, 0]]])  # with its own flag 0, and 1
    with pytest.raises(ValueError, match=r"got 1 of 10 public .* first row\(s\) \[9\] of public_x"):
        check_public_batch(public, {"x": PRIVATE, "flag": np.ones_like(flags)})
    assert np.flatnonzero(~unlike_public(private, public)).size == 0
    public["flag"] = 1 - public["flag"]
    assert np.flatnonzero(~unlike_public(private, public)).tolist() == [0, 1]


@each("of_public, of_private", [("f4", "f8"), ("f8", "f4"), ("i4", "i8")])
def test_rows_equal_to_a_public_row_are_left_out(of_public, of_private):
    private = np.arange(24).reshape(8, 3) / (1 if of_private == "i8" else 7)
    private[5] = private[2]
    private[6] = 0
    private = private.astype(of_private)
    public = np.stack([private[2], -0.0 * private[0]]).astype(of_public)
    kept = unlike_public(private, public)
    assert kept.tolist() == [True, True, False, True, True, False, False, True]
    check_public_batch(public, private[kept])


def test_the_check_looks_at_each_row_once(monkeypatch):
    """No public row is compared with every private one, which would take minutes for MNIST."""
    private = np.random.default_rng(0).random((60_000, 28, 28, 1), dtype=np.float32)
    seen, row_bytes = collections.Counter(), arrays.row_bytes

    def counted(array, dtype):
        for row in row_bytes(array, dtype):
            seen[len(array)] += 1
            yield row

    monkeypatch.setattr(arrays, "row_bytes", counted)
    check_public_batch(private[:256] + 2, private)
    assert seen == {256: 256, 60_000: 60_000}


@each(
    "call,error,match",
    [
        (lambda: take_public_batch(numbered(50), 1, seed=0), ValueError, "variance 0"),
        (lambda: take_public_batch(numbered(50), 51, seed=0), ValueError, "got 51"),
        (lambda: take_public_batch(numbered(5), 2, seed=-1), ValueError, "seed"),
        (lambda: take_public_batch(numbered(5), 2, seed=0.5), TypeError, "seed"),
        (lambda: split_public(numbered(50), 1, 0), ValueError, "at least 2"),
        (lambda: split_public(numbered(50), 50, 0), ValueError, "got 50"),
        (lambda: match_images(np.zeros((2, 4, 4, 1), np.uint8), (4, 4, 1)), TypeError, "float"),
        (lambda: match_images(np.zeros((2, 4, 4)), (4, 4, 1)), ValueError, "newaxis"),
        (lambda: match_images(np.zeros((2, 4, 4, 1)), (4, 4)), ValueError, "newaxis"),
        (lambda: match_images(np.zeros((2, 4, 4, 2)), (4, 4, 3)), ValueError, "got 2"),
        (lambda: match_images(np.zeros((2, 4, 4, 1)), (0, 4, 1)), ValueError, ">= 1"),
        (lambda: check_public_batch((PUBLIC,), (PRIVATE, PRIVATE)), ValueError, "for each of 2"),
        (
            lambda: check_public_batch((PUBLIC, PUBLIC[:5]), (PRIVATE, PRIVATE)),
            ValueError,
            "for each of 2",
        ),
    ],
)
def test_hostile_arguments(call, error, match):
    with pytest.raises(error, match=match):
        call()
