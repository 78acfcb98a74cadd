"""Random numbers: what is drawn alike and apart for all places, and so may move with the examples.

Lemma. If the entries of a tensor are drawn alike and independently of each other, then permuted
entries are drawn like the entries. So if examples are permuted, runs may be compared in which what
is drawn for their places is permuted alike: whatever is computed from both is as likely as before.
A draw has one layout: all that is computed from it sees it permuted, or all sees it as it is. The
same goes for all draws that give the same numbers, since they have the same seed.

Taken for drawn are the operations of TensorFlow that have state, whatever seed they were given, and
operations without state whose seed comes from such numbers, or from a `tf.random.Generator`. As
README says, it is assumed that nobody knows these numbers. One more assumption is made here: what
has different seeds, or comes from different generators, is independent. Numbers from a seed that
the graph itself says are public, and so differ from place to place.
"""

from typing import Any, NamedTuple

import numpy as np

from tfdpnorm.audit.row_independence.proof.constants import folded
from tfdpnorm.audit.row_independence.proof.verdicts import Rows

# What the shape says is drawn alike; the parameters of the others are entries of tensors.
_OF_A_SHAPE = """
RandomStandardNormal RandomUniform RandomUniformInt StatefulStandardNormal StatefulStandardNormalV2
StatefulTruncatedNormal StatefulUniform StatefulUniformFullInt StatefulUniformInt TruncatedNormal
StatelessRandomNormal StatelessRandomNormalV2 StatelessRandomUniform StatelessRandomUniformFullInt
StatelessRandomUniformFullIntV2 StatelessRandomUniformInt StatelessRandomUniformIntV2
StatelessRandomUniformV2 StatelessTruncatedNormal StatelessTruncatedNormalV2
""".split()
_SHAPE_FIRST = ("RandomGamma", "RandomPoisson", "RandomPoissonV2")
_SHAPE_BEHIND = ("StatefulRandomBinomial",)
_OTHERS = ("Multinomial", "ParameterizedTruncatedNormal", "RandomShuffle", "StatelessMultinomial")
_DRAWS = frozenset((*_OF_A_SHAPE, *_SHAPE_FIRST, *_SHAPE_BEHIND, *_OTHERS))
_GENERATOR = "RngReadAndSkip"
# They give entries other places, or leave all of what was drawn in them.
_SEEDS_MOVED = """
Bitcast Cast ConcatV2 ExpandDims Identity Pack Reshape Slice Split SplitV Squeeze StridedSlice
Transpose Unpack
""".split()
_SEEDS_MIXED = ("StatelessRandomGetKeyCounter",)
BATCH_WIDE = "is drawn once for a whole physical batch, of which a lot may have several"
_LONGEST_SEED = 64  # entries
_SEEDS = ("seed", "key", "counter")  # names of arguments


class Draw(NamedTuple):
    """One draw that may move with the examples.

    Attributes:
        key: What tells its numbers from those of others.
        kind: What two draws of the same numbers have to agree in, to move alike.
        rows: `Rows` that its result is.
    """

    key: Any
    kind: tuple
    rows: Rows


class Seed(NamedTuple):
    """What is known of a tensor that may be the seed of random numbers.

    Attributes:
        key: What tells its values from those of others.
        shape: Its shape.
        drawn: For each entry in order whether it was drawn.
    """

    key: Any
    shape: tuple
    drawn: tuple


class Draws:
    """The draws of one proof: which of them move with the examples.

    They are found on a walk. On the next one they are of rows from the start, so that every rule
    sees them as rows, wherever they are used.
    """

    def __init__(self):
        self._moving = {}
        self._wanted = {}
        self._batch_wide = {}
        self._written = {}

    @property
    def batch_wide(self):
        """Tuple of `Mixed`: the draws for all rows of a physical batch that rows depend on.

        The proof takes them for free. But without one example of a lot, others move from one
        physical batch to another.
        """
        return tuple(self._batch_wide.values())

    @property
    def written(self):
        """Tuple of `Mixed`: the operations that give variables new values, free ones."""
        return tuple(self._written.values())

    def write(self, note):
        """Notes that a variable is changed."""
        self._written[note.op_name] = note

    def share(self, notes):
        """Notes that rows depend on these."""
        self._batch_wide.update((note.op_name, note) for note in notes)

    def want(self, draws):
        """Notes that these `Draw`s have to move with the examples."""
        for draw in draws:
            self._wanted.setdefault(draw.key, draw)

    def settle(self):
        """Makes of rows what was wanted; returns whether that is anything new."""
        new = {key: draw for key, draw in self._wanted.items() if key not in self._moving}
        self._moving.update(new)
        self._wanted.clear()
        if new:
            self._batch_wide.clear()
            self._written.clear()
        return bool(new)

    def of(self, node, seeds):
        """What is known of the result of an operation that draws.

        Args:
            node: `Node`.
            seeds: `Seed` or None of each of its inputs.

        Returns:
            Its verdict if it moves with the examples, a `Rows`; a `Mixed` if it would have to move
            in two ways; else a dict from `Rows` to a frozenset of `Draw`, which is empty for
            numbers that are not drawn alike.
        """
        key, shape = _key_of(node, seeds), node.output_shape()
        if key is None:
            return {}
        kind = _kind_of(node)
        moving = self._moving.get(key)
        if moving is not None:
            if moving.kind == kind:
                return moving.rows
            return node.mixed("draws by the same seed as another, but not as many numbers alike")
        if shape is None or None in shape:
            return {}
        layouts = layouts_of(shape, _drawn_alike(node, len(shape)), node.examples)
        return {rows: frozenset([Draw(key, kind, rows)]) for rows in layouts}

    def for_each(self, node, seeds, rows):
        """The verdict on what is drawn from rows, for each of them by random numbers of its own.

        Args:
            node: `Node`.
            seeds: `Seed` or None of each of its inputs.
            rows: `Rows` of what it draws from, and of what it gives.
        """
        key = _key_of(node, seeds)
        if key is None:
            why = "draws by a public seed, so that the numbers differ from place to place"
            return rows if node.examples == 1 else node.mixed(why)
        # From even rows and from others the same numbers are made into different ones.
        draw = Draw(key, (*_kind_of(node), "for each of the rows"), rows)
        if self._moving.get(key, draw) != draw:
            return node.mixed("draws by the same seed as another, but not as many numbers alike")
        node.draws.add(draw)
        return rows


def seed_inputs(op):
    """Numbers of the inputs of an operation that are the seed that it draws by, a set."""
    if op.type not in _DRAWS:
        return set()
    names = [argument.name for argument in op.op_def.input_arg]
    return {names.index(n) for n in _SEEDS if n in names}


def is_draw(op_type):
    """Whether operations of this type draw random numbers."""
    return op_type in _DRAWS


def for_all(node, seeds, given):
    """The draws for all rows of a physical batch that a free result depends on.

    Args:
        node: `Node`.
        seeds: `Seed` or None of each of its inputs.
        given: Frozenset of those draws that its inputs depend on.
    """
    draws = node.op.type in _DRAWS or node.op.type == _GENERATOR
    if draws and _key_of(node, seeds) is not None:
        return frozenset([node.mixed(BATCH_WIDE)])
    return given


def layouts_of(shape, axes, examples, multiple_of=1):
    """All `Rows` that a tensor of this shape may be, on given axes.

    Args:
        shape: Tuple of numbers and None.
        axes: Numbers of axes.
        examples: P.
        multiple_of: What the number of entries of one example has to be a multiple of.
    """
    found = []
    for axis in axes:
        each, rest = divmod(shape[axis] or 0, examples)
        if each and not rest:
            sizes = range(multiple_of, each + 1, multiple_of)
            found += [Rows(axis, m, each // m) for m in sizes if each % m == 0]
    return found


def seed_of(node, k, seeds):
    """`Seed` of output k of an operation with these inputs' seeds, or None."""
    op, shape = node.op, node.output_shape(k)
    begins = op.type == _GENERATOR or op.type in _DRAWS
    if not (begins or any(seeds)) or not op.outputs[k].dtype.is_integer:
        return None
    if shape is None or None in shape or np.prod(shape) > _LONGEST_SEED:
        return None
    if begins:
        key = _key_of(node, seeds)
        return None if key is None else Seed((key, k), shape, (True,) * int(np.prod(shape)))
    if op.type in _SEEDS_MIXED and seeds[0] is not None and any(seeds[0].drawn):
        return Seed((op.type, k, seeds[0].key), shape, (True,) * int(np.prod(shape)))
    return _moved(node, k, seeds, shape) if op.type in _SEEDS_MOVED else None


def _moved(node, k, seeds, shape):
    """The seed that an operation makes of others and of constants."""
    keys, masks, values = [], [], []
    for i, seed in enumerate(seeds):
        value = node.constant(i)
        if seed is None and value is None:
            return None
        keys.append((value.shape, value.tobytes()) if seed is None else seed.key)
        masks.append(value if seed is None else np.reshape(seed.drawn, seed.shape))
        values.append(seed is None)
    if node.op.type in ("Pack", "ConcatV2"):
        last = len(masks) - (node.op.type == "ConcatV2")
        masks[:last] = [
            np.zeros(m.shape, bool) if constant else m
            for m, constant in zip(masks[:last], values, strict=False)
        ]
    if node.op.type == "Bitcast":
        mask = masks[0] if masks[0].shape == shape else None
    else:
        mask = folded(node.op, k, masks)
    if mask is None or mask.shape != shape or not mask.any():
        return None
    attributes = node.op.node_def.attr
    settings = tuple(f"{n}={attributes[n]}" for n in sorted(attributes) if n[0] != "_")
    key = (node.op.type, k, settings, tuple(keys))
    return Seed(key, shape, tuple(bool(x) for x in mask.reshape(-1)))


def _key_of(node, seeds):
    """What tells the numbers of a draw from those of others; None if they are not drawn."""
    op, place = node.op, node.walk.path + node.op.name
    if not op.type.startswith("Stateless"):
        given = [op.get_attr(n) for n in ("seed", "seed2") if n in op.node_def.attr]
        return ("seed", *given) if any(given) else ("place", place)
    own = [seeds[i] for i in sorted(seed_inputs(op))]
    if any(seed is None or not any(seed.drawn) for seed in own):
        return None
    keys = [seed.key for seed in own]
    if len(keys) == 1:  # operations of version 1 make key and counter from it themselves
        keys = [(_SEEDS_MIXED[0], k, keys[0]) for k in range(2)]
    return ("seeds", *keys)


def _kind_of(node):
    """What two draws of the same numbers have to agree in, to move alike."""
    attributes = node.op.node_def.attr
    names = ("dtype", "T", "Tout", "output_dtype")
    return node.op.type, node.output_shape(), *(str(attributes[n]) for n in names)


def _drawn_alike(node, rank):
    """The axes along which the numbers are drawn alike, and apart from each other."""
    op_type = node.op.type
    if op_type in _OF_A_SHAPE:
        return range(rank)
    if op_type in _SHAPE_FIRST:
        return () if node.rank(1) is None else range(rank - node.rank(1))
    ranks = [node.rank(i) for i in (3, 4)] if op_type in _SHAPE_BEHIND else [None]
    return () if None in ranks else range(rank - max(ranks))
