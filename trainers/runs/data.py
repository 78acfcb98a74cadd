"""The data of a run: private training rows, test rows, public rows. All are loaded here."""

import dataclasses
import pathlib

import numpy as np

from tfdpnorm import files, models
from tfdpnorm.data import (
    SyntheticRows,
    common_words,
    hash_tokens,
    load_examples,
    match_images,
    split_public,
    take_public_batch,
    unlike_public,
    word_ids,
)
from tfdpnorm.data.images import load_labelled
from tfdpnorm.data.synthetic import is_synthetic
from trainers.parts import Pretraining, PublicRows, ScoredOn
from trainers.runs.pretraining import CACHE_DIR, frozen_features
from trainers.runs.validation_rows import validation_rows

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


def load_experiment_data(
    spec, data_dir=None, *, cache_dir=CACHE_DIR, echo=print, source=None, prepare=None
):
    """Loads what a spec asks for.

    Args:
        spec: Spec with the parts `Network`, `TrainingSet`, `Texts` and `Cell`; the other parts
            that say what to load are `PublicRows`, `HeldOut` and `Pretraining`.
        data_dir: TFDS directory, or None for its default.
        cache_dir: Folder for pre-trained networks and their features.
        echo: Function that shows a line, should something have to be pre-trained.
        source: Function from the name of a set, its split and `data_dir` to `Examples`; None for
            `load_examples`.
        prepare: Function from a dict of raw arrays (train_x, test_x, public_x, validation_x; some
            are None) to the pair of such a dict and of a dict of further fields of
            `ExperimentData`; None for what the networks of `tfdpnorm.models` take.

    Raises:
        DatasetNotFoundError: if a set is not there and cannot be downloaded.
        OSError: if the file of a public vocabulary cannot be read.
        ValueError: if there are too few public rows, or too few to hold any out.
    """
    load = source or load_examples
    train = load(spec.dataset, "train", data_dir)
    test = None
    if not _is_held_out(spec):  # nobody looks at it
        test = load(spec.dataset, "test", data_dir)
    if prepare is None:
        _check_fits(spec, is_text=train.x.dtype == object)
    left_out = [] if train.is_complete else [f"{len(train.x)} training examples at hand"]
    if train.origin:
        left_out.append(f"from {train.origin}")
    public = public_source = None
    made_up = None
    if isinstance(spec, PublicRows) and is_synthetic(spec.public_dataset):
        made_up, public_source = _made_up(spec)
    elif isinstance(spec, PublicRows):
        public, train, public_source = _public_rows(spec, train, data_dir)
    if spec.max_examples is not None and spec.max_examples < len(train.x):
        left_out.append(f"first {spec.max_examples} of {len(train.x)} training examples")
        train = train.take(np.arange(spec.max_examples))
    looked_at, train, kept_back = validation_rows(spec, train, source or load_labelled, data_dir)
    if kept_back:
        left_out.append(kept_back)
    if _is_held_out(spec):
        if spec.held_out >= len(train):
            raise ValueError(
                f"Expected held_out below {len(train)}, the training examples of {spec.dataset}, "
                f"got {spec.held_out}."
            )
        test, train = split_public(train, spec.held_out, seed=spec.seed)
        left_out.append(f"{spec.held_out} training examples held out, whose accuracy it is")
    raw = {
        "train_x": train.x,
        "test_x": test.x,
        "public_x": public,
        "validation_x": None if looked_at is None else looked_at.x,
    }
    if prepare is None:
        places = dict(data_dir=data_dir, cache_dir=cache_dir, echo=echo)
        arrays, more = _prepared(spec, train, raw, made_up, test.y, places)
    else:
        if made_up is not None:
            raw["public_x"] = made_up.rows(train.x.shape[1:])
        arrays, more = prepare(raw)
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
        scale="; ".join([*left_out, *([spec.reduced] if spec.reduced else [])]) or "full",
        public_source=public_source,
    )


def _prepared(spec, train, raw, made_up, tested_y, places):
    """Arrays that the spec's network takes, and what `ExperimentData` holds besides."""
    rows, more = _row_maker(spec, train)
    arrays = {name: None if x is None else rows(x) for name, x in raw.items()}
    if not _is_pretrained(spec):
        return arrays if made_up is None else arrays | {"public_x": made_up}, more
    if made_up is not None:
        arrays["public_x"] = made_up.rows(arrays["train_x"].shape[1:])
    arrays, what = frozen_features(spec, arrays, tested_y=tested_y, **places)
    return arrays, {"model_options": {"part": "head"}, "pretrained": what}


def _is_held_out(spec):
    return isinstance(spec, ScoredOn) and spec.held_out is not None


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
    return isinstance(spec, Pretraining) and spec.pretraining_dataset is not None


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


def _made_up(spec):
    """Pair (`SyntheticRows` or None, where the public rows come from)."""
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


# --- audits ---

_IMAGE, _WORDS = (28, 28, 1), (64,)
_FOR_COLOUR = ("resnet9", "resnet18", "resnet50", "tf_tutorial", "vgg", "wide_resnet", "wrn_16_4")
_AUDIT_SHAPES = {
    "bilstm": _WORDS,
    "transformer": _WORDS,
    **dict.fromkeys(_FOR_COLOUR, (32, 32, 3)),
}
_AUDIT_OPTIONS = {"mlp": {"hidden_units": (100,)}}
_BRIGHTNESS_LEVELS = 16


def load_audit_data(spec, count, data_dir=None):
    """Loads examples in the form that the model of a spec takes.

    Models of words get images as 64 words: the brightness of each pixel, in steps of a sixteenth.

    Args:
        spec: `AuditSpec`. Its public rows are split off whatever they are, so that the private
            rows are the same.
        count: How many private examples.
        data_dir: TFDS directory, or None for its default.

    Raises:
        DatasetNotFoundError: if the set is not there and cannot be downloaded.
        ValueError: if it has too few examples.
    """
    examples = load_examples(spec.dataset, "train", data_dir)
    public, private = split_public(examples, spec.public_batch_size, seed=spec.seed)
    if not 2 <= count <= len(private):
        raise ValueError(
            f"Expected 2 to {len(private)} private rows of {spec.dataset}, got {count}. Choose a "
            "smaller lot, or fewer canaries."
        )
    shape = _AUDIT_SHAPES.get(spec.model, _IMAGE)
    made_up = _made_up(spec)[0] if is_synthetic(spec.public_dataset) else None
    return ExperimentData(
        train_x=_inputs(private.x[:count], shape),
        train_y=private.y[:count],
        num_classes=examples.num_classes,
        public_x=made_up if made_up is not None else _inputs(public.x, shape),
        model_options=_AUDIT_OPTIONS.get(spec.model, {}),
    )


def _inputs(images, shape):
    if shape != _WORDS:
        return match_images(images, shape)
    side = int(np.sqrt(shape[0]))
    small = match_images(images, (side, side, 1)).reshape(len(images), -1)
    return np.rint(_BRIGHTNESS_LEVELS * small).astype(np.int32)
