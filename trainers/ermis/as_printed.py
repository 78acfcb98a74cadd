"""Runs of Algorithm 1 of Ermis & Cemgil (2017) as it is printed, which guarantees nothing."""

import pathlib
import shutil

from tensorflow import keras

from tfdpnorm.privacy.rounding import ceil_text
from tfdpnorm.training import total_l2_norm_clip
from trainers.ermis.comparison import stated
from trainers.ermis.printed_dpvd import train_as_printed
from trainers.ermis.readings import NEAREST
from trainers.runs.build import build_network
from trainers.runs.skeleton import Run, rounded, test_accuracies, test_accuracy


class PrintedRun(Run):
    """A run of a `PrivateSpec` as printed: DPVD to the letter, with the noise of the paper's claim.

    It cannot be resumed and starts from nothing.
    """

    can_resume = False

    def __init__(self, spec, data, **more):
        super().__init__(spec, data, **more)
        self.model = build_network(spec, data)
        # l2_norm_clip is that of all layers together, as `make_private` takes it.
        self._root_of_layers = total_l2_norm_clip(self.model, 1.0)
        self._clip = spec.l2_norm_clip / self._root_of_layers
        self._rate = spec.expected_batch_size / data.num_examples
        self._updates = spec.updates(data.num_examples)
        self._passes = round(self._updates * self._rate)
        if self._passes < 1:
            raise ValueError(
                "Expected a pass over the data or more with Algorithm 1 as printed, got "
                f"{self._updates} updates on {spec.expected_batch_size} of {data.num_examples} "
                "examples. Raise epochs or steps."
            )
        self._sigma = NEAREST.sigma(
            spec.variational.calibrated_by, spec.epsilon, self._rate, self._updates, spec.delta
        )
        # 2 C sigma, C being that of a layer, over the longest gradient of all layers.
        self._multiplier = 2 * self._sigma / self._root_of_layers
        other = stated("rdp", self._rate, self._multiplier, self._updates, spec.delta)
        self._beside = (
            f"DP-SGD, another algorithm, would spend epsilon {ceil_text(other.epsilon)} (RDP) with "
            "noise 2 C sigma on each sum"
        )
        self._statement = None

    def describe(self):
        spec = self.spec
        return (
            f"{spec.experiment} {spec.cell}: {spec.model}, Algorithm 1 as printed, "
            f"{spec.dataset}, N = {self.data.num_examples:,} ({self.data.scale})\n"
            f"  T = {self._updates} updates, batches of {spec.expected_batch_size}, sigma = "
            f"{self._sigma:.4f}, C = {self._clip:g} for each layer, seed {spec.seed}\n"
            f"  NO GUARANTEE: the paper's {spec.variational.calibrated_by} claims epsilon "
            f"{ceil_text(spec.epsilon)}; {self._beside}"
        )

    def restore(self):
        """Nothing is kept of a run that was cut short."""

    def train(self):
        spec, data = self.spec, self.data
        epochs = self._passes
        every = max(1, epochs // spec.evaluations)

        def evaluate(epoch):
            if epoch % every and epoch != epochs:
                return
            updates = min(self._updates, round(epoch / self._rate))
            accuracy = round(test_accuracy(self.model, data), 4)
            self.curve.append({"updates": updates, "epsilon": None, "test_accuracy": accuracy})
            self.echo(f"  pass {epoch}/{epochs}  no guarantee  test accuracy {accuracy:.1f} %")

        cross_entropy = keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction=keras.losses.Reduction.NONE
        )
        done = train_as_printed(
            self.model,
            cross_entropy,
            data.train_x,
            data.train_y,
            batch_size=spec.expected_batch_size,
            epochs=epochs,
            l2_norm_clip=self._clip,
            sigma=self._sigma,
            initial_rate=spec.learning_rate,
            decay=spec.learning_rate_power,
            claimed_epsilon=spec.epsilon,
            seed=spec.seed,
            after_epoch=evaluate,
        )
        self._updates, self._statement = done.steps, done.statement
        return done.steps * spec.expected_batch_size

    def measured(self):
        """Returns what the run reached; its epsilon is infinite, the paper's a claim."""
        spec = self.spec
        accuracy, top5 = rounded(test_accuracies(self.model, self.data))
        return {
            "test_accuracy": accuracy,
            "test_top5": top5,
            "epsilon_target": spec.epsilon,
            "epsilon_claimed": spec.epsilon,
            "delta": spec.delta,
            "no_guarantee_because": [self._statement, self._beside],
            "num_examples": self.data.num_examples,
            "expected_batch_size": spec.expected_batch_size,
            "sampling_rate": self._rate,
            "noise_multiplier": self._multiplier,
            "l2_norm_clip": spec.l2_norm_clip,
            "updates": self._updates,
            "curve": self.curve,
        }

    def spent(self, record):
        return "\n  ".join(record["no_guarantee_because"])

    def released(self):
        return self.model, f"NO GUARANTEE: {self._statement}"

    def close(self):
        """Removes the run's folder."""
        if self.run_dir is not None:
            shutil.rmtree(pathlib.Path(self.run_dir))
