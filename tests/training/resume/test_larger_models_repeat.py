"""Larger models make the same updates in another process, as a resumed run has to.

Once they did not: the step held two copies of the physical batch, and TensorFlow's graph optimizer
added up in another order in each process.
"""

import subprocess
import sys

import pytest

_TRAIN = """
import hashlib, sys
import numpy as np
from tensorflow import keras
from tfdpnorm import make_private, models

name, policy, rows = sys.argv[1], sys.argv[2], 64
keras.mixed_precision.set_global_policy(policy)
rng = np.random.default_rng(0)
if name in ("bilstm", "transformer"):
    x, shape = rng.integers(1, 50, (rows, 12)), (12,)
    options = dict(vocabulary_size=50, norm="layer")
else:
    shape, options = (32, 32, 3) if policy != "float32" else (16, 16, 3), dict(norm="group")
    x = rng.random((rows, *shape), np.float32)
y = rng.integers(0, 4, rows)
keras.utils.set_random_seed(0)
model = models.build(name, num_classes=4, input_shape=shape, **options)
private = make_private(
    model, num_examples=rows, expected_batch_size=16, steps=3, l2_norm_clip=1.0,
    noise_multiplier=1.0, delta=1e-4, physical_batch_size=8, validate=False, insecure_seed=3,
)
private.compile(
    keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
)
private.fit(x, y, verbose=0)
print(hashlib.sha256(b"".join(w.tobytes() for w in model.get_weights())).hexdigest())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, policy",
    [
        ("resnet9", "float32"),
        ("resnet9", "mixed_bfloat16"),
        ("wrn_16_4", "float32"),
        ("bilstm", "float32"),
        ("transformer", "float32"),
    ],
)
def test_three_processes_end_with_the_same_weights(name, policy):
    command = [sys.executable, "-W", "ignore", "-c", _TRAIN, name, policy]
    ends = {
        subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(3)
    }
    (digest,) = ends
    assert len(digest.strip()) == 64
