"""`physical_batch_size="auto"`: the most rows of a physical batch for which there is memory.

They decide how many slots an update has, and so have to be known before the ledger is begun.
Nothing of the private examples decides them: the clipped sum of a few *synthetic* rows is computed,
from the shapes that the model takes, with the memory that the machine has. A run that is resumed
continues with the rows that it began with.
"""

import contextlib
import pathlib

import tensorflow as tf

from tfdpnorm import memory
from tfdpnorm.data import Lot
from tfdpnorm.independence.changed_state import changed_by
from tfdpnorm.independence.examples import input_specs, integer_bound, synthetic_examples
from tfdpnorm.independence.undisturbed import undisturbed
from tfdpnorm.keras_compat.devices_and_precision import has_gpu
from tfdpnorm.keras_compat.graphs import captured_variables, traced
from tfdpnorm.keras_compat.variables import trainable_variables
from tfdpnorm.privacy.slots import slots_of_plan
from tfdpnorm.training.engine_choice import lot_specs, rehearsed_update
from tfdpnorm.training.resume.checkpoints import last_whole_state

_REMEDY = "Pass a number."
_MEGABYTE = 2**20

_SHARE = 0.8  # of the memory that is left: what a trial does not show needs some, too
_GROWTH = 8  # of the rows from trial to trial
_ENOUGH_MEGABYTES = 64.0  # more than one row takes: the slope is known then
_DIFFERENT_ROWS = 8

# What an update needs besides a physical batch. Of each trained number: sums and noise in float64,
# random words, what optimizers keep. Of each slot: the batch, and those that are drawn ahead.
_BYTES_OF_NUMBER, _BATCHES_AT_ONCE = 64, 4


def automatic_rows(model, parts, plan, *, replicas, run_dir):
    """Returns the most rows of a physical batch for which there is memory, and says so in a line.

    On processors, clipped sums of 1, 8, 64, ... synthetic rows show how much memory a row takes; it
    is taken to grow linearly from there. On GPUs as many rows as a device may have are tried, then
    half of them, and so on. A run that `run_dir` resumes has the rows of its last checkpoint.
    `parts` are those of `tfdpnorm.training.engine_choice.rehearse`.

    Raises:
        ValueError: for a model whose inputs have no known sizes, for several processes, for the
            engines of tensorflow-privacy, where the system does not say how much memory there is,
            and if there is none for one row.
    """
    if replicas.workers.count > 1:
        raise ValueError(
            'Expected a number as physical_batch_size in several processes, got "auto": they need '
            f"the same, and may have more or less memory. {_REMEDY}"
        )
    if parts.engine.now.of_tensorflow_privacy:
        raise ValueError(
            "Expected a number as physical_batch_size with the engines of tensorflow-privacy, got "
            f'"auto": they compute nothing before the model has an optimizer. {_REMEDY}'
        )
    rows, why = None, "with which the run started"
    if run_dir is not None and run_dir.resume:
        state, _ = last_whole_state(pathlib.Path(run_dir.path))
        rows = state and state.get("physical_batch_size")
    if rows is None:
        trial = _Trial(model, parts, plan)
        slots = slots_of_plan(plan, replicas=replicas.count)
        besides = trial.megabytes_besides(slots)
        if has_gpu():
            rows = most_by_halving(lambda rows: trial.fits(rows, besides), slots.rows)
            why = "for which the GPU had memory"
        else:
            left = memory.available_megabytes() if memory.is_measurable() else None
            if left is None:
                raise ValueError(
                    'physical_batch_size="auto" needs Linux or a GPU, which report how much memory '
                    f"a step takes. {_REMEDY}"
                )
            limit = _SHARE * left / replicas.count - besides
            rows = most_by_growing(trial.megabytes, limit, slots.rows)
            why = f"which fit into {limit:,.0f} MB"
    slots = slots_of_plan(plan, rows, replicas.count)
    print(
        f'physical_batch_size="auto": {rows} rows at once, {why}. An update has '
        f"{slots.batches} x {slots.rows} slots."
    )
    return rows


def most_by_growing(megabytes_of, limit, most):
    """Returns how many rows, 1 to `most`, fit into `limit` megabytes, by a few trials of fewer.

    `megabytes_of(rows)` tries so many rows and returns the megabytes that they took. Raises
    ValueError if one row does not fit.
    """
    rows, first = 1, megabytes_of(1)
    if first > limit:
        raise _no_memory(f"one takes {first:,.0f} MB, and {max(limit, 0):,.0f} MB are left")
    taken = first
    while rows < most and taken - first < _ENOUGH_MEGABYTES:
        # Twice the rows take at most twice the memory, of which there is enough for these.
        more = min(most, _GROWTH * rows, int(rows * limit / max(taken, 1.0)))
        if more <= rows:
            break
        rows, taken = more, max(taken, megabytes_of(more))
    if rows == 1 or taken == first:
        return rows
    of_row = (taken - first) / (rows - 1)
    return max(1, min(most, rows + int((limit - taken) // of_row)))


def most_by_halving(fits, most):
    """Returns the largest of `most`, its half, its quarter and so on for which `fits(rows)`.

    Raises ValueError if one row does not fit.
    """
    rows = most
    while not fits(rows):
        if rows == 1:
            raise _no_memory("the GPU has none left for one")
        rows = -(-rows // 2)
    return rows


def _no_memory(found):
    return ValueError(
        f"There is too little memory for the clipped sum of a single row: {found}. Use a smaller "
        "model, smaller inputs or fewer views, or end other processes that use memory."
    )


class _Trial:
    """Clipped sums of synthetic rows, for the memory that they take."""

    def __init__(self, model, parts, plan):
        known = input_specs(model)
        self._specs = lot_specs(model, 1, parts.views.rows_per_person)
        sizes = [spec.shape[1:] for spec in tf.nest.flatten(known or [])]
        if self._specs is None or not all(size.is_fully_defined() for size in sizes):
            raise ValueError(
                'Expected inputs of known sizes with physical_batch_size="auto", got a model with '
                "unknown sizes. Give keras.Input the whole shape, call a subclassed model on a "
                "batch first, or pass a number."
            )
        self._model, self._parts, self._plan = model, parts, plan
        self._before, self._of_traces = None, 0.0

    def megabytes_besides(self, slots):
        """Memory of an update without its physical batches, in megabytes, with these `Slots`."""
        numbers = sum(v.shape.num_elements() for v in trainable_variables(self._model))
        specs = tf.nest.flatten(self._specs)
        of_slot = sum(spec.dtype.size * spec.shape[2:].num_elements() for spec in specs)
        of_slots = _BATCHES_AT_ONCE * slots.batches * slots.rows * of_slot
        return (_BYTES_OF_NUMBER * numbers + of_slots) / _MEGABYTE

    def megabytes(self, rows):
        """The most memory that the clipped sum of some rows takes, in megabytes of the process."""
        held = _settled_megabytes()
        if self._before is None:
            self._before = held
        compute = self._traced(rows)
        # Graphs stay; what TensorFlow keeps of the memory of one trial, the next one takes again.
        self._of_traces += _settled_megabytes() - held
        compute()
        return max(memory.peak_megabytes() - self._before - self._of_traces, 0.0)

    def fits(self, rows, besides):
        """Whether a GPU has memory for the clipped sum of some rows, and so much besides."""
        compute = self._traced(rows)
        try:
            held = tf.zeros([round(besides * _MEGABYTE)], tf.uint8)
            compute()
            del held
        except tf.errors.ResourceExhaustedError:
            return False
        return True

    def _traced(self, rows):
        """Function that computes the clipped sum of so many synthetic rows, and changes nothing."""
        model, parts = self._model, self._parts
        # A few rows, repeated.
        flat = tf.nest.map_structure(
            lambda s: tf.TensorSpec([None, *s.shape[2:]], s.dtype), self._specs.x
        )
        few = synthetic_examples(flat, _DIFFERENT_ROWS, integer_bound(model))
        chosen = tf.range(rows)[tf.newaxis] % _DIFFERENT_ROWS
        ones = tf.ones([1, rows])
        weights = tf.ones([1, rows, *self._specs.sample_weight.shape[2:]])
        x = tf.nest.map_structure(lambda a: tf.gather(a, chosen), few)
        lot = Lot(x, weights, weights, ones)
        specs = tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape, t.dtype), lot)
        with undisturbed(model, *parts.views.augmentations):
            update = rehearsed_update(model, parts, self._plan, lambda proof, count: False)
            function = traced(lambda lot: update.clipped(lot).sums, (specs,))

        def compute():
            with _variables_kept(function):
                for total in function(lot):
                    total.numpy()  # waits for a GPU

        return compute


def _settled_megabytes():
    memory.start_peak_anew()
    return memory.resident_megabytes()


@contextlib.contextmanager
def _variables_kept(function):
    """Context for calls of a `ConcreteFunction`, after which its variables have their values again.

    It may change the states of random generators, for instance.
    """
    changed = {id(handle) for _, handle in changed_by(function.graph.get_operations())}
    pairs = [(h, dtype) for h, dtype in captured_variables(function) if id(h) in changed]
    before = [tf.raw_ops.ReadVariableOp(resource=h, dtype=dtype) for h, dtype in pairs]
    before = [tf.constant(value.numpy()) for value in before]
    try:
        yield
    finally:
        for (handle, _), value in zip(pairs, before, strict=True):
            tf.raw_ops.AssignVariableOp(resource=handle, value=value)
