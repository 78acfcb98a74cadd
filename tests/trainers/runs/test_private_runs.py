"""Private runs: a spec goes in, an honest record comes out."""

import functools
import pathlib
import re

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from tensorflow import keras

from tfdpnorm import files, memory
from tfdpnorm.training import automatic_batches
from trainers.records.fields import FIELDS
from trainers.records.store import read_records
from trainers.registry import run_cell
from trainers.runs import skeleton
from trainers.runs.private import PrivateRun
from trainers.runs.skeleton import make_record

INF = float("inf")
AN_EPSILON = re.compile(r"epsilon\D{0,30}\d", re.IGNORECASE)


class Run:
    """A finished run and the text that it showed."""

    def __init__(self, spec, data, output_dir=None):
        self.spec, self.data, self.lines = spec, data, []
        self.result = run_cell(spec, data=data, output_dir=output_dir, echo=self.lines.append)
        self.record, self.private = self.result.record, self.result.model

    @property
    def text(self):
        return "\n".join(self.lines)


def weights(run):
    return run.private.model.get_weights()


def same(first, second):
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def composed(plan_like, accountant):
    """Epsilon of Poisson-sampled Gaussian sums, composed here and not by the library."""
    step = dp_accounting.PoissonSampledDpEvent(
        plan_like["expected_batch_size"] / plan_like["num_examples"],
        dp_accounting.GaussianDpEvent(plan_like["noise_multiplier"]),
    )
    for _ in range(plan_like["updates"]):
        accountant.compose(step)
    return accountant.get_epsilon(plan_like["delta"])


def test_a_run_that_is_resumed_after_its_end_has_one_record(tiny_spec, tiny_data, tmp_path):
    spec, lines = tiny_spec(), []
    places = dict(output_dir=tmp_path / "out", run_dir=tmp_path / "run")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "tiny-a-cell-seed0.json").write_text("{")  # another's, half lost
    for resume in (False, True):
        run_cell(spec, data=tiny_data, echo=lines.append, resume=resume, **places)
    first, second = (line for line in lines if line.startswith("Record"))
    path = tmp_path / "out" / "tiny-a-cell-seed0-run2.json"
    assert (first, second) == (f"Record: {path}", f"Record: {path}, written when this run ended")
    assert len(list(path.parent.iterdir())) == 2

    path.unlink()
    run_cell(spec, data=tiny_data, echo=lines.append, resume=True, **places)
    assert path.exists(), "a record that was lost is written again"


def full_disk(monkeypatch, folder):
    real = files.publish

    def publish(partial, path):
        if pathlib.Path(path).parent == folder:
            raise OSError(28, "No space left on device")
        real(partial, path)

    monkeypatch.setattr(files, "publish", publish)


def test_a_full_disk_costs_no_run_that_is_kept(tiny_spec, tiny_data, tmp_path, monkeypatch):
    spec, out, run_dir = tiny_spec(), tmp_path / "out", tmp_path / "run"
    train = functools.partial(
        run_cell, spec, data=tiny_data, output_dir=out, run_dir=run_dir, resume=True, echo=str
    )
    with monkeypatch.context() as patched:
        full_disk(patched, out)
        began = []  # to close its ledger, as the end of the process does
        patched.setattr(skeleton.Run, "shown_seconds", lambda run, s: began.append(run) or s)
        with pytest.raises(OSError) as error:
            train()
    began[0].close()
    assert str(error.value) == (
        f"Could not write {out / 'tiny-a-cell-seed0.json'}: No space left on device. Free space or "
        f"remove another cause, then run the same command with --resume: {run_dir} keeps the "
        "trained state."
    )
    record = train().record
    assert read_records(out) == [_as_read(record)] and record["updates"] == spec.steps


def test_a_run_gives_a_whole_and_true_record(tiny_spec, tiny_data, tmp_path):
    keras.backend.clear_session()
    spec = tiny_spec(engine="book_keeping", seed=4, norm="public_batch")
    run = Run(spec, tiny_data, tmp_path / "results")
    record = run.record

    assert set(record) == set(FIELDS)
    assert read_records(tmp_path / "results") == [_as_read(record)]
    expected = dict(
        experiment="tiny",
        kind="private",
        cell="a/cell",
        network="a",
        column="cell",
        paper_value=None,
        epsilon_target=None,
        accountant="rdp",
        delta=1e-3,
        guarantee_holds=True,
        no_guarantee_because=[],
        num_examples=64,
        expected_batch_size=16,
        sampling_rate=0.25,
        noise_multiplier=1.0,
        l2_norm_clip=1.0,
        updates=3,
        statistics="public",
        engine="book_keeping",
        seed=4,
        scale="full",
    )
    assert {name: record[name] for name in expected} == expected
    assert record["flags"]["learning_rate"] == 0.1
    assert record["flags"]["precision"] == "float32"
    assert record["seconds"] > 0 and record["examples_per_second"] > 0

    assert record["statement"] == run.private.privacy_statement_json()
    assert record["statement"]["guarantee"]["epsilon"] == record["epsilon"]
    assert record["statement"]["search_before"] == record["search"]

    # Epsilon, by accountants composed here.
    rdp = composed(record, RdpAccountant())
    pld = composed(record, PLDAccountant(value_discretization_interval=1e-4))
    assert rdp < record["epsilon"] == record["epsilon_rdp"] <= 1.001 * rdp  # with the limit
    assert record["epsilon_pld"] == pytest.approx(pld, rel=0.01)
    assert record["epsilon_pld"] < record["epsilon_rdp"]

    # Accuracy is that of the last weights; the weight average is put away again.
    logits = run.private.model.predict(tiny_data.test_x, verbose=0)
    accuracy = 100 * np.mean(logits.argmax(-1) == tiny_data.test_y)
    assert record["test_accuracy"] == pytest.approx(accuracy, abs=1e-4)
    assert 0 <= record["test_accuracy_ema"] <= 100
    assert f"weight average {record['test_accuracy_ema']:.2f} %" in run.text

    # The curve rises to the epsilon of the record.
    updates, epsilons, accuracies = zip(*run.result.curve, strict=True)
    assert updates == (1, 2, 3) and list(epsilons) == sorted(epsilons)
    assert epsilons[-1] == record["epsilon"]
    assert accuracies[-1] == pytest.approx(accuracy, abs=1e-4)
    assert AN_EPSILON.search(run.text) and "NO GUARANTEE" not in run.text
    for shown in re.findall(r"epsilon (\d\S*) at delta", run.text):
        assert record["epsilon"] <= float(shown) <= 1.001 * record["epsilon"]


def _as_read(record):
    return {name: list(v) if isinstance(v, tuple) else v for name, v in record.items()} | {
        "flags": {n: list(v) if isinstance(v, tuple) else v for n, v in record["flags"].items()}
    }


@pytest.mark.slow_cases("epsilon inf")
@pytest.mark.slow_cases("insecure seed", "no noise")
@pytest.mark.parametrize(
    "fields, reason",
    [
        (
            dict(norm="public_batch", statistics="lot", engine="per_example", epsilon=8.0),
            'statistics="lot"',
        ),
        (dict(epsilon=INF), "noise multiplier is 0"),
        (dict(noise_multiplier=0.0, ema_decay=0.0), "noise multiplier is 0"),
        (dict(insecure_seed=7), "seed that is not secret"),
    ],
    ids=["lot", "epsilon inf", "no noise", "insecure seed"],
)
def test_epsilon_is_left_out_without_a_guarantee(tiny_spec, tiny_data, fields, reason):
    run = Run(tiny_spec(**fields), tiny_data)
    record = run.record
    assert record["guarantee_holds"] is False
    assert len(record["no_guarantee_because"]) == 1 and reason in record["no_guarantee_because"][0]
    assert [record[f"epsilon{which}"] for which in ("", "_rdp", "_pld")] == [INF] * 3
    assert record["epsilon_target"] == fields.get("epsilon")
    assert all(epsilon == INF for _, epsilon, _ in run.result.curve)
    assert not AN_EPSILON.search(run.text), run.text
    assert len(re.findall(rf"NO GUARANTEE: .*{re.escape(reason)}", run.text)) == 2
    assert run.private.privacy_statement().startswith("NO GUARANTEE")
    claims = re.findall(r"(\S+) is the epsilon claimed by the paper, not a guarantee", run.text)
    if fields.get("statistics") == "lot":
        assert 7.9 < record["epsilon_claimed"] <= 8 and len(claims) == 2
        assert all(record["epsilon_claimed"] <= float(claim) < 8.01 for claim in claims)
    else:
        assert record["epsilon_claimed"] is None and not claims
    if fields.get("epsilon") == INF:
        assert record["l2_norm_clip"] == INF, "the baseline is not clipped"
    if fields.get("ema_decay") == 0:
        assert record["test_accuracy_ema"] == record["test_accuracy"], "decay 0 averages nothing"
    if fields.get("insecure_seed"):
        again = Run(run.spec, tiny_data)
        for a, b in zip(weights(run), weights(again), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)


def test_a_record_says_how_many_rows_there_was_memory_for(tiny_spec, tiny_data, monkeypatch):
    monkeypatch.setattr(memory, "is_measurable", lambda: True)
    monkeypatch.setattr(memory, "available_megabytes", lambda: 20.0)
    monkeypatch.setattr(automatic_batches._Trial, "megabytes", lambda self, rows: float(rows))
    monkeypatch.setattr(automatic_batches._Trial, "megabytes_besides", lambda self, slots: 8.0)
    run = PrivateRun(tiny_spec(ema_decay=None, physical_batch_size="auto"), tiny_data)
    record = make_record(run, seconds=1.0, examples=0)
    assert record["flags"]["physical_batch_size"] == run.model.slots.rows == 8
    with pytest.raises(ValueError, match="Expected physical_batch_size to be a whole number"):
        tiny_spec(physical_batch_size="most")
