"""The data of an experiment: private training rows, test rows, public rows."""

import dataclasses

import numpy as np

from tfdpnorm.data import load_examples, match_images, split_public, take_public_batch


@dataclasses.dataclass(frozen=True)
class ExperimentData:
    """The arrays of one run.

    Attributes:
        train_x: [N, ...] private rows.
        train_y: [N] labels.
        test_x: [N_test, ...].
        test_y: [N_test].
        public_x: [M, ...] public rows, or None.
        num_classes: Number of labels.
        scale: "full", or what was left out.
        public_source: Where the public rows come from, in words; None without them.
    """

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    public_x: np.ndarray | None
    num_classes: int
    scale: str
    public_source: str | None

    @property
    def num_examples(self):
        """N, the number of private examples."""
        return len(self.train_x)


# LeNet-5 needs at least 12x12; DIGITS has 8x8.
_IMAGE_SHAPES = {"digits": (28, 28, 1)}


def load_experiment_data(spec, data_dir=None):
    """Loads what an `ExperimentSpec` asks for.

    Args:
        spec: `ExperimentSpec`.
        data_dir: TFDS directory, or None for its default.

    Raises:
        DatasetNotFoundError: if a set is not there and cannot be downloaded.
        ValueError: if there are too few public rows.
    """
    train = load_examples(spec.dataset, "train", data_dir)
    test = load_examples(spec.dataset, "test", data_dir)
    left_out = [] if train.is_complete else [f"{len(train.x)} training examples at hand"]
    public_x = source = None
    if spec.public_dataset == "split":
        # Taken out for every norm, so that all are trained on the same private rows.
        public, train = split_public(train, spec.public_batch_size, seed=spec.seed)
        public_x = public.x
        source = f"{len(public_x)} images split off from {spec.dataset} and not trained on"
    elif spec.needs_public_rows:
        public = load_examples(spec.public_dataset, "train", data_dir)
        public_x = take_public_batch(public, spec.public_batch_size, seed=spec.seed)
        source = f"{len(public_x)} images of {spec.public_dataset}"
    train_x, train_y = train.x, train.y
    if spec.max_examples is not None and spec.max_examples < len(train_x):
        left_out.append(f"first {spec.max_examples} of {len(train_x)} training examples")
        train_x, train_y = train_x[: spec.max_examples], train_y[: spec.max_examples]
    shape = _IMAGE_SHAPES.get(spec.dataset, train_x.shape[1:])
    if public_x is not None:
        public_x = match_images(public_x, shape)
    return ExperimentData(
        train_x=match_images(train_x, shape),
        train_y=train_y,
        test_x=match_images(test.x, shape),
        test_y=test.y,
        public_x=public_x if spec.needs_public_rows else None,
        num_classes=train.num_classes,
        scale="; ".join(left_out) or "full",
        public_source=source,
    )
