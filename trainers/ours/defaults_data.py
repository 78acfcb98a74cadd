"""The networks and data of trainings with suggested settings alone."""

import dataclasses
from typing import NamedTuple

import numpy as np
from tensorflow import keras

from tfdpnorm import models
from tfdpnorm.data import match_images
from tfdpnorm.keras_compat.devices_and_precision import made_under
from trainers.data.sources import load_examples
from trainers.davody import cells as davody
from trainers.ours import finetune_cells as finetune
from trainers.ours.method_cells import digits_spec
from trainers.runs.build import build_network
from trainers.runs.data import load_experiment_data
from trainers.specs.training import CACHE_DIR

# The network of the cell of DIGITS that is named otherwise than its normalisation.
SYNTHETIC = "public_batch-synthetic"


class Task(NamedTuple):
    """The Keras model, not private, that a run trains, and pairs of arrays (x, y)."""

    network: keras.Model
    train: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]


def load_task(run, precision="float32", *, data_dir=None, cache_dir=CACHE_DIR):
    """Returns the `Task` of a `DefaultsRun`: the network and the data of the cell searched for.

    Features of images are kept in `cache_dir`.
    """
    if run.dataset in ("ag_news", "cifar10_features"):
        spec = dataclasses.replace(_spec(run), seed=run.seed, precision=precision)
        data = load_experiment_data(spec, data_dir, cache_dir=cache_dir)
        network = build_network(spec, data)
        return Task(network, (data.train_x, data.train_y), (data.test_x, data.test_y))
    train, test = (load_examples(run.dataset, s, data_dir) for s in ("train", "test"))
    return lenet5_task(run, train, test, precision)


def lenet5_task(run, train, test, precision="float32"):
    """Returns the `Task` of LeNet-5 on images; the arguments are `Examples`, else as `load_task`.

    Activation and pooling are those of the searched cell; KMNIST has those of MNIST.
    """
    # DIGITS at twice its size: LeNet-5 needs 12 pixels.
    shape = tuple(max(size, 16) for size in train.x.shape[1:3]) + train.x.shape[3:]
    keras.utils.set_random_seed(run.seed)
    with made_under(precision):
        network = models.build(
            "lenet5",
            run.norm,
            num_classes=train.num_classes,
            input_shape=shape,
            **dict(_spec(run).model_options),
        )
    return Task(network, *((match_images(e.x, shape), e.y) for e in (train, test)))


def _spec(run):
    if run.dataset == "digits":
        return digits_spec(SYNTHETIC if run.norm == "public_batch" else run.norm, 1.0)
    if run.dataset == "cifar10_features":
        return finetune.spec("cifar10", 1.0, norm=run.norm, **finetune.LAST_LAYERS)
    return davody.spec("ag_news" if run.dataset == "ag_news" else "mnist", run.norm, 1.0)
