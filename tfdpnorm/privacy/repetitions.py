"""Which updates of a resumed run repeat what was released before, and which have to be counted.

With the secret keys of before, a resumed run repeats the updates after its checkpoint on the same
lots with the same noise. They release what they released before, and are free. Which of them are
is decided as follows.

- An update was announced, but neither recorded as made nor followed by another entry that relies
  on it. Then it has not left the dead process: its repetition is free. A process that survives an
  interrupt says so by an entry, which relies on it: its weights may have been seen.
- Every other repetition is compared by its digest, where a digest was recorded at the same position
  before. It is free if the digest is the same. A digest stands for all of the run up to there. So
  it also confirms the repetitions before it that could not be compared, because the announcements
  were cut differently. *Until then they are counted*. They stay counted if the run dies or passes
  the last known digest first.
- A repetition that differs is counted, with those before it that are unconfirmed. Every further
  update of that run is counted too. This assumes that another sum got other noise, which holds if
  the noise is keyed by what it is added to: the same noise on two sums would be no protection.

With new keys, lots and noise are new, and everything after the checkpoint is counted.
"""

import dataclasses

_NONE = range(0)


@dataclasses.dataclass
class Repetitions:
    """Follows a run through updates and resumptions, and says which positions to count.

    A position is a number of updates that some weights have seen; an update has the position that
    it leads to. The "chain" below is the run as it last went with the present keys, through all of
    its processes.

    Attributes:
        position: Updates that the present weights have seen.
        highest: The highest position ever announced, with whatever keys.
        resumes: How often the run was resumed.
        same_to: Up to here, the present process is known to have repeated the chain.
    """

    position: int = 0
    highest: int = 0
    resumes: int = 0
    same_to: int = 0
    # Of the chain:
    _announced_to: int = 0  # The highest position announced.
    _shown_to: int = 0  # The highest position that may have left the process.
    _digests: dict[int, int] = dataclasses.field(default_factory=dict)  # By position.
    # Of the chain as it was when the present process began:
    _free_to: int = 0  # Up to here, updates are repetitions,
    _compare_to: int = 0  # and up to here, only an equal digest makes them free.
    # Of the present process:
    _pending: range | None = None  # The positions to compare, while `made` has to come.
    _unconfirmed: list[int] = dataclasses.field(default_factory=list)  # Counted: without digest.

    @property
    def free(self):
        """How many of the next updates are repetitions, and so free unless they differ."""
        return max(0, self._free_to - self.position)

    @property
    def awaits_made(self):
        """Whether updates were announced that were not recorded as made yet."""
        return self._pending is not None

    @property
    def pending(self):
        """The positions to count if nothing shows what the announced updates gave, a range."""
        return self._pending or _NONE

    def rely(self):
        """Notes that an entry follows which may rest on the announced updates, made or not.

        Returns:
            The positions to count, a range: the repetitions that no digest will be given for.
        """
        if not self.awaits_made:
            return _NONE
        self._shown_to = max(self._shown_to, self.position)
        return self._leave_unconfirmed()

    def interrupt(self):
        """Notes that the process lives on, and that some of the announced updates were made.

        Returns:
            The positions to count, as in `rely`.
        """
        counted, self._pending = self.rely(), None
        return counted

    def announce(self, count):
        """Notes that `count` updates are about to be made.

        Returns:
            The positions to count, a range: the updates that repeat nothing.
        """
        first, self.position = self.position + 1, self.position + count
        self._pending = range(first, min(self.position, self._compare_to) + 1)
        self._announced_to = max(self._announced_to, self.position)
        self.highest = max(self.highest, self.position)
        return range(max(first, self._free_to + 1), self.position + 1)

    def differs(self, digest):
        """Whether another digest than `digest` was recorded at the present position."""
        return self._digests.get(self.position, digest) != digest

    def counted_if_made(self, digest):
        """The positions that `made` would have counted, a range; changes nothing."""
        return _NONE if self._digests.get(self.position) == digest else self.pending

    def made(self, digest):
        """Notes that the announced updates were made, and came out as `digest`.

        Returns:
            (counted, confirmed): the positions to count, a range, and a list of those that were
            counted and now turn out to be repetitions.
        """
        known = self._digests.get(self.position)
        counted, confirmed = _NONE, []
        if known == digest:
            confirmed, self._unconfirmed = self._unconfirmed, []
            self.same_to = self.position
        else:
            counted = self._leave_unconfirmed()
            if known is not None:
                self._begin_chain(at=self.position, keep=self.same_to)
        self._pending = None
        self._digests[self.position] = digest
        self._shown_to = max(self._shown_to, self.position)
        return counted, confirmed

    def resume(self, position, *, same_randomness):
        """Notes that a new process goes on from `position`, with the same keys or with new ones."""
        self.resumes += 1
        self._pending, self._unconfirmed = None, []
        if not same_randomness:
            self._begin_chain(at=position, keep=position)
        # The checkpoint itself has left its process, whichever chain it is of.
        self._announced_to = max(self._announced_to, position)
        self._shown_to = max(self._shown_to, position)
        self._free_to, self._compare_to = self._announced_to, self._shown_to
        self.position = self.same_to = position

    def _leave_unconfirmed(self):
        """Returns the positions that wait for a digest, and lets them wait for a later one."""
        counted, self._pending = self._pending, _NONE
        self._unconfirmed += counted
        return counted

    def _begin_chain(self, *, at, keep):
        """From here on, nothing repeats what was recorded after position `keep`."""
        self._digests = {p: digest for p, digest in self._digests.items() if p <= keep}
        self._announced_to = self._shown_to = self._free_to = self._compare_to = at
