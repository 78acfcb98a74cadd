"""What is not supported on several devices, and what processes agree on before they train."""

import importlib

import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.data import poisson_batches
from tfdpnorm.keras_compat.distribution import Cluster
from tfdpnorm.training import workers as of_workers
from tfdpnorm.training.callbacks.private_validation import PrivateValidation
from tfdpnorm.training.replicas import Replicas
from tfdpnorm.training.resume.resumption import WithoutRunFolder
from tfdpnorm.training.workers import FollowsChief, WorkerLostError, Workers

# The package has a function of that name.
module = importlib.import_module("tfdpnorm.training.make_private")


def test_other_strategies_are_rejected_by_name(build, private):
    for strategy in (tf.distribute.OneDeviceStrategy("/cpu:0"), "mirrored"):
        with pytest.raises(ValueError, match=f"got {type(strategy).__name__}"):
            private(build(), strategy=strategy)
    one = private(build(), strategy=tf.distribute.MirroredStrategy(["/cpu:0"]))
    assert one.slots.batches == 1


@pytest.mark.needs_tensorflow_privacy
def test_engines_of_tensorflow_privacy_are_rejected(build, private, monkeypatch):
    monkeypatch.setattr(module, "replicas_of", lambda _: Replicas(["/cpu:0", "/cpu:1"]))
    with pytest.raises(ValueError, match="engine='tfp_vec"):
        private(build(), engine="tfp_vectorized")


@pytest.fixture
def process(build, private, data, cross_entropy, monkeypatch):
    """Returns a function that makes one of two processes, of which the other adds nothing."""
    monkeypatch.setattr(of_workers, "summed_over_processes", lambda _, vector: vector)

    def make(index):
        workers = Workers(None, Cluster(index, 2))
        monkeypatch.setattr(module, "replicas_of", lambda _: Replicas(["/cpu:0"], workers))
        one = private(build())
        one.compile(keras.optimizers.SGD(), cross_entropy)
        return one, workers

    return make


def begun(process, data):
    one, workers = process
    workers.begin(one, poisson_batches(*data, expected_batch_size=10), WithoutRunFolder())
    return workers.lots


def test_each_fit_has_a_secret_key_of_its_own(process, data):
    chief = process(0)
    first, second = begun(chief, data), begun(chief, data)
    words = [lots.bits(0)(4).tolist() for lots in (first, second, begun(process(0), data))]
    assert len({tuple(each) for each in words}) == 3


def test_a_process_that_differs_from_the_chief_does_not_begin(process, data):
    with pytest.raises(ValueError, match="This process differs"):
        begun(process(1), data)  # It gets zeros for the chief's digest.


def test_examples_in_another_order_have_another_digest(process, data):
    one, _ = process(0)
    digests = {
        of_workers._digest(one, poisson_batches(x, y, expected_batch_size=10))
        for x, y in (data, (data[0][::-1], data[1]), (data[0], data[1][::-1]))
    }
    assert len(digests) == 3


def test_a_worker_has_a_ledger_in_memory_and_follows(process, tmp_path, build, private):
    one, _ = process(1)
    assert isinstance(one._resumption, FollowsChief)
    assert private(build(), run_dir=tmp_path / "run").ledger.file is None
    assert not (tmp_path / "run").exists()


def test_unsupported_calls_in_several_processes_are_rejected(process, data):
    one, _ = process(0)
    validation = PrivateValidation(*data, noise_multiplier=1.0)
    with pytest.raises(ValueError, match="PrivateValidation.*several processes"):
        one.fit(*data, verbose=0, callbacks=[validation])
    with pytest.raises(ValueError, match="several processes.*poisson_batches"):
        one.train_on_batch(*data)
    assert one.ledger.updates == 0


def test_the_end_of_another_process_is_told(process):
    _, workers = process(0)
    lost = tf.errors.UnavailableError(None, None, "more\nCollective ops is aborted by: a reset")
    with pytest.raises(WorkerLostError, match="start them again.* aborted by: a reset"):
        with workers.awaited():
            raise lost
