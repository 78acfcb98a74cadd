"""Runs by DP-SGD, or by the same way without noise and clipping."""

import contextlib
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

_KINDS_OF_VIEWS = {"moved": "moved by a pixel", "random": "cropped and flipped at random"}


class PrivateRun(Run):
    """A run of a `PrivateSpec`.

    Of the methods of Ermis & Cemgil (2017), "dpsgd" and "none" train the plain network; "svi" adds
    the gradient of a normal prior behind the noise, by the optimizer. The network of "dpvd" has
    layers of variational dropout, which get the noise of each update, in the sound reading; the
    other one is `PrintedRun`. The curve has (updates, epsilon spent, test accuracy in percent),
    since the run was last resumed.
    """

    can_share = True

    def __init__(self, spec, data, *, checkpoint_every=None, **more):
        super().__init__(spec, data, **more)
        if checkpoint_every is not None and self.run_dir is None:
            raise ValueError("--checkpoint_every needs --run_dir.")
        self.model = build_private(
            spec,
            data,
            steps=spec.updates(data.num_examples),
            augmentation=augmentations(
                spec.augmentation_multiplicity, data.train_x.shape[1:], spec.views
            ),
            run_dir=self.run_dir and RunDir(self.run_dir, self.resume, checkpoint_every),
            declaration=declaration_of(spec),
            strategy=self.strategy,
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
        method, claimed_by = spec.variational.method, spec.variational.calibrated_by
        statistics = f" (statistics {spec.statistics})" if spec.needs_public_rows else ""
        persons = ""
        if data.persons is not None:
            persons = (
                f" persons with {len(data.train_x):,} examples, up to {spec.most_per_person} of "
                "each in an update"
            )
        lines = [
            f"{spec.experiment} {spec.cell}: {spec.model}, {self.model.model.count_params():,} "
            f"parameters, norm {spec.norm}{statistics}",
            f"private data: {spec.dataset}, N = {data.num_examples:,}{persons} ({data.scale}); "
            f"public rows: {data.public_source or 'none'}",
            data.pretrained and f"public: {data.pretrained}",
            (views > 1 or spec.views == "random")
            and f"each image in {views} views, {_KINDS_OF_VIEWS[spec.views]}",
            halving_in_words(spec, data),
            f"T = {plan.steps} updates, expected batch {plan.expected_batch_size}, q = "
            f"{plan.sampling_rate:.5f}, z = {plan.noise_multiplier:.4f}, C = "
            f"{plan.l2_norm_clip:g}, delta = {plan.delta:g}, engine {self.model.engine}, seed "
            f"{spec.seed}",
        ]
        if reasons:
            lines.append(f"NO GUARANTEE: {'; '.join(reasons)}")
            if _is_claimed(spec):
                lines.append(_claimed(plan.claimed_epsilon_after(plan.steps)))
        else:
            unit = "person" if plan.unit == "person" else "example"
            lines.append(
                f"epsilon after all updates: {ceil_text(plan.epsilon_after(plan.steps))} "
                f"({plan.accountant}, add or remove one {unit}, Poisson sampling)"
            )
            if spec.stated_per_person is not None:
                epsilon = self.model.ledger.person_epsilon(whole_plan=True)
                lines.append(_of_person(spec.stated_per_person, epsilon))
        if (method, spec.clipping) != ("dpsgd", "flat") or claimed_by:
            calibrated = f"; {calibrated_to(spec)}" if claimed_by else ""
            lines.append(f"method {method}, clipping {spec.clipping}{calibrated}")
        return "\n  ".join(filter(None, lines))

    def restore(self):
        self.model.compile(
            optimizer=make_optimizer(self.spec, self.model.plan.steps, self.data.num_examples),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
        self.model.restore_run(self.callbacks)
        position = self.model.ledger.state.position
        if position:
            self.echo(f"  resumed after update {position} of {self.model.plan.steps}")

    def train(self):
        ledger = self.model.ledger
        before = ledger.state.position
        if ledger.state.remaining_updates:
            batches = poisson_batches(
                self.data.train_x,
                self.data.train_y,
                expected_batch_size=self.spec.expected_batch_size,
                person=self.data.persons,
                most_per_person=self.spec.drawn_per_person,
            )
            options = fit_options(self.spec, self.data, self.model)
            self.model.fit(batches, verbose=0, callbacks=self.callbacks, **options)
            if ledger.state.remaining_updates:  # A callback stopped it: nothing may follow.
                ledger.record(Finish())
                if self.run_dir is not None and ledger.state.search is None:
                    write_statement(self.run_dir, self.model)
        return (ledger.state.position - before) * self.model.plan.expected_batch_size

    def measured(self):
        spec, ledger = self.spec, self.model.session.provenance.stated_ledger
        accuracy, top5 = rounded(test_accuracies(self.model, self.data))
        accuracy_ema = top5_ema = claimed = None
        if self._average is not None:
            with self._average.applied():
                accuracy_ema, top5_ema = rounded(test_accuracies(self.model, self.data))
        if spec.variational.calibrated_by is not None:
            claimed = spec.epsilon
        elif _is_claimed(spec):
            claimed = self.model.ledger.claimed_epsilon()
        return {
            "test_accuracy": accuracy,
            "test_accuracy_ema": accuracy_ema,
            "test_top5": top5,
            "test_top5_ema": top5_ema,
            **spent_of(self, ledger),
            "epsilon_claimed": claimed,
            "epsilon_validation": (
                ledger.validation_epsilon() if spec.plateau == "private" else None
            ),
            "epsilon_of_person": ledger.person_epsilon() if spec.stated_per_person else None,
            **fields_of(self.model, "statistics engine"),
            "curve": [
                {"updates": updates, "epsilon": epsilon, "test_accuracy": round(value, 4)}
                for updates, epsilon, value in self.curve
            ],
        }

    def averaged(self):
        return None if self._average is None else self._average.applied()

    def spent(self, record):
        is_claimed = self.spec.variational.calibrated_by is not None
        text = spent_in_words(self, record)
        return f"{text}; {calibrated_to(self.spec)}" if is_claimed else text

    def close(self):
        if self.run_dir is not None:
            self.model.ledger.close()


def spent_of(run, ledger):
    """Returns the fields of a record on what a private run spent, a dict."""
    by_pld = None
    if ledger.state.search is None:  # Only Renyi DP knows what a choice costs.
        with contextlib.suppress(ValueError):  # which there is where PLD cannot be computed
            by_pld = ledger.epsilon(accountant="pld")
    return {
        "epsilon": ledger.epsilon(),
        "epsilon_target": run.spec.epsilon,
        "epsilon_rdp": ledger.epsilon(accountant="rdp"),
        "epsilon_pld": by_pld,
        **known_of(ledger),
        **fields_of(run.model.plan, "accountant delta num_examples expected_batch_size"),
        **fields_of(run.model.plan, "sampling_rate noise_multiplier l2_norm_clip unit"),
        "most_per_person": run.model.plan.most_per_person,
        "num_rows": len(run.data.train_x),
        "noise_generator": ledger.settings["noise_generator"],
        "insecure_seed": run.spec.insecure_seed,
        "updates": ledger.updates,
        "pretrained": run.data.pretrained,
        "resumes": ledger.state.resumes,
    }


def known_of(ledger):
    """Returns the fields of a record that say whether a guarantee holds, and what of, a dict."""
    return {
        "guarantee_holds": ledger.guarantee_holds,
        "no_guarantee_because": list(ledger.no_guarantee_because),
        "not_covered": list(ledger.state.sentences("not_covered")),
        "weights_from_elsewhere": list(ledger.state.sentences("foreign_weights")),
    }


def spent_in_words(run, record):
    """Returns what a run spent and what that leaves out, or why there is no epsilon."""
    if not record["guarantee_holds"]:
        text = f"NO GUARANTEE: {'; '.join(record['no_guarantee_because'])}"
        claimed = f"\n  {_claimed(record['epsilon_claimed'])}" if _is_claimed(run.spec) else ""
        return text + claimed
    at = f"at delta {record['delta']:g}"
    text = f"epsilon {ceil_text(record['epsilon'])} {at} ({record['accountant']})"
    if record["epsilon_of_person"] is not None:
        text += f"; {_of_person(record['most_per_person'], record['epsilon_of_person'])}"
    if record["epsilon_validation"] is not None:
        text += (
            f"; for the {len(run.data.validation_x):,} validation examples queried for the plateau:"
            f" epsilon {ceil_text(record['epsilon_validation'])} {at}"
        )
    more = [f"ADDS TO THIS EPSILON: {s}" for s in record["weights_from_elsewhere"]]
    more += [f"NOT COVERED: {s}" for s in record["not_covered"]]
    return "\n  ".join([text, *more])


def _of_person(rows, epsilon):
    return f"for a person with up to {rows} examples: epsilon {ceil_text(epsilon)}"


class Progress(keras.callbacks.Callback):
    """Shows the updates made, the epsilon spent so far, and the test accuracy during a run.

    The test accuracy is that of benchmark images; nothing is chosen by it during the run. It is
    measured about `evaluations` times, the last time after the last update. `curve` is a list of
    (updates, epsilon spent, test accuracy in percent).
    """

    def __init__(self, private, data, evaluations, echo):
        super().__init__()
        self.curve = []
        self._private, self._data, self._echo = private, data, echo
        self._every = max(1, private.plan.steps // evaluations)

    def on_train_begin(self, logs=None):
        self._started = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        ledger = self._private.ledger
        if ledger.updates % self._every and ledger.state.remaining_updates:
            return
        accuracy, epsilon = test_accuracy(self._private, self._data), ledger.epsilon()
        self.curve.append((ledger.updates, epsilon, accuracy))
        spent = f"epsilon {ceil_text(epsilon)}" if ledger.guarantee_holds else "no guarantee"
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
