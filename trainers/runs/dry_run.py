"""The outline of a run: noise, updates and time. Nothing is loaded, computed or trained."""

import tensorflow as tf

from tfdpnorm.gradients.engines.registry import engine_named
from tfdpnorm.training import PrivateModel
from trainers.records.store import KEPT, read_records
from trainers.runs.outline import outline
from trainers.sweeps.runs import duration, estimate


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
    return f"{run.describe()}\n  estimated time: {time}{_memory(run)}. Nothing was trained."


def _memory(run):
    """The memory of engines that hold each example's gradient, in words; "" for others."""
    private, spec = run.model, run.spec
    if not isinstance(private, PrivateModel) or not engine_named(private.engine).runs_rows_apart:
        return ""
    rows = private.physical_batch_size or spec.expected_batch_size
    rows = min(rows, run.data.num_examples)
    megabytes = rows * private.model.count_params() * tf.float32.size / 1e6
    return f"; {megabytes:,.0f} MB of per-example gradients at once"
