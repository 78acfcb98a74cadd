"""The data of a run: training rows, test rows, public rows, and those looked at meanwhile."""

import dataclasses
import functools
import pathlib
from typing import NamedTuple

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
from tfdpnorm.data.examples import Examples
from tfdpnorm.data.persons import check_rows_per_person
from tfdpnorm.data.synthetic import is_synthetic
from tfdpnorm.privacy.caveats import caveat
from trainers.data.catalogue import known_names
from trainers.data.images import load_labelled, warn_of_trained_on
from trainers.data.sources import load_examples
from trainers.runs.build import plan_of
from trainers.runs.pretraining import frozen_features
from trainers.specs.training import CACHE_DIR

PRIVATE_VOCABULARY = (
    "the vocabulary was counted in the private texts without noise, and every row depends on it"
)


@dataclasses.dataclass(frozen=True)
class ExperimentData:
    """The arrays of one run: rows [N, ...] and labels [N], and what is to be said of them."""

    train_x: np.ndarray  # private if anything is
    train_y: np.ndarray
    num_classes: int
    test_x: np.ndarray | None = None  # where nothing is tested
    test_y: np.ndarray | None = None
    public_x: np.ndarray | SyntheticRows | None = None  # the latter are made for the model
    scale: str = "full"  # or what was left out
    public_source: str | None = None  # of the public rows, in words
    validation_x: np.ndarray | None = None  # looked at during training: held out of it, or public
    validation_y: np.ndarray | None = None
    model_options: dict = dataclasses.field(default_factory=dict)  # that these data need
    pretrained: str | None = None  # what was trained on public data, in words
    no_guarantee_because: tuple = ()  # reasons, in the data
    foreign: tuple = ()  # of `Caveat`, on what imported weights have seen, and on features
    persons: np.ndarray | None = None  # [N] whose each row is, where persons are sampled

    @property
    def num_examples(self):
        """N, the number of training examples: of rows, or of persons where these are sampled."""
        return len(self.train_x) if self.persons is None else len(np.unique(self.persons))


# LeNet-5 needs at least 12x12; DIGITS has 8x8.
_IMAGE_SHAPES = {"digits": (28, 28, 1)}
_TAKE_SMALL_IMAGES = ("mlp", "random_features", "small_cnn")


def load_experiment_data(spec, data_dir=None, *, cache_dir=CACHE_DIR, echo=print):
    """Loads what a spec asks for, as its network or the trained part of it takes it.

    `cache_dir` is the folder for pre-trained networks, and for what frozen parts give; that of
    private images is as private as these. `echo` shows a line, should something have to be computed
    or said first. What is missing, or does not fit, is rejected.
    """
    is_imported = spec.finetuning.is_imported
    load, load_public = load_examples, load_labelled
    if is_imported:
        load_public = functools.partial(load_labelled, image_size=spec.image_size)
        load = functools.partial(load_public, person_feature=spec.person_feature)
    chosen = choose(spec, load, load_public, data_dir, echo)
    train, test, looked_at = chosen.train, chosen.test, chosen.looked_at
    if is_imported and spec.dataset not in known_names():
        warn_of_trained_on(test, train)
    if is_imported or spec.is_pretrained:
        # Before hours of features are computed.
        plan_of(spec, len(train) if spec.drawn_per_person is None else train.num_persons)
    shape = train.x.shape[1:]
    raw = {
        "train_x": train.x,
        "test_x": test.x,
        "public_x": chosen.public,
        "validation_x": None if looked_at is None else looked_at.x,
    }
    if looked_at is not None and looked_at.x.dtype != object:  # public ones may have another shape
        raw["validation_x"] = match_images(looked_at.x, shape)
    places = dict(data_dir=data_dir, cache_dir=cache_dir, echo=echo)
    if is_imported:
        from trainers.runs.finetune import prepared

        if chosen.synthetic is not None:
            raw["public_x"] = chosen.synthetic.rows(shape)
        (arrays, more), left_out = prepared(spec, raw, **places), None
    else:
        arrays, more, left_out = _prepared(spec, train, raw, chosen.synthetic, test.y, places)
    labels, persons = train.y, None if spec.drawn_per_person is None else train.persons
    if chosen.public is not None and spec.public_dataset == "split":
        kept = unlike_public(arrays["train_x"], arrays["public_x"])
        arrays["train_x"], labels = arrays["train_x"][kept], labels[kept]
        persons = None if persons is None else persons[kept]
    return ExperimentData(
        **arrays,
        **more,
        train_y=labels,
        persons=persons,
        test_y=test.y,
        validation_y=None if looked_at is None else looked_at.y,
        num_classes=train.num_classes,
        scale=scale_of(spec, chosen.notes, left_out),
        public_source=chosen.public_source,
    )


def scale_of(spec, notes, pretraining=None):
    """Returns what of a run is smaller than in the paper, or another, in words; or "full"."""
    return "; ".join(filter(None, [*notes, pretraining, spec.reduced])) or "full"


class Chosen(NamedTuple):
    """The parts of data sets that a run uses, as loaded: `Examples` to train, test and look at.

    `public` are [M, ...] public rows, or `synthetic` ones in their place; `notes` say what was left
    out of them.
    """

    train: Examples
    test: Examples
    looked_at: Examples | None
    public: np.ndarray | None
    synthetic: SyntheticRows | None
    public_source: str | None
    notes: tuple


def choose(spec, load, load_public, data_dir=None, echo=print):
    """Chooses the examples of a run by their numbers and the seed: `Chosen`.

    Where they have persons, these are chosen, each with all of their examples. `load` gives
    `Examples` for the name of a set, its split and `data_dir`; `load_public` as well, for public
    examples to look at.
    """
    is_private = spec.kind == "private"
    train = load(spec.dataset, "train", data_dir)
    if train.persons is not None and spec.stated_per_person is not None:
        check_rows_per_person(train.persons, spec.stated_per_person)
    if not spec.finetuning.is_imported:
        _check_fits(spec, is_text=train.x.dtype == object)
    notes = [] if train.is_complete else [f"{len(train.x)} training examples at hand"]
    notes += [f"from {train.origin}"] if train.origin else []
    public = public_source = synthetic = None
    if is_private and is_synthetic(spec.public_dataset):
        synthetic, public_source = synthetic_rows(spec)
    elif is_private:
        public, train, public_source = _public_rows(spec, train, load, data_dir)
    if spec.max_examples is not None and spec.max_examples < train.num_persons:
        whole, train = train, train.take_persons(np.arange(spec.max_examples))
        notes.append(f"first {_size(train)} of {_size(whole)} training examples")
    elif spec.max_examples is not None and spec.max_examples > train.num_persons:
        echo(
            f"max_examples={spec.max_examples:,} is more than the {train.num_persons:,} there are: "
            "all are used"
        )
    looked_at, train, note = validation_rows(spec, train, load_public, data_dir)
    test, train, note_on_test = _tested(spec, train, load, data_dir)
    notes = tuple(filter(None, [*notes, note, note_on_test]))
    return Chosen(train, test, looked_at, public, synthetic, public_source, notes)


def _tested(spec, train, load, data_dir):
    """Triple: `Examples` to test on, `Examples` to train on, and what was left out of these."""
    if spec.held_out is None:
        return load(spec.dataset, "test", data_dir), train, None
    if spec.held_out >= train.num_persons:
        raise ValueError(
            f"Expected held_out below {train.num_persons}, the training examples of "
            f"{spec.dataset}, got {spec.held_out}."
        )
    tested, train = split_public(train, spec.held_out, seed=spec.seed)
    return tested, train, f"{_size(tested)} training examples held out, whose accuracy it is"


def _size(examples):
    """How many examples there are, and of how many persons if that is known, in words."""
    if examples.persons is None:
        return f"{len(examples)}"
    return f"{examples.num_persons} persons with {len(examples)}"


def _prepared(spec, train, raw, synthetic, tested_y, places):
    """Arrays for the network, what `ExperimentData` holds besides, what pre-training lacked."""
    rows, more = row_maker(spec, train)
    arrays = {name: None if x is None else rows(x) for name, x in raw.items()}
    if not spec.is_pretrained:
        return (arrays if synthetic is None else arrays | {"public_x": synthetic}), more, None
    if synthetic is not None:
        arrays["public_x"] = synthetic.rows(arrays["train_x"].shape[1:])
    arrays, what, left_out = frozen_features(spec, arrays, tested_y=tested_y, **places)
    more = {"model_options": {"part": "head"}, "pretrained": what}
    return arrays, {**more, "foreign": (caveat("given_features"),)}, left_out


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
    if spec.is_pretrained and "part" not in takes:
        raise ValueError(
            "Expected a network with parts to freeze (small_cnn, tf_tutorial, vgg) with "
            f"pretraining_dataset={spec.pretraining_dataset!r}, got model {spec.model!r}."
        )


def _public_rows(spec, train, load, data_dir):
    """Triple (public rows or None, private `Examples`, where the public rows come from)."""
    kind = "texts" if train.x.dtype == object else "images"
    if spec.public_dataset == "split":
        # Taken out for every norm, so that all are trained on the same private rows.
        public, train = split_public(train, spec.public_batch_size, seed=spec.seed)
        if public.persons is not None:  # One of each: rows of a person are much alike.
            public = public.take(np.unique(public.persons, return_index=True)[1])
        source = (
            f"{len(public)} {kind} split off from {spec.dataset} and not trained on, nor what "
            "equals them"
        )
        return (public.x if spec.needs_public_rows else None), train, source
    if not spec.needs_public_rows:
        return None, train, None
    public = load(spec.public_dataset, "train", data_dir)
    x = take_public_batch(public, spec.public_batch_size, seed=spec.seed)
    return x, train, f"{len(x)} {kind} of {spec.public_dataset}"


def synthetic_rows(spec):
    """Returns the pair (`SyntheticRows` or None, where the public rows come from)."""
    if not spec.needs_public_rows:
        return None, None
    rows = SyntheticRows.named(spec.public_dataset, count=spec.public_batch_size, seed=spec.seed)
    return rows, str(rows)


def row_maker(spec, train):
    """Returns how rows are made for a spec's network, which is not imported.

    That is a function from raw rows to the network's, and a dict of what `ExperimentData` holds
    besides.
    """
    if train.x.dtype != object:
        return (lambda x: match_images(x, image_shape(spec, train.x.shape[1:]))), {}
    more = {"model_options": {"vocabulary_size": spec.vocabulary_size}}
    if spec.vocabulary == "hashed":
        return (lambda x: hash_tokens(x, spec.vocabulary_size, spec.sequence_length)), more
    if spec.vocabulary == "private":
        more["no_guarantee_because"] = (PRIVATE_VOCABULARY,)

    @functools.cache
    def words():
        texts = train.x
        if spec.vocabulary == "public":
            try:
                texts = pathlib.Path(spec.vocabulary_file).read_text("utf-8", "replace")
            except OSError as error:
                raise OSError(
                    "Expected vocabulary_file to be a text file, got "
                    f"{spec.vocabulary_file}: {files.reason(error)}. Name another one."
                ) from error
            texts = texts.splitlines()
        return common_words(texts, spec.vocabulary_size)

    return (lambda x: word_ids(x, words(), spec.sequence_length)), more


def image_shape(spec, own):
    """The shape that the images of a set, of shape `own`, have for a spec's network."""
    if spec.image_size is not None:
        return (spec.image_size, spec.image_size, *own[2:])
    return own if spec.model in _TAKE_SMALL_IMAGES else _IMAGE_SHAPES.get(spec.dataset, own)


# --- rows that are looked at during training: held out, or public ---

# Known sets whose labels mean the same.
_OF_ONE_KIND = ({"digits", "mnist"},)


def validation_rows(spec, train, source, data_dir=None):
    """Chooses the rows to look at during training, by row number and seed alone.

    `source` gives `Examples` for the name of a set, its split and `data_dir`. Returns `Examples` to
    look at, or None; those to train on; what was left out of these, in words, or None.
    """
    if spec.plateau == "public":
        both = {spec.plateau_dataset, spec.dataset}
        if spec.plateau_dataset in known_names() and not any(both <= k for k in _OF_ONE_KIND):
            raise ValueError(
                f"Expected plateau_dataset with the classes of {spec.dataset}, got "
                f"{spec.plateau_dataset}, whose labels have another meaning. Name a folder of "
                "images, train/<class>/*.png, or a CSV file."
            )
        public = source(spec.plateau_dataset, "train", data_dir)
        return _public(spec, train, public), train, None
    if spec.plateau == "private":
        of = f"{spec.dataset}, one of which is to be trained on"
        _check_enough(spec, train.num_persons - 1, of)
        rows, train = split_public(train, spec.plateau_examples, seed=spec.seed)
        return rows, train, f"{_size(rows)} training examples kept for plateaus, not trained on"
    if spec.validation_examples:
        return *split_public(train, spec.validation_examples, seed=spec.seed), None
    return None, train, None


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
    return take_public_examples(public, spec.plateau_examples, seed=spec.seed)
