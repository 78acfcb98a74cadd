"""Devices that share updates, simulated by two logical CPUs in a process of their own."""

import subprocess
import sys

import pytest

from tests.programs import ROOT
from trainers.runs.skeleton import strategy_of

TWO = """
import tensorflow as tf
cpu, = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from trainers.davody import cells
from trainers.registry import run_cell
from trainers.specs import NonPrivateSpec
small = dict(steps=2, public_batch_size=16, expected_batch_size=64, evaluations=1)
private = cells.spec("digits", "public_batch", 3.0, **small)
plain = NonPrivateSpec(
    experiment="a", network="b", column="c", dataset="digits", steps=2, validation_examples=100
)
for spec in (private, plain):
    run = run_cell(spec, devices="all", echo=lambda line: None)
    assert run.record["updates"] == 2
    print(spec.kind, run.model.replicas.count if spec.kind == "private" else "trained")
"""


def test_two_devices_share_the_updates_of_runs():
    done = subprocess.run(
        [sys.executable, "-c", TWO], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.stdout.split() == ["private", "2", "non_private", "trained"], done.stderr[-2000:]


@pytest.mark.parametrize("devices", ["2", "0", "-1", "some"])
def test_devices_that_are_not_there_are_rejected(devices):
    with pytest.raises(ValueError, match=f"devices to be all, or 1 to 1, .*got '{devices}'"):
        strategy_of(devices)
