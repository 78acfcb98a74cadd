"""The workloads: models of the library, and random rows for them.

Nothing but NumPy is imported here, so that peers can run where TensorFlow is not installed.
"""

from typing import NamedTuple

import numpy as np


class Workload(NamedTuple):
    """A model and the shape of its data.

    Attributes:
        norm: Its normalisation, for `tfdpnorm.models.build`; other options are the family's own.
        input_shape: Shape of one example.
        num_classes: Number of logits.
        parameters: Number of trained numbers; the same in every framework.
        vocabulary_size: Number of token ids, or None for inputs that are real numbers.
        family: Its name in `tfdpnorm.models`, or None if that is the workload's.
        private_norm: The normalisation in its place that can be trained privately, or None if
            `norm` can. Such a workload is of this library's engines only.
        public_rows: Number of public rows that `private_norm` takes.
    """

    norm: str
    input_shape: tuple
    num_classes: int
    parameters: int
    vocabulary_size: int | None = None
    family: str | None = None
    private_norm: str | None = None
    public_rows: int = 0


WORKLOADS = {
    "lenet5": Workload("none", (28, 28, 1), 10, 61_706),
    "lenet5_batch": Workload(
        "batch",
        (28, 28, 1),
        10,
        61_932,
        family="lenet5",
        private_norm="public_batch",
        public_rows=128,
    ),
    "mlp": Workload("none", (784,), 10, 795_010),
    "resnet9": Workload("group", (32, 32, 3), 10, 2_447_946),
    "wrn_16_4": Workload("group", (32, 32, 3), 10, 2_752_506),
    "bilstm": Workload("none", (64,), 4, 1_084_996, vocabulary_size=10_000),
    "transformer": Workload("layer", (64,), 4, 326_788, vocabulary_size=1_000),
}


def random_rows(name, batch_size, seed=0):
    """Returns NumPy inputs [batch_size, ...] (float32, or int32 ids without padding) and labels."""
    workload = WORKLOADS[name]
    rng = np.random.default_rng(seed)
    shape = (batch_size, *workload.input_shape)
    if workload.vocabulary_size is None:
        x = rng.random(shape, np.float32)
    else:
        x = rng.integers(1, workload.vocabulary_size, shape, np.int32)
    return x, rng.integers(0, workload.num_classes, batch_size, np.int32)
