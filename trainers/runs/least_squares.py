"""Runs whose last layer is solved for by one noisy release: nothing is trained."""

import dataclasses
import pathlib

import numpy as np
from tensorflow import keras

from tfdpnorm.least_squares import directions_for, private_least_squares
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.rounding import ceil_text
from tfdpnorm.training.resume.run_folder import write_statement
from trainers.runs.build import amount_of_privacy, build_network, declaration_of, plan_of
from trainers.runs.private import spent_in_words, spent_of
from trainers.runs.skeleton import Run, rounded, test_accuracies, test_rows

_LEDGER = "ledger.jsonl"
_MOST_DIRECTIONS = 500  # more take long, and brought nothing
_SMALLEST = 1e-6  # of the largest variance along a direction: below is rounding


class LeastSquaresRun(Run):
    """A run of a `PrivateSpec` with `head="least_squares"`.

    The network is built as for training. What is before its last dense layer stays as it is; its
    outputs are brought to the principal directions of those of public images, and to length 1.
    `model` is the network, and after `train` the `LeastSquaresHead` behind it.
    """

    can_resume = False

    def __init__(self, spec, data, **more):
        super().__init__(spec, data, **more)
        reasons = data.no_guarantee_because
        if spec.insecure_seed is not None:
            reasons = (*reasons, "the noise comes from a seed that is not secret")
        self._plan = dataclasses.replace(
            plan_of(spec, data.num_examples), no_guarantee_because=reasons
        )
        self.model = build_network(spec, data)
        self._ledger_file = self.run_dir and pathlib.Path(self.run_dir) / _LEDGER
        self._most = spec.finetuning.directions or most_directions(self._plan)

    def describe(self):
        spec, data, plan = self.spec, self.data, self._plan
        up_to = "" if spec.finetuning.directions else "up to "
        privacy = f"NO GUARANTEE: {'; '.join(plan.no_guarantee_because)}"
        if plan.guarantee_holds:
            unit = "person" if plan.unit == "person" else "example"
            epsilon = ceil_text(plan.epsilon_after(1))
            privacy = f"epsilon: {epsilon} ({plan.accountant}, add or remove one {unit})"
        lines = [
            f"{spec.experiment} {spec.cell}: {spec.model}, its last layer by one release of "
            f"products of {up_to}{self._most} features",
            f"private data: {spec.dataset}, N = {data.num_examples:,} ({data.scale}); whitened "
            f"by {data.public_source}",
            data.pretrained and f"public: {data.pretrained}",
            f"z = {plan.noise_multiplier:.4f}, delta = {plan.delta:g}, seed {spec.seed}",
            privacy,
        ]
        return "\n  ".join(filter(None, lines))

    def restore(self):
        """Rejects a run that was begun before: its release is spent."""
        if self._ledger_file and self._ledger_file.exists():
            raise ValueError(
                f"There is a {_LEDGER} in {self.run_dir}: the only release of that run is spent, "
                "and was lost. Name another run_dir; the epsilons of both runs add up."
            )

    def train(self):
        spec, data = self.spec, self.data
        features = features_of(self.model)
        or_fewer = spec.finetuning.directions is None
        front = whitened(features, data.public_x, self._most, or_fewer=or_fewer)
        head = private_least_squares(
            front.predict(data.train_x, batch_size=test_rows(data.train_x), verbose=0),
            np.asarray(data.train_y),
            num_classes=data.num_classes,
            person=data.persons,
            most_per_person=spec.most_per_person,
            accountant=spec.accountant,
            noise_generator=spec.noise_generator,
            insecure_seed=spec.insecure_seed,
            declaration=declaration_of(spec),
            ledger_file=self._ledger_file,
            **amount_of_privacy(spec, data.num_examples, 1) | {"l2_norm_clip": 1.0},
        )
        self.model = head.behind(front)
        reasons = [caveat("no_guarantee", sentence=s) for s in data.no_guarantee_because]
        for known in (*reasons, *data.foreign):
            self.model.ledger.record(known)
        if self.run_dir is not None:
            write_statement(self.run_dir, self.model)
        return len(data.train_x)

    def measured(self):
        accuracy, top5 = rounded(test_accuracies(self.model.model, self.data))
        reached = {"test_accuracy": accuracy, "test_top5": top5, "curve": []}
        return {**reached, **spent_of(self, self.model.ledger)}

    def spent(self, record):
        return spent_in_words(self, record)

    def released(self):
        return self.model, self.model.privacy_statement()

    def statement(self):
        return self.model.privacy_statement_json()

    def close(self):
        self.model.ledger.close()


def features_of(network):
    """Returns the part of a network before its last dense layer, a Keras model."""
    last = [layer for layer in network.layers if isinstance(layer, keras.layers.Dense)][-1]
    x = keras.layers.Flatten(name="features_as_they_are")(last.input)  # a model needs a layer
    return keras.Model(network.inputs, x, name=network.name)


def most_directions(plan):
    """Returns how many directions are worth the noise of a `PrivacyPlan`."""
    if not plan.noise_multiplier:
        return _MOST_DIRECTIONS
    return min(directions_for(plan.num_examples, plan.noise_multiplier), _MOST_DIRECTIONS)


def whitened(features, public_x, directions, *, or_fewer=False):
    """Returns a model of features that public rows have centred and half whitened, at length 1.

    `features` is a model from rows to [rows, F]. So many principal directions of those of the
    public rows are kept, all of them where there are fewer if `or_fewer`.
    """
    public = features.predict(public_x, batch_size=test_rows(public_x), verbose=0).astype(
        np.float64
    )
    mean = public.mean(axis=0)
    variances, vectors = _principal(public - mean)
    known = min(int(np.sum(variances > _SMALLEST * variances.max())), len(public) - 1)
    if or_fewer:
        directions = min(directions, known)
    if directions > known:
        raise ValueError(
            f"Expected directions to be at most {known}, in which the features of {len(public)} "
            f"public images differ, got {directions}. Lower it, or use more public images."
        )
    # Half of the way: directions of large variance tell more, and noise hides the others.
    kernel = vectors[:, -directions:] / variances[-directions:] ** 0.25
    layer = keras.layers.Dense(directions, name="whitened")
    x = keras.layers.UnitNormalization(name="whitened_at_length_1")(layer(features.outputs[0]))
    layer.set_weights([kernel.astype(np.float32), (-mean @ kernel).astype(np.float32)])
    return keras.Model(features.inputs, x, name=features.name)


def _principal(rows):
    """Variances, ascending, of centred rows [n, F] along orthonormal directions [F, min(n, F)]."""
    count, size = rows.shape
    if size <= count:
        return np.linalg.eigh(rows.T @ rows / (count - 1))
    variances, shares = np.linalg.eigh(rows @ rows.T / (count - 1))
    lengths = np.sqrt(np.maximum(variances, np.finfo(float).tiny) * (count - 1))
    return variances, rows.T @ (shares / lengths)
