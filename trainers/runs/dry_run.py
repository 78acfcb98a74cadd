"""The outline of a run: noise, updates and time. Nothing is loaded, computed or trained."""

import tensorflow as tf

from tfdpnorm.gradients.engines.registry import engine_named
from tfdpnorm.training import PrivateModel
from trainers import registry
from trainers.data.catalogue import official_size
from trainers.records.store import KEPT, read_records
from trainers.runs.outline import outline
from trainers.scale import at_scale
from trainers.sweeps.runs import duration, estimate

_FEWEST_UPDATES = 50
_LEAST_SHARE = 0.1


def dry_run(kind, spec, *, data_dir=None, folders=(KEPT,)):
    """Returns in words what a spec's run would be, and how long it may take.

    The model is built, with all checks of its settings, on data of which only the size is known.
    The time is judged by records, in `folders`, of the same network.
    """
    run = kind(spec, outline(spec.run, data_dir))
    found = [record for folder in folders for record in read_records(folder)]
    alike = [r for r in found if r["flags"].get("model") == spec.run.model]
    seconds = estimate(spec, alike)
    time = "unknown, since there is no record of such a network"
    if seconds is not None:
        time = (
            f"{duration(seconds)}, estimated from records of this network, perhaps on other "
            "machines"
        )
    parts = [run.describe(), too_little(spec.run, run.data.num_examples)]
    told = "\n  ".join(filter(None, parts))
    return f"{told}\n  estimated time: {time}{_memory(run)}. Nothing was trained."


def too_little(spec, num_examples):
    """Returns in words that a run is too short to replicate anything; "" for one that is not.

    One with few updates, or with few of the examples that go through its cell at the paper's scale.
    """
    if spec.finetuning.is_solved or spec.experiment not in registry.EXPERIMENTS:
        return ""
    updates, few = spec.updates(num_examples), []
    if updates < _FEWEST_UPDATES:
        few.append(f"{updates} updates, fewer than {_FEWEST_UPDATES}")
    with at_scale("paper"):
        papers = [cell.run for cell in registry.cells(spec.experiment) if cell.cell == spec.cell]
    for theirs in papers:
        whole = theirs.updates(official_size(spec.dataset, "train")) * theirs.examples_per_update
        share = updates * spec.examples_per_update / whole
        if share < _LEAST_SHARE:
            few.append(f"{100 * share:.2g} % of the examples that the paper's run goes through")
    return f"TOO LITTLE TO REPLICATE the paper: {'; '.join(few)}" if few else ""


def _memory(run):
    """The memory of engines that hold each example's gradient, in words; "" for others."""
    private, spec = run.model, run.spec
    if not isinstance(private, PrivateModel) or not engine_named(private.engine).runs_rows_apart:
        return ""
    rows = private.physical_batch_size or spec.expected_batch_size
    rows = min(rows, run.data.num_examples)
    megabytes = rows * private.model.count_params() * tf.float32.size / 1e6
    return f"; {megabytes:,.0f} MB of per-example gradients at once"
