# %% [markdown]
"""# A run that is killed and resumed

Updates that were announced before the end are charged, and no noise is drawn twice.
"""

# %%
import pathlib
import subprocess
import sys
import tempfile

TRAINING = """
import os
import sys

from sklearn.datasets import load_digits
from tensorflow import keras
import tfdpnorm

x, y = load_digits(return_X_y=True)
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(10)])
private = tfdpnorm.make_private(
    model,
    budget=tfdpnorm.PrivacyBudget(3.0, 1e-5),
    num_examples=len(x),
    run_dir=tfdpnorm.RunDir(sys.argv[1], resume=True),  # begins the run, or resumes it
)
private.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))


class Crash(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if self.model.ledger.state.updates == 50 and "crash" in sys.argv:
            os._exit(1)


private.fit((x / 16).astype("float32"), y, verbose=0, callbacks=[Crash()])
print(private.privacy_statement())
"""

# %% [markdown]
# The first process ends at the fiftieth of 100 updates. The second continues.

# %%
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "training.py").write_text(TRAINING)
for words in (["crash"], []):
    done = subprocess.run(
        [sys.executable, folder / "training.py", folder / "run", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    print("ended with code", done.returncode)
print(done.stdout or done.stderr)
