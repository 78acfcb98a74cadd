"""Rows that are looked at while a run trains: private ones that are held out, or public ones."""

import dataclasses

from tfdpnorm.data import known_names, match_images, split_public, take_public_examples

# Known sets whose labels mean the same.
_OF_ONE_KIND = ({"digits", "mnist"},)


def validation_rows(spec, train, source, data_dir=None):
    """Chooses the rows to look at during training, by row number and seed alone.

    Args:
        spec: Spec of the run.
        train: `Examples` to train on.
        source: Function from the name of a set, its split and `data_dir` to `Examples`.
        data_dir: TFDS directory.

    Returns:
        Triple: `Examples` to look at, or None; `Examples` to train on; what was left out of these,
        in words, or None.

    Raises:
        ValueError: if there are too few, or if public rows are known to have other classes than the
            private ones.
    """
    plateau = getattr(spec, "plateau", "none")
    if plateau == "public":
        _check_labels(spec.plateau_dataset, spec.dataset)
        public = source(spec.plateau_dataset, "train", data_dir)
        return _public(spec, train, public), train, None
    if plateau == "private":
        _check_enough(spec, len(train) - 1, f"{spec.dataset}, one of which is to be trained on")
        rows, train = split_public(train, spec.plateau_examples, seed=spec.seed)
        return rows, train, f"{len(rows)} training examples kept for plateaus, not trained on"
    if getattr(spec, "validation_examples", 0):
        return *split_public(train, spec.validation_examples, seed=spec.seed), None
    return None, train, None


def _check_labels(public, private):
    """Raises ValueError for a known set whose labels mean other things than the private ones."""
    if public in known_names() and not any({public, private} <= kind for kind in _OF_ONE_KIND):
        raise ValueError(
            f"Expected plateau_dataset with the classes of {private}, got {public}, whose labels "
            "mean other things. Name a folder of images, train/<class>/*.png, or a CSV file."
        )


def _check_enough(spec, available, of):
    if spec.plateau_examples > available:
        raise ValueError(
            f"Expected plateau_examples of at most {available}, the examples of {of}, got "
            f"{spec.plateau_examples}."
        )


def _public(spec, train, public):
    is_text = train.x.dtype == object
    if public.num_classes != train.num_classes or (public.x.dtype == object) != is_text:
        raise ValueError(
            f"Expected plateau_dataset with {train.num_classes} classes of "
            f"{'texts' if is_text else 'images'}, those of {spec.dataset}, got "
            f"{spec.plateau_dataset} with {public.num_classes}. Name public examples of the same "
            "classes."
        )
    _check_enough(spec, len(public), spec.plateau_dataset)
    try:
        public = public.labelled_as(train)
    except ValueError as error:
        raise ValueError(f"{error} Name the folders of plateau_dataset as the classes.") from None
    rows = take_public_examples(public, spec.plateau_examples, seed=spec.seed)
    if is_text:
        return rows
    return dataclasses.replace(rows, x=match_images(rows.x, train.x.shape[1:]))
