"""The data of a run by their numbers and shapes alone: nothing is loaded, computed or trained."""

import dataclasses

import numpy as np

from tfdpnorm.data.examples import Examples
from trainers.data.catalogue import SOURCES, counted, official_size
from trainers.data.images import sizes_of
from trainers.runs import data as loading
from trainers.runs import pretraining


@dataclasses.dataclass(frozen=True)
class Rows:
    """Stands for an array [N, ...] that is not loaded."""

    shape: tuple
    dtype: np.dtype

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, rows):
        return Rows((len(rows), *self.shape[1:]), self.dtype)

    @property
    def ndim(self):
        """How many axes the array has."""
        return len(self.shape)


def outline(spec, data_dir=None):
    """Returns the `ExperimentData` of a spec with `Rows` in place of loaded data.

    N is the largest that it may be: rows that equal public ones are known once they are loaded.
    """

    def load(name, split, data_dir=None):
        return _outlined(name, split, data_dir, spec)

    chosen = loading.choose(spec, load, load, data_dir)
    of_rows, more = _network_rows(spec, chosen.train, data_dir)
    left_out = None
    if spec.is_pretrained:
        left_out = pretraining.left_out(spec, counted(spec.pretraining_dataset, "train", data_dir))
    public = chosen.public
    if spec.kind == "private" and spec.needs_public_rows:
        public = chosen.synthetic
        if public is None or spec.finetuning.is_imported or spec.is_pretrained:
            public = _some(Rows((spec.public_batch_size, *of_rows.shape[1:]), of_rows.dtype))
    looked_at = chosen.looked_at
    return loading.ExperimentData(
        train_x=of_rows,
        train_y=chosen.train.y,
        persons=None if spec.drawn_per_person is None else chosen.train.persons,
        test_y=chosen.test.y,
        public_x=public,
        num_classes=chosen.train.num_classes,
        scale=loading.scale_of(spec, chosen.notes, left_out),
        public_source=chosen.public_source,
        validation_x=None if looked_at is None else _some(of_rows[looked_at.y]),
        validation_y=None if looked_at is None else looked_at.y,
        **more,
    )


def _outlined(name, split, data_dir, spec):
    """`Examples` of a set whose rows are not loaded, and whose labels are all 0."""
    is_complete, persons = True, None
    if name in SOURCES:
        count, shape = counted(name, split, data_dir), SOURCES[name].shape
        classes = SOURCES[name].num_classes
        is_complete = count == official_size(name, split)
    else:
        feature = spec.person_feature if name == spec.dataset else None
        count, shape, classes, persons = sizes_of(
            name, split, image_size=spec.image_size, person_feature=feature
        )
    kind = np.dtype(object if shape is None else np.float32)
    rows = Rows((count, *(shape or ())), kind)
    y = np.zeros(count, np.int32)
    return Examples(name, split, rows, y, classes, is_complete, persons=persons)


def _network_rows(spec, train, data_dir):
    """Pair: `Rows` as what is trained takes them, and what `ExperimentData` holds besides."""
    own = train.x.shape[1:]
    if spec.finetuning.is_imported:
        from trainers.runs import finetune

        part = finetune.imported_parts(spec)
        finetune.check_images(part.frozen or part.trained, train.x, spec.image_size)
        shape = finetune.rows_shape(spec, part, own)
        more = {"pretrained": finetune.said_of(spec, part, own), "foreign": part.foreign}
        if part.trained is None and spec.finetuning.feature_scaling == "public":
            more["model_options"] = {"constants": ([0.0] * part.features, [1.0] * part.features)}
        return Rows((len(train), *shape), np.dtype(np.float32)), more
    if train.x.dtype == object:
        _, more = loading.row_maker(spec, train)
        return Rows((len(train), spec.sequence_length), np.dtype(np.int32)), more
    shape = loading.image_shape(spec, own)
    if not spec.is_pretrained:
        return Rows((len(train), *shape), train.x.dtype), {}
    said = pretraining.said_of(spec, counted(spec.pretraining_dataset, "train", data_dir))
    more = {"model_options": {"part": "head"}, "pretrained": said}
    return Rows((len(train), *pretraining.features_shape(spec, shape)), train.x.dtype), more


def _some(rows):
    """An array in the place of rows that a model has to be given."""
    rng = np.random.default_rng(0)
    if rows.dtype.kind == "f":
        return rng.random(rows.shape, np.float32)
    return rng.integers(1, 3, rows.shape, rows.dtype)
