"""Poisson-sampled batches as a `tf.data.Dataset` of static physical batches.

Amplification by sampling assumes that the members of a batch are secret, and so are their slots. A
seed reveals both. The default source is therefore the operating system's cryptographic generator,
read again for each batch: no seed can be leaked, logged or reused, and nothing survives in a forked
process. A batch needs about 8 bytes for each example that is *drawn* and 8 for each slot, which
costs tens of microseconds, so that a faster generator seeded from the system would gain nothing.
"""

from __future__ import annotations

import collections
import numbers
import os
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from tfdpnorm import arguments
from tfdpnorm.data import arrays
from tfdpnorm.data.in_memory import ExamplesInMemory
from tfdpnorm.data.on_demand import columns_on_demand, source_on_demand
from tfdpnorm.data.persons import Persons, lot_of_persons, rows_of_persons
from tfdpnorm.data.sources import is_source, is_unread
from tfdpnorm.keras_compat.graphs import as_written
from tfdpnorm.privacy.slots import Slots, most_per_batch_for, slots_for

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import ArrayLike

    from tfdpnorm.data.shared_lots import SharedLots


# --- which examples are drawn, and into which slots ---


def secret_bits(count):
    """Returns `count` 64-bit words, shape [count], from the operating system's entropy."""
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def insecure_bits(seed, update):
    """Returns a source like `secret_bits` that depends on (`seed`, `update`) alone.

    The seed reveals every batch: for debugging and comparisons, never for private data.
    """
    # NumPy promises that raw words of a bit generator stay the same from version to version.
    return np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(update,))).random_raw


def poisson_rows(num_examples, sampling_rate, bits):
    """Draws one Poisson sample: each of N rows is in it independently with the same probability q.

    Between one included row and the next lies a geometric number of left-out rows. Drawing these
    gaps (Fan, Muller and Rezucha, 1962) gives the same distribution as one coin per row, to within
    2^-53 of each probability, and takes work in proportion to the sample. `bits` is a function
    from a count to that many uniform uint64 words.

    Returns:
        The included row numbers, int64, ascending, shape [n], where n ~ Binomial(N, q).
    """
    if sampling_rate >= 1.0:
        return np.arange(num_examples, dtype=np.int64)
    mean = sampling_rate * num_examples
    # Enough gaps to pass the last row nearly always; the loop draws more when they do not.
    block = int(mean + 5 * np.sqrt(mean)) + 8
    log_left_out = np.log1p(-sampling_rate)
    last, parts = -1, []
    while last < num_examples:
        # In (0, 1]: P(gap >= k) = P(u <= (1 - q)^k) = (1 - q)^k.
        uniform = ((bits(block) >> np.uint64(11)) + 1.0) * 2.0**-53
        # Limited to N before the cast: at a tiny q a gap can exceed the integers.
        with np.errstate(over="ignore", divide="ignore"):
            gaps = np.floor(np.log(uniform) / log_left_out)
        gaps = np.minimum(gaps, num_examples).astype(np.int64)
        rows = last + np.cumsum(gaps + 1)
        parts.append(rows)
        last = int(rows[-1])
    rows = np.concatenate(parts)
    return rows[: np.searchsorted(rows, num_examples)]


def random_slots(count, slots, bits):
    """Draws distinct slots for `count` examples: each injection is equally likely.

    The order of random words is a uniform permutation, provided that no two are equal. Equal ones
    are drawn again, which leaves it exactly uniform. What is drawn from `bits`, a function from a
    count to that many uniform uint64 words, does not depend on `count` = n <= `slots`.

    Returns:
        The slot of each example, int64 [n].
    """
    while True:
        words = bits(slots)
        order = np.argsort(words)
        if (np.diff(words[order]) != 0).all():
            return order[:count]


def truncated(rows, most, bits):
    """Returns the drawn `rows` [n], or `most` of them, each subset equally likely."""
    return rows if len(rows) <= most else rows[random_slots(most, len(rows), bits)]


# --- batches ---

_NO_DATASET = (
    "Expected arrays or a source, whose examples can be drawn by index, got a {}: a "
    "tf.data.Dataset can only be read in its own order, and Poisson sampling draws each example "
    "independently of the others. Write its single examples (x, y) to files, which make a "
    "source:\n"
    '    x, y = tfdpnorm.data.save_examples(dataset.unbatch(), "folder")\n'
    "    batches = tfdpnorm.data.poisson_batches(x, y, expected_batch_size=...)\n"
    "Or start from what the dataset was made of: tfds.data_source(...) in place of tfds.load(...), "
    "tfdpnorm.data.image_folder(...) in place of keras.utils.image_dataset_from_directory(...)."
)

# Of a dataset that stands alone, how likely others are to fill a batch: it knows no plan.
_HARDLY_EVER = 1e-15


class Lot(collections.namedtuple("Lot", ["x", "y", "sample_weight", "mask"])):
    """The examples of one update, in random slots of K physical batches of P rows.

    An example is a row; with `most_per_person` R it is a person, and x, y and sample_weight have
    one axis more: [K, P, R, ...]. The loss of a person is then the mean over R of weight * loss.

    Attributes:
        x: structure of tensors, each [K, P, ...], in the types that were given.
        y: as x, or None if no y was given.
        sample_weight: float32 [K, P], or [K, P, ...] for weights of steps; ones if none were given,
            0 in padding rows. Of a person with r rows, times R / r for these, and 0 for the other
            R - r, which repeat one of them.
        mask: float32 [K, P]; 1 for an example of the batch, 0 for padding, which may be in any slot
            and holds zeros in every array.
    """

    __slots__ = ()


def poisson_batches(
    x: Any,
    y: Any = None,
    *,
    expected_batch_size: float,
    sample_weight: Any = None,
    person: ArrayLike | None = None,
    most_per_person: int | None = None,
) -> PoissonBatches:
    """Prepares a private data set for Poisson sampling.

    Arrays are copied into memory once, and sampled there. From a *source*, and from arrays in files
    (`np.memmap`, HDF5), only the examples of a batch are read, ahead of its use: memory does not
    depend on N.

    With `person`, persons are sampled instead of rows: q, N and `expected_batch_size` count
    persons, and a drawn person contributes the mean over up to `most_per_person` of their rows,
    chosen at random for each update.

        batches = poisson_batches(
            x, y, person=patient_ids, most_per_person=4, expected_batch_size=256
        )

    Args:
        x: array [N, ...], or dict or tuple (nested to any depth) of such arrays: NumPy, or anything
            `np.asarray` takes. Types are kept. Texts are accepted too, for models that look up or
            hash each text as a whole (`StringLookup(vocabulary=...)`, `Hashing`). Split texts into
            words first: `x = TextVectorization(vocabulary=...)(texts).numpy()`, with public words.
            Or a source: any object with `__len__`, and `__getitem__` (of a number) or
            `__getitems__` (of a list of them), whose examples are (x, y) or (x, y, sample_weight),
            all of one shape. For other examples, see `MappedSource`; for images, `image_folder`.
        y: as x, or None. A source has it in its examples.
        expected_batch_size: mean number of examples in a batch, 0 < expected_batch_size <= N, not
            necessarily whole. Divide by this public number, never by the size of a batch.
        sample_weight: finite and not negative, shape [N], or None for ones. Or [N, ...], a number
            for each step (word, pixel) that the loss gives a value for.
        person: vector of integers or texts, the person of each row; None if rows are examples.
        most_per_person: the most rows of a person in an update, R; with `person` only. R rows of
            each person go through the model.

    Returns:
        A `PoissonBatches`.

    Raises:
        TypeError: if an array is ragged or sparse, or holds anything but booleans, integers,
            floats and, in x, texts; or for data whose examples have no index, such as a
            `tf.data.Dataset`.
        ValueError: if lengths differ, N = 0, a value is NaN or infinite, a weight is negative, or
            expected_batch_size is out of range, or only one of person and most_per_person is
            given. Values that are read on demand are not checked
            here: an example with a NaN or infinite value, or a negative weight, contributes
            nothing when it is drawn, and `nonfinite_gradients` counts it.
    """
    return PoissonBatches(
        x,
        y,
        expected_batch_size=expected_batch_size,
        sample_weight=sample_weight,
        person=person,
        most_per_person=most_per_person,
    )


class PoissonBatches:
    """A private data set that is sampled again for every update.

    `poisson_batches` makes it and explains the arguments.

    Guarantee: each example is in each batch with probability q = `sampling_rate`, independently of
    every other example and every other batch; of more than S, S take part, drawn at random. This is
    the sampling that a `PrivacyPlan` accounts for; read q and N from here, so that they cannot
    disagree. The examples of a batch are in distinct slots, drawn uniformly at random for each
    batch (docs/guarantee.md).

    Changing the dataset afterwards invalidates the guarantee: `cache()` replays batches, `filter`
    and `shard` change q; `shuffle` and `batch` have no use. For a source, the guarantee also
    assumes that the value for an index depends on one example alone, whatever else was read.

    Arrays in memory are copied once into memory of the host, and are not changed.

    Args:
        x: Inputs, see `poisson_batches`, as for all arguments.
        y: Targets.
        expected_batch_size: Mean number of examples in a batch.
        sample_weight: Weights.
        person: Owner of each row.
        most_per_person: The most rows of a person in an update.

    Attributes:
        examples: `ExamplesInMemory` or `ExamplesOnDemand`, of rows.
        persons: `tfdpnorm.data.persons.Persons`, or None where each row is an example.
    """

    def __init__(
        self,
        x: Any,
        y: Any = None,
        *,
        expected_batch_size: float,
        sample_weight: Any = None,
        person: ArrayLike | None = None,
        most_per_person: int | None = None,
    ) -> None:
        self.examples = _examples(x, y, sample_weight)
        if (person is None) != (most_per_person is None):
            given = "person" if most_per_person is None else "most_per_person"
            raise ValueError(
                f"Expected person and most_per_person together, got only {given}. Give the person "
                "of each row, and how many rows of a person an update may read."
            )
        self.persons = None if person is None else Persons(person, most_per_person)
        rows = self.examples.count
        if self.persons is not None and self.persons.rows != rows:
            raise ValueError(
                f"Expected person to have {rows} values, one for each row, got {self.persons.rows}."
            )
        self._num_examples = (self.persons or self.examples).count
        self._expected_batch_size = _checked_batch_size(expected_batch_size, self._num_examples)

    @property
    def num_examples(self) -> int:
        """Number of private examples, N: of persons, or of rows."""
        return self._num_examples

    @property
    def most_per_person(self) -> int | None:
        """The most rows of a person in a batch, R; None where each row is an example."""
        return self.persons and self.persons.most

    @property
    def expected_batch_size(self) -> float:
        """Mean number of examples in a batch, q N."""
        return self._expected_batch_size

    @property
    def sampling_rate(self) -> float:
        """Probability q that an example is in a batch."""
        return self._expected_batch_size / self._num_examples

    @property
    def x(self) -> Any:
        """The inputs as NumPy arrays [rows, ...], in their structure; not copied.

        Where they are read on demand, these are `UnreadArray`s, which have a shape and a type.
        """
        return self.examples.parts[0]

    @property
    def y(self) -> Any:
        """The targets, as `x`; None without any."""
        return self.examples.parts[1]

    @property
    def sample_weight(self) -> Any:
        """The weights as `x`, float32 [rows, ...]; ones if none were given."""
        return self.examples.parts[2]

    def as_dataset(
        self,
        slots: Slots | None = None,
        *,
        insecure_seed: int | None = None,
        first_update: int = 0,
        shared: SharedLots | None = None,
    ) -> tf.data.Dataset:
        """Returns an infinite dataset of `Lot`s, one for each update.

        A batch has K physical batches of P rows, whatever it draws. Every new iteration draws new
        batches.

        Args:
            slots: `tfdpnorm.privacy.slots.Slots`, K, P and S. They have to depend on public numbers
                only, as those of `slots_of_plan` do, which also belong to an epsilon. None for one
                physical batch, into which a million batches fit except with a probability of 1e-9.
            insecure_seed: None draws from the operating system's entropy. An integer >= 0 makes
                batch number t depend on (insecure_seed, t) and `slots` alone: repeatable, and no
                longer secret, so that no privacy guarantee holds. Its members do not depend on
                `slots`.
            first_update: number of the first batch, which matters with `insecure_seed` and `shared`
                only.
            shared: `tfdpnorm.data.shared_lots.SharedLots`, for the same batches in several
                processes, of which this one gets its share of the physical batches; None for one
                process.

        Returns:
            A `tf.data.Dataset` with elements `Lot`.

        Raises:
            TypeError, ValueError: if an argument is not of its type or in its range.
        """
        if slots is None:
            count = self._num_examples
            slots = slots_for(most_per_batch_for(count, self.sampling_rate, _HARDLY_EVER))
        elif not isinstance(slots, Slots):
            raise TypeError(
                f"Expected slots to be Slots(batches, rows) or None, got {slots!r}. Compute them "
                "with tfdpnorm.privacy.slots.slots_of_plan."
            )
        first_update = arguments.integer("first_update", first_update, at_least=0)
        if insecure_seed is not None:
            insecure_seed = arguments.integer("insecure_seed", insecure_seed, at_least=0)

        # TensorFlow keeps a function of NumPy for as long as its outermost graph, which can be
        # the process: `draw` holds numbers only, or the data would stay with it.
        num_examples, sampling_rate = self._num_examples, self.sampling_rate
        most_drawn = slots.most_per_batch
        batches = slots.batches if shared is None else len(shared.share_of(range(slots.batches)))
        no_row, most, persons = self.examples.count, self.most_per_person, self.persons

        def draw(update, *index):
            if insecure_seed is not None:
                bits = insecure_bits(insecure_seed, int(update))
            elif shared is not None:
                bits = shared.bits(int(update))
            else:
                bits = secret_bits
            rows = truncated(poisson_rows(num_examples, sampling_rate, bits), most_drawn, bits)
            if index:
                rows = rows_of_persons(rows, *index, most, bits)
            # The row after the last is the row of zeros.
            placed = np.full((slots.batches * slots.rows, *rows.shape[1:]), no_row, dtype=np.int64)
            placed[random_slots(len(rows), len(placed), bits)] = rows
            placed = placed.reshape(slots.batches, slots.rows, *rows.shape[1:])
            return placed if shared is None else shared.share_of(placed)

        def gather(update):
            index = () if persons is None else persons.index
            rows = tf.numpy_function(draw, [update, *index], tf.int64, stateful=True)
            if persons is not None:
                rows.set_shape([batches, slots.rows, most])
                return Lot(*lot_of_persons(self.examples, rows))
            rows.set_shape([batches, slots.rows])
            x, y, sample_weight = self.examples.lot(rows)
            mask = tf.cast(rows < no_row, tf.float32)
            return Lot(x, y, sample_weight, mask)

        # Converting takes time, and is for functions of users: those of a `MappedSource`.
        if not self.examples.is_read_on_demand:
            gather = as_written(gather)
        return tf.data.Dataset.counter(start=first_update).map(gather).prefetch(2)

    def __repr__(self):
        return (
            f"PoissonBatches(num_examples={self._num_examples}, "
            f"expected_batch_size={self._expected_batch_size}, "
            f"sampling_rate={self.sampling_rate:.6g})"
        )


def _examples(x, y, sample_weight):
    """The examples that batches are drawn from: `ExamplesInMemory` or `ExamplesOnDemand`."""
    if isinstance(x, tf.data.Dataset):
        raise TypeError(_NO_DATASET.format(type(x).__name__))
    if is_source(x):
        if y is not None or sample_weight is not None:
            raise ValueError(
                "Expected y and sample_weight in the examples of a source, (x, y) or (x, y, "
                f"sample_weight), got them as separate arguments with a {type(x).__name__}. Let "
                "one object return all of them."
            )
        return source_on_demand(x)
    leaves = []
    arrays.map_leaves(lambda leaf, _: leaves.append(leaf), (x, y, sample_weight), "")
    nested = [type(leaf).__name__ for leaf in leaves if is_source(leaf)]
    if nested:
        raise TypeError(
            f"Expected arrays, or one source by itself, got a {nested[0]} among other things. Make "
            "one source whose examples hold all of them: (x, y), where x may be a tuple or a dict."
        )
    if any(map(is_unread, leaves)):
        return columns_on_demand(x, y, sample_weight)
    return ExamplesInMemory(x, y, sample_weight)


def _checked_batch_size(value, num_examples):
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(f"Expected expected_batch_size to be a number, got {value!r}.")
    if not 0 < value <= num_examples:  # NaN fails too.
        raise ValueError(
            f"Expected 0 < expected_batch_size <= the number of examples, got "
            f"expected_batch_size={value} and {num_examples} examples. "
            "Pass all examples, as many as num_examples says, or choose a smaller batch."
        )
    return int(value) if isinstance(value, numbers.Integral) else float(value)
