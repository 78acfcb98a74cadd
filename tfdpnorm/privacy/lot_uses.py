"""How many updates were released, and how many of them from the same lot.

An update that is counted again was drawn from the *same lot*, so that sampling hides that lot only
once. m releases of one lot are composed as one Poisson-sampled Gaussian mechanism with noise
multiplier z / sqrt(m), which costs more than m updates on lots of their own. (They are answers of
one interactive mechanism to adaptive queries; those compose concurrently: Lyu 2022; Vadhan & Zhang
2023.) With new keys, lots are new.
"""

import collections
import copy
import dataclasses


@dataclasses.dataclass
class LotUses:
    """Counts updates by their positions, and the lots that several of them were drawn from.

    Attributes:
        updates: All updates counted, an int.
    """

    updates: int = 0
    _drawn_to: int = 0  # The highest position whose lot, of the present keys, was used.
    # Lots that were used more than once: how often, by position, for those of the present keys;
    _uses: dict[int, int] = dataclasses.field(default_factory=dict)
    # and how many there are, by how often, for those of all keys.
    _lots: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)

    def count(self, positions):
        """Counts an update at each of `positions`, a range."""
        self.updates += len(positions)
        for position in range(positions.start, min(positions.stop, self._drawn_to + 1)):
            uses = self._uses.get(position, 1)
            if uses > 1:
                self._lots[uses] -= 1
            self._uses[position] = uses + 1
            self._lots[uses + 1] += 1
        if positions:
            self._drawn_to = max(self._drawn_to, positions[-1])

    def uncount(self, positions):
        """Takes back one of several updates that were counted at each of `positions`, a list."""
        self.updates -= len(positions)
        for position in positions:
            uses = self._uses.pop(position)
            self._lots[uses] -= 1
            if uses > 2:
                self._uses[position] = uses - 1
                self._lots[uses - 1] += 1

    def resume(self, position, *, same_randomness):
        """Notes that lots after `position` are drawn again, with the same keys or with new ones."""
        if not same_randomness:
            self._drawn_to = position
            self._uses.clear()
        self._drawn_to = max(self._drawn_to, position)

    def after(self, positions):
        """Returns a copy that has counted an update at each of `positions` besides, a range."""
        counted = copy.deepcopy(self)
        counted.count(positions)
        return counted

    def used_after(self, position):
        """How often the lots after `position` were used, up to the last one: a tuple of ints."""
        return tuple(self._uses.get(p, 1) for p in range(position + 1, self._drawn_to + 1))

    @property
    def shared(self):
        """Pairs (m, number of lots that m > 1 updates were drawn from), a list by rising m."""
        return sorted((uses, lots) for uses, lots in self._lots.items() if lots)

    @property
    def single(self):
        """The number of updates that were drawn from lots of their own."""
        # Not below 0: after a checkpoint of older keys, unused lots may be taken for used ones.
        return max(0, self.not_shared)

    @property
    def not_shared(self):
        """`updates` without those of `shared`; as `single`, but for being negative there."""
        return self.updates - sum(uses * lots for uses, lots in self.shared)
