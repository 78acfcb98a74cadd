"""Runs that are kept in a folder."""

import pytest
from tensorflow import keras

from tests.private_of import private_of
from tfdpnorm.privacy import make_plan


@pytest.fixture(scope="module")
def start(build, data, public, cross_entropy):
    """Returns a function that makes the private model of a run in `run_dir`, compiled."""

    def make(run_dir, resume=False, model=None, optimizer="adam", **settings):
        keras.utils.set_random_seed(0)
        model = model or build("functional", "public_batch")
        settings = {
            "steps": 12,
            "public_batch": public,
            "checkpoint_every": 3,
            **settings,
        }
        private = private_of(model, run_dir=run_dir, resume=resume, **settings)
        private.compile(optimizer, cross_entropy)
        return private

    return make


@pytest.fixture
def small_plan():
    """Five updates on nine examples, for folders without a training."""
    return make_plan(
        num_examples=9,
        expected_batch_size=3,
        steps=5,
        l2_norm_clip=1.0,
        noise_multiplier=1.0,
        delta=1e-3,
    )
