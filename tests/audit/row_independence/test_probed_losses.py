"""Sound losses and augmentations pass."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.audit.row_independence.sound_models import sequential
from tfdpnorm import audit

layers = keras.layers
pytestmark = pytest.mark.usefixtures("nothing_unchecked")


class TestLosses:
    LOSSES = [
        "mse",
        "sparse_categorical_crossentropy",
        keras.losses.MeanSquaredError(),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1),
        keras.losses.BinaryCrossentropy(),
        keras.losses.CategoricalFocalCrossentropy(),
        keras.losses.Huber(reduction="none"),
        keras.losses.CosineSimilarity(),
        lambda y, p: tf.reduce_sum(tf.abs(y - p), -1),
    ]

    @pytest.mark.parametrize("loss", LOSSES, ids=range(len(LOSSES)))
    def test_sound_ones_pass_without_targets_to_go_by(self, loss):
        report = audit.probe_loss(loss, tf.TensorSpec([None, 4]))
        assert (report.findings, report.unchecked) == ([], [])
        assert report.outputs.shape[0] == 4

    def test_several_outputs(self):
        predictions = {"a": tf.TensorSpec([None, 4]), "b": tf.TensorSpec([None, 7, 1])}
        report = audit.probe_loss(keras.losses.MeanSquaredError(), predictions)
        assert (report.findings, report.unchecked) == ([], [])

    def test_arrays(self):
        rng = np.random.default_rng(0)
        report = audit.probe_loss("mse", rng.random((9, 2)), rng.random((9, 2)))
        assert (report.findings, report.unchecked) == ([], [])

    def test_targets_alone_may_mix(self):
        def weighted(y, p):
            return tf.reduce_mean((y - p) ** 2, -1) / (1.0 + tf.reduce_mean(tf.abs(y)))

        found = audit.probe_loss(weighted, tf.TensorSpec([None, 2])).findings
        assert "values" in {finding.check for finding in found}

    def test_what_cannot_be_run_is_said(self):
        def broken(y, p):
            raise KeyError("no such column")

        with pytest.warns(UserWarning, match="the loss in training: .*no such column"):
            assert audit.findings(sequential(), loss=broken) == []


class TestAugmentations:
    SOUND = {
        "flip": lambda: layers.RandomFlip(),
        "translation": lambda: layers.RandomTranslation(0.2, 0.2),
        "rotation": lambda: layers.RandomRotation(0.2),
        "crop": lambda: layers.RandomCrop(6, 6),
        "brightness": lambda: layers.RandomBrightness(0.2),
        "several": lambda: keras.Sequential([layers.RandomFlip(), layers.RandomZoom(0.2)]),
        "noise": lambda: lambda x: x + tf.random.normal(tf.shape(x)),
        # One by one: in parallel the draws would come in another order each time.
        "each": lambda: (
            lambda x: tf.map_fn(tf.image.random_flip_left_right, x, parallel_iterations=1)
        ),
        "views": lambda: lambda x: tf.repeat(x, 3, 0) + tf.random.uniform([3 * 4, 8, 8, 1]),
        "views_on_an_axis": lambda: lambda x: tf.stack([x, tf.reverse(x, [2])], 1),
    }

    @pytest.mark.parametrize("name", SOUND)
    def test_sound_ones_pass(self, name):
        report = audit.probe_augmentation(self.SOUND[name](), tf.TensorSpec([None, 8, 8, 1]))
        assert report.findings == []

    def test_views_may_not_be_of_other_rows(self):
        found = audit.probe_augmentation(lambda x: tf.tile(x, [2, 1]), tf.TensorSpec([None, 3]))
        assert "values" in {finding.check for finding in found.findings}

    def test_each_of_several_is_probed(self):
        model = sequential()
        assert audit.findings(model, augmentation=[tf.identity, lambda x: 2 * x]) == []
        for mixing in ([tf.identity, lambda x: tf.roll(x, 1, 0)], [lambda x: tf.roll(x, 1, 0)] * 2):
            with pytest.raises(ValueError, match="the augmentation"):
                audit.validate(model, augmentation=mixing)
