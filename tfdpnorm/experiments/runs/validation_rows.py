"""Rows that are looked at while a run trains: private ones that are held out, or public ones."""

import dataclasses

from tfdpnorm.data import match_images, split_public, take_public_examples
from tfdpnorm.experiments.parts import HeldOut, Plateau


def validation_rows(spec, train, load):
    """Chooses the rows to look at during training, by row number and seed alone.

    Args:
        spec: Spec of the run.
        train: `Examples` to train on.
        load: Function from the name of a set to its training `Examples`.

    Returns:
        Triple: `Examples` to look at, or None; `Examples` to train on; what was left out of these,
        in words, or None.

    Raises:
        ValueError: if there are too few, or if public rows have other classes than the private.
    """
    plateau = spec.plateau if isinstance(spec, Plateau) else "none"
    if plateau == "public":
        return _public(spec, train, load(spec.plateau_dataset)), train, None
    if plateau == "private":
        rows, train = split_public(train, spec.plateau_examples, seed=spec.seed)
        return rows, train, f"{len(rows)} training examples kept for plateaus, not trained on"
    if isinstance(spec, HeldOut) and spec.validation_examples:
        return *split_public(train, spec.validation_examples, seed=spec.seed), None
    return None, train, None


def _public(spec, train, public):
    is_text = train.x.dtype == object
    if public.num_classes != train.num_classes or (public.x.dtype == object) != is_text:
        raise ValueError(
            f"Expected plateau_dataset with {train.num_classes} classes of "
            f"{'texts' if is_text else 'images'}, those of {spec.dataset}, got "
            f"{spec.plateau_dataset} with {public.num_classes}. Name public examples of the same "
            "classes."
        )
    rows = take_public_examples(public, spec.plateau_examples, seed=spec.seed)
    if is_text:
        return rows
    return dataclasses.replace(rows, x=match_images(rows.x, train.x.shape[1:]))
