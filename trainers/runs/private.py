"""Runs by DP-SGD, or by the same way without noise and clipping."""

import dataclasses
import time

from tensorflow import keras

from tfdpnorm.choices import AUTO
from tfdpnorm.data import poisson_batches
from tfdpnorm.privacy.entries import Finish
from tfdpnorm.privacy.rounding import ceil_text
from tfdpnorm.training import PrivacyNoiseAsDropout, RunDir, WeightAverage
from tfdpnorm.training.resume.run_folder import write_statement
from trainers.records.fields import fields_of
from trainers.runs.build import augmentations, build_private, declaration_of
from trainers.runs.optimizers import (
    fit_options,
    halving_callbacks,
    halving_in_words,
    make_optimizer,
)
from trainers.runs.skeleton import Run, rounded, test_accuracies, test_accuracy

_UNITS = {"row": "example", "person": "person"}
_KINDS_OF_VIEWS = {
    "moved": "moved by a pixel",
    "random": "cropped and flipped at random",
}


class PrivateRun(Run):
    """A run of a `PrivateSpec`.

    Of the methods of Ermis & Cemgil (2017), "dpsgd" and "none" train the plain network; "svi" adds
    the gradient of a normal prior behind the noise, by the optimizer. The network of "dpvd" has
    layers of variational dropout, which get the noise of each update, in the sound reading; the
    other one is `PrintedRun`. The curve has (updates, epsilon spent, test accuracy in percent),
    since the run was last resumed.
    """

    def __init__(self, spec, data, *, checkpoint_every=None, **more):
        super().__init__(spec, data, **more)
        if checkpoint_every is not None and self.run_dir is None:
            raise ValueError("--checkpoint_every needs --run_dir.")
        steps = spec.updates(data.num_examples)
        self.model = build_private(
            spec,
            data,
            steps=steps,
            augmentation=augmentations(
                spec.augmentation_multiplicity, data.train_x.shape[1:], spec.views
            ),
            run_dir=self.run_dir and RunDir(self.run_dir, self.resume, checkpoint_every),
            declaration=declaration_of(spec),
        )
        if spec.physical_batch_size == AUTO:  # The record says how many.
            rows = self.model.physical_batch_size
            self.spec = spec = dataclasses.replace(spec, physical_batch_size=rows)
        self._average = WeightAverage(spec.ema_decay) if spec.ema_decay is not None else None
        progress = Progress(self.model, data, spec.evaluations, self.echo)
        self.curve = progress.curve
        ours = [progress, *([self._average] if self._average else [])]
        self.callbacks = [*ours, *halving_callbacks(spec, data, self.model.plan), *self.callbacks]
        if spec.variational.method == "dpvd":
            self.callbacks.append(PrivacyNoiseAsDropout())

    def describe(self):
        spec, data = self.spec, self.data
        plan, reasons = self.model.plan, self.model.ledger.no_guarantee_because
        views = spec.augmentation_multiplicity
        viewed = views > 1 or spec.views == "random"
        halved = halving_in_words(spec, data)
        lines = [
            f"{spec.experiment} {spec.cell}: {spec.model}, {self.model.model.count_params():,} "
            f"parameters, norm {spec.norm}"
            + (f" (statistics {spec.statistics})" if spec.needs_public_rows else ""),
            f"  private data: {spec.dataset}, N = {data.num_examples:,}{self._persons()} "
            f"({data.scale}); "
            f"public rows: {data.public_source or 'none'}",
            *([f"  public: {data.pretrained}"] if data.pretrained else []),
            *([f"  each image in {views} views, {_KINDS_OF_VIEWS[spec.views]}"] if viewed else []),
            *([f"  {halved}"] if halved else []),
            f"  T = {plan.steps} updates, expected batch {plan.expected_batch_size}, q = "
            f"{plan.sampling_rate:.5f}, z = {plan.noise_multiplier:.4f}, C = "
            f"{plan.l2_norm_clip:g}, delta = {plan.delta:g}, engine {self.model.engine}, seed "
            f"{spec.seed}",
        ]
        if not reasons:
            lines.append(
                f"  epsilon after all updates: {ceil_text(plan.epsilon_after(plan.steps))} "
                f"({plan.accountant}, add or remove one {_UNITS[plan.unit]}, "
                "Poisson sampling)"
            )
            if spec.most_rows_per_person is not None:
                epsilon = self.model.ledger.person_epsilon(whole_plan=True)
                lines.append(f"  {_of_person(spec.most_rows_per_person, epsilon)}")
        else:
            lines.append(f"  NO GUARANTEE: {'; '.join(reasons)}")
            if _is_claimed(spec):
                lines.append(f"  {_claimed(plan.claimed_epsilon_after(plan.steps))}")
        method, claimed_by = spec.variational.method, spec.variational.calibrated_by
        if (method, spec.clipping) != ("dpsgd", "flat") or claimed_by:
            calibrated = f"; {calibrated_to(spec)}" if claimed_by else ""
            lines.append(f"  method {method}, clipping {spec.clipping}{calibrated}")
        return "\n".join(lines)

    def _persons(self):
        """The unit that N counts, in words, where it is not examples."""
        if self.data.persons is None:
            return ""
        return (
            f" persons with {len(self.data.train_x):,} examples, up to "
            f"{self.spec.most_per_person} of each in an update"
        )

    def restore(self):
        self.model.compile(
            optimizer=make_optimizer(self.spec, self.model.plan.steps, self.data.num_examples),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
        self.model.restore_run(self.callbacks)
        ledger = self.model.ledger
        if ledger.state.position:
            self.echo(f"  resumed after update {ledger.state.position} of {self.model.plan.steps}")

    def train(self):
        ledger = self.model.ledger
        before = ledger.state.position
        if ledger.state.remaining_updates:
            batches = poisson_batches(
                self.data.train_x,
                self.data.train_y,
                expected_batch_size=self.spec.expected_batch_size,
                person=self.data.persons,
                most_per_person=self.spec.most_per_person,
            )
            options = fit_options(self.spec, self.data)
            self.model.fit(batches, verbose=0, callbacks=self.callbacks, **options)
            if ledger.state.remaining_updates:  # A callback stopped it: nothing may follow.
                ledger.record(Finish())
                if self.run_dir is not None and ledger.state.search is None:
                    write_statement(self.run_dir, self.model)
        return (ledger.state.position - before) * self.model.plan.expected_batch_size

    def measured(self):
        spec, plan, ledger = self.spec, self.model.plan, self.model.session.provenance.stated_ledger
        accuracy, top5 = rounded(test_accuracies(self.model, self.data))
        accuracy_ema = top5_ema = None
        if self._average is not None:
            with self._average.applied():
                accuracy_ema, top5_ema = rounded(test_accuracies(self.model, self.data))
        return {
            "test_accuracy": accuracy,
            "test_accuracy_ema": accuracy_ema,
            "test_top5": top5,
            "test_top5_ema": top5_ema,
            "epsilon": ledger.epsilon(),
            "epsilon_target": spec.epsilon,
            "epsilon_rdp": ledger.epsilon(accountant="rdp"),
            "epsilon_pld": epsilon_by_pld(ledger),
            "epsilon_claimed": self._claimed_epsilon(),
            "epsilon_validation": (
                ledger.validation_epsilon() if spec.plateau == "private" else None
            ),
            **known_of(ledger),
            **fields_of(plan, "accountant delta num_examples expected_batch_size sampling_rate"),
            **fields_of(plan, "noise_multiplier l2_norm_clip unit most_per_person"),
            "num_rows": len(self.data.train_x),
            "most_rows_per_person": spec.most_rows_per_person,
            "epsilon_of_person": ledger.person_epsilon() if spec.most_rows_per_person else None,
            "noise_generator": ledger.settings["noise_generator"],
            "insecure_seed": spec.insecure_seed,
            **fields_of(self.model, "statistics engine"),
            "updates": ledger.updates,
            "pretrained": self.data.pretrained,
            "resumes": ledger.state.resumes,
            "curve": [
                {"updates": updates, "epsilon": epsilon, "test_accuracy": round(value, 4)}
                for updates, epsilon, value in self.curve
            ],
        }

    def _claimed_epsilon(self):
        """Of the paper, for the statistics of the lot or for the noise; None without a claim."""
        if self.spec.variational.calibrated_by is not None:
            return self.spec.epsilon
        return self.model.ledger.claimed_epsilon() if _is_claimed(self.spec) else None

    def averaged(self):
        return None if self._average is None else self._average.applied()

    def spent(self, record):
        text = spent_in_words(self, record)
        is_claimed = self.spec.variational.calibrated_by is not None
        return f"{text}; {calibrated_to(self.spec)}" if is_claimed else text

    def close(self):
        if self.run_dir is not None:
            self.model.ledger.close()


def known_of(ledger):
    """Returns the fields of a record that say whether a guarantee holds, and what of, a dict."""
    state = ledger.state
    return {
        "guarantee_holds": ledger.guarantee_holds,
        "no_guarantee_because": list(ledger.no_guarantee_because),
        "not_covered": list(state.sentences("not_covered")),
        "weights_from_elsewhere": list(state.sentences("foreign_weights")),
    }


def spent_in_words(run, record):
    """Returns what a run spent and what that leaves out, or why there is no epsilon."""
    if record["guarantee_holds"]:
        at = f"at delta {record['delta']:g}"
        text = f"epsilon {ceil_text(record['epsilon'])} {at} ({record['accountant']})"
        if record["epsilon_of_person"] is not None:
            rows, epsilon = record["most_rows_per_person"], record["epsilon_of_person"]
            text += f"; {_of_person(rows, epsilon)}"
        if record["epsilon_validation"] is not None:
            count = f"{len(run.data.validation_x):,}"
            spent = f"epsilon {ceil_text(record['epsilon_validation'])} {at}"
            text += f"; for the {count} validation examples queried for the plateau: {spent}"
        more = [f"ADDS TO THIS EPSILON: {s}" for s in record["weights_from_elsewhere"]]
        more += [f"NOT COVERED: {s}" for s in record["not_covered"]]
        return "\n  ".join([text, *more])
    text = f"NO GUARANTEE: {'; '.join(record['no_guarantee_because'])}"
    if _is_claimed(run.spec):
        text += f"\n  {_claimed(record['epsilon_claimed'])}"
    return text


def _of_person(rows, epsilon):
    return f"for a person with up to {rows} examples: epsilon {ceil_text(epsilon)}"


def epsilon_by_pld(ledger):
    """Returns epsilon by privacy loss distributions; None where these cannot be computed."""
    if ledger.state.search is not None:  # Only Renyi DP knows what a choice costs.
        return None
    try:
        return ledger.epsilon(accountant="pld")
    except ValueError:
        return None


class Progress(keras.callbacks.Callback):
    """Shows the updates made, the epsilon spent so far, and the test accuracy during a run.

    The test accuracy is that of benchmark images; nothing is chosen by it during the run.

    Args:
        private: `PrivateModel`.
        data: `ExperimentData`.
        evaluations: About how many times; the last time is after the last update.
        echo: Function that shows a line.

    Attributes:
        curve: List of (updates, epsilon spent, test accuracy in percent).
    """

    def __init__(self, private, data, evaluations, echo):
        super().__init__()
        self.curve = []
        self._private = private
        self._data = data
        self._echo = echo
        self._every = max(1, private.plan.steps // evaluations)

    def on_train_begin(self, logs=None):
        self._started = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        ledger = self._private.ledger
        if ledger.updates % self._every and ledger.state.remaining_updates:
            return
        accuracy = test_accuracy(self._private, self._data)
        self.curve.append((ledger.updates, ledger.epsilon(), accuracy))
        spent = "no guarantee"
        if ledger.guarantee_holds:
            spent = f"epsilon {ceil_text(ledger.epsilon())}"
        self._echo(
            f"  update {ledger.updates}/{self._private.plan.steps}  {spent} so far  test accuracy "
            f"{accuracy:.1f} %  {time.perf_counter() - self._started:.0f} s"
        )


def _is_claimed(spec):
    """Whether the paper claims an epsilon for this spec that does not hold."""
    return spec.needs_public_rows and spec.statistics == "lot" and not spec.is_unclipped


def _claimed(epsilon):
    return f"{ceil_text(epsilon)} is the epsilon claimed by the paper, not a guarantee"


def calibrated_to(spec):
    """Returns in words the paper's claim that the noise of a spec is calibrated to."""
    return (
        f"the noise is that of the paper's {spec.variational.calibrated_by}, which claims epsilon "
        f"{spec.epsilon:.6g}: no guarantee of that"
    )
