"""The data of a run: training rows, test rows, public rows, and those looked at meanwhile."""

import dataclasses
import functools
import pathlib

import numpy as np

from tfdpnorm import files, models
from tfdpnorm.data import (
    SyntheticRows,
    common_words,
    hash_tokens,
    match_images,
    split_public,
    take_public_batch,
    take_public_examples,
    unlike_public,
    word_ids,
)
from tfdpnorm.data.synthetic import is_synthetic
from trainers.data.images import load_labelled
from trainers.data.sources import known_names, load_examples
from trainers.runs.pretraining import frozen_features
from trainers.specs.training import CACHE_DIR

PRIVATE_VOCABULARY = (
    "the vocabulary was counted in the private texts without noise, and every row depends on it"
)


@dataclasses.dataclass(frozen=True)
class ExperimentData:
    """The arrays of one run.

    Attributes:
        train_x: [N, ...] training rows, private if anything is.
        train_y: [N] labels.
        num_classes: Number of labels.
        test_x: [N_test, ...]; None where nothing is tested.
        test_y: [N_test].
        public_x: [M, ...] public rows; `SyntheticRows` if they are to be made for the model; or
            None.
        scale: "full", or what was left out.
        public_source: Where the public rows come from, in words; None without them.
        validation_x: [N_validation, ...] rows to look at during training, held out of the training
            rows or public, or None.
        validation_y: [N_validation], or None.
        model_options: Dict of options that the model needs for these data.
        pretrained: What was trained on public data, in words; None for nothing.
        no_guarantee_because: Tuple of reasons, in the data, why no guarantee holds.
        foreign: Tuple of `Caveat` on what imported weights have seen.
    """

    train_x: np.ndarray
    train_y: np.ndarray
    num_classes: int
    test_x: np.ndarray | None = None
    test_y: np.ndarray | None = None
    public_x: np.ndarray | SyntheticRows | None = None
    scale: str = "full"
    public_source: str | None = None
    validation_x: np.ndarray | None = None
    validation_y: np.ndarray | None = None
    model_options: dict = dataclasses.field(default_factory=dict)
    pretrained: str | None = None
    no_guarantee_because: tuple = ()
    foreign: tuple = ()

    @property
    def num_examples(self):
        """N, the number of training examples."""
        return len(self.train_x)


# LeNet-5 needs at least 12x12; DIGITS has 8x8.
_IMAGE_SHAPES = {"digits": (28, 28, 1)}
_TAKE_SMALL_IMAGES = ("mlp", "random_features", "small_cnn")


def load_experiment_data(spec, data_dir=None, *, cache_dir=CACHE_DIR, echo=print):
    """Loads what a spec asks for, as its network or the trained part of it takes it.

    Args:
        spec: Spec of a run, private or not.
        data_dir: TFDS directory, or None for its default.
        cache_dir: Folder for pre-trained networks, and for what frozen parts give; that of private
            images is as private as these.
        echo: Function that shows a line, should something have to be computed first.

    Raises:
        DatasetNotFoundError: if a set is not there and cannot be downloaded.
        FileNotFoundError: if the file of a model to import is not there.
        OSError: if the file of a public vocabulary cannot be read.
        ValueError: if there are too few public rows, or too few to hold any out, or for a model or
            images that do not fit.
    """
    is_private = spec.kind == "private"
    is_imported = is_private and spec.trainable is not None
    load, load_public = load_examples, load_labelled
    if is_imported:
        load = load_public = functools.partial(load_labelled, image_size=spec.image_size)
    train = load(spec.dataset, "train", data_dir)
    if not is_imported:
        _check_fits(spec, is_text=train.x.dtype == object)
    notes = [] if train.is_complete else [f"{len(train.x)} training examples at hand"]
    notes += [f"from {train.origin}"] if train.origin else []
    public = public_source = synthetic = None
    if is_private and is_synthetic(spec.public_dataset):
        synthetic, public_source = synthetic_rows(spec)
    elif is_private:
        public, train, public_source = _public_rows(spec, train, data_dir)
    if spec.max_examples is not None and spec.max_examples < len(train.x):
        notes.append(f"first {spec.max_examples} of {len(train.x)} training examples")
        train = train.take(np.arange(spec.max_examples))
    looked_at, train, note = validation_rows(spec, train, load_public, data_dir)
    test, train, note_on_test = _tested(spec, train, load, data_dir)
    notes += filter(None, [note, note_on_test, spec.reduced])
    raw = {
        "train_x": train.x,
        "test_x": test.x,
        "public_x": public,
        "validation_x": None if looked_at is None else looked_at.x,
    }
    places = dict(data_dir=data_dir, cache_dir=cache_dir, echo=echo)
    if is_imported:
        from trainers.runs.finetune import prepared

        if synthetic is not None:
            raw["public_x"] = synthetic.rows(train.x.shape[1:])
        arrays, more = prepared(spec, raw, **places)
    else:
        arrays, more = _prepared(spec, train, raw, synthetic, test.y, places)
    labels = train.y
    if public is not None and spec.public_dataset == "split":
        kept = unlike_public(arrays["train_x"], arrays["public_x"])
        arrays["train_x"], labels = arrays["train_x"][kept], labels[kept]
    return ExperimentData(
        **arrays,
        **more,
        train_y=labels,
        test_y=test.y,
        validation_y=None if looked_at is None else looked_at.y,
        num_classes=train.num_classes,
        scale="; ".join(notes) or "full",
        public_source=public_source,
    )


def _tested(spec, train, load, data_dir):
    """Triple: `Examples` to test on, `Examples` to train on, and what was left out of these."""
    held_out = getattr(spec, "held_out", None)
    if held_out is None:
        return load(spec.dataset, "test", data_dir), train, None
    if held_out >= len(train):
        raise ValueError(
            f"Expected held_out below {len(train)}, the training examples of {spec.dataset}, "
            f"got {held_out}."
        )
    note = f"{held_out} training examples held out, whose accuracy it is"
    return *split_public(train, held_out, seed=spec.seed), note


def _prepared(spec, train, raw, synthetic, tested_y, places):
    """Arrays that the spec's network takes, and what `ExperimentData` holds besides."""
    rows, more = _row_maker(spec, train)
    arrays = {name: None if x is None else rows(x) for name, x in raw.items()}
    if not _is_pretrained(spec):
        return arrays if synthetic is None else arrays | {"public_x": synthetic}, more
    if synthetic is not None:
        arrays["public_x"] = synthetic.rows(arrays["train_x"].shape[1:])
    arrays, what = frozen_features(spec, arrays, tested_y=tested_y, **places)
    return arrays, {"model_options": {"part": "head"}, "pretrained": what}


def _check_fits(spec, *, is_text):
    """Raises ValueError if the network, or a setting, is not for this kind of data."""
    takes = models.options(spec.model)
    if is_text != ("vocabulary_size" in takes):
        kind = "a network of words (bilstm, transformer)" if is_text else "a network of images"
        raise ValueError(f"Expected {kind} for dataset {spec.dataset}, got model {spec.model!r}.")
    if spec.vocabulary != "hashed" and not is_text:
        raise ValueError(
            f"Expected a vocabulary for texts only, got vocabulary={spec.vocabulary!r} for dataset "
            f"{spec.dataset}. Leave it out."
        )
    if _is_pretrained(spec) and "part" not in takes:
        raise ValueError(
            "Expected a network with parts to freeze (small_cnn, tf_tutorial, vgg) with "
            f"pretraining_dataset={spec.pretraining_dataset!r}, got model {spec.model!r}."
        )


def _is_pretrained(spec):
    return getattr(spec, "pretraining_dataset", None) is not None


def _public_rows(spec, train, data_dir):
    """Triple (public rows or None, private `Examples`, where the public rows come from)."""
    kind = "texts" if train.x.dtype == object else "images"
    if spec.public_dataset == "split":
        # Taken out for every norm, so that all are trained on the same private rows.
        public, train = split_public(train, spec.public_batch_size, seed=spec.seed)
        source = (
            f"{len(public)} {kind} split off from {spec.dataset} and not trained on, nor what "
            "equals them"
        )
        return (public.x if spec.needs_public_rows else None), train, source
    if not spec.needs_public_rows:
        return None, train, None
    public = load_examples(spec.public_dataset, "train", data_dir)
    x = take_public_batch(public, spec.public_batch_size, seed=spec.seed)
    return x, train, f"{len(x)} {kind} of {spec.public_dataset}"


def synthetic_rows(spec):
    """Returns the pair (`SyntheticRows` or None, where the public rows come from)."""
    if not spec.needs_public_rows:
        return None, None
    rows = SyntheticRows.named(spec.public_dataset, count=spec.public_batch_size, seed=spec.seed)
    return rows, str(rows)


def _row_maker(spec, train):
    """Pair (function from raw rows to the model's, what `ExperimentData` holds besides)."""
    if train.x.dtype != object:
        own = train.x.shape[1:]
        shape = own if spec.model in _TAKE_SMALL_IMAGES else _IMAGE_SHAPES.get(spec.dataset, own)
        return (lambda x: match_images(x, shape)), {}
    more = {"model_options": {"vocabulary_size": spec.vocabulary_size}}
    if spec.vocabulary == "hashed":
        return (lambda x: hash_tokens(x, spec.vocabulary_size, spec.sequence_length)), more
    if spec.vocabulary == "public":
        texts = _lines(spec.vocabulary_file)
    else:
        texts, more["no_guarantee_because"] = train.x, (PRIVATE_VOCABULARY,)
    words = common_words(texts, spec.vocabulary_size)
    return (lambda x: word_ids(x, words, spec.sequence_length)), more


def _lines(path):
    try:
        return pathlib.Path(path).read_text("utf-8", "replace").splitlines()
    except OSError as error:
        raise OSError(
            f"Expected vocabulary_file to be a text file, got {path}: "
            f"{files.reason(error)}. Name another one."
        ) from error


# --- rows that are looked at during training: held out, or public ---

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
