"""The noisy answers about validation examples that a run asked for, and what they were."""

import dataclasses


@dataclasses.dataclass
class ValidationQueries:
    """Counts queries by name, noise and kind of example, and keeps the answers by position."""

    # How often asked, and how often planned, by (name, noise multiplier, disjoint).
    _counts: dict[tuple[str, float, bool], tuple[int, int]] = dataclasses.field(
        default_factory=dict
    )
    _unanswered: dict[str, int] = dataclasses.field(default_factory=dict)  # Position, by name.
    _answers: dict[tuple[str, int], float] = dataclasses.field(default_factory=dict)

    def ask(self, name, noise_multiplier, *, disjoint, planned, position):
        """Counts a query that is asked at `position`; `planned` is 0 where no number is known."""
        key = (name, noise_multiplier, disjoint)
        asked, planned_before = self._counts.get(key, (0, 0))
        self._counts[key] = (asked + 1, max(planned_before, planned))
        self._unanswered[name] = position

    def awaits_answer(self, name):
        """Whether the last query of that name has no answer yet."""
        return name in self._unanswered

    def keep_answer(self, name, value):
        """Keeps the answer to the last query of that name, at the position where it was asked."""
        self._answers[name, self._unanswered.pop(name)] = value

    def answer(self, name, position):
        """Returns the answer given at `position`, a float, or None."""
        return self._answers.get((name, position))

    def resume(self, position):
        """Forgets the queries without an answer, and the answers about lost weights.

        The process that asked the former has ended; the latter are those after `position`.
        """
        self._unanswered.clear()
        self._answers = {key: value for key, value in self._answers.items() if key[1] <= position}

    def asked(self, name):
        """How often a query of that name was asked."""
        return sum(asked for (known, *_), (asked, _) in self._counts.items() if known == name)

    def count(self, *, disjoint, whole_plan=False):
        """How often queries about examples of that kind were asked; arguments as `mechanisms`."""
        asked = self.mechanisms(disjoint=disjoint, whole_plan=whole_plan)
        return sum(count for _, _, count in asked)

    def mechanisms(self, *, disjoint, whole_plan):
        """Returns what the queries released, for `composed_epsilon`.

        Args:
            disjoint: About examples of which kind.
            whole_plan: Whether to count at least the queries planned.

        Returns:
            A list of (1.0, noise multiplier, count): every query looks at all of the examples.
        """
        return [
            (1.0, noise_multiplier, max(asked, planned) if whole_plan else asked)
            for (_, noise_multiplier, kind), (asked, planned) in self._counts.items()
            if kind == disjoint
        ]
