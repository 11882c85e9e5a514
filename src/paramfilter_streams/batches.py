"""What some messages ask of the states: steps, in rounds of one for each series."""

from __future__ import annotations

from paramfilter_streams.ordering import Step


class Batch:
    """Rounds in which each series takes at most one step.

    Attributes:
        rounds: Series that start from the prior, and the steps after that.
        num_messages: Messages that it was made of.
        num_filled: Steps without an event.
        repeated: Series and sequence number of steps whose outputs were written before.
    """

    def __init__(self):
        self.rounds: list[tuple[list[str], list[tuple[str, Step]]]] = []
        self.num_messages = self.num_filled = 0
        self.repeated: set[tuple[str, int]] = set()
        self._next_round: dict[str, int] = {}

    def add(self, name: str, step: Step, is_written: bool) -> None:
        """Put a step after those that its series has."""
        number = self._next_round.get(name, 0)
        self._next_round[name] = number + 1
        self.num_filled += step.event is None
        if is_written:
            self.repeated.add((name, step.sequence))
        self._round(number)[1].append((name, step))

    def start(self, name: str) -> None:
        """Let a series start from the prior before its next step."""
        self._round(self._next_round.get(name, 0))[0].append(name)

    def _round(self, number: int) -> tuple[list[str], list[tuple[str, Step]]]:
        if number == len(self.rounds):
            self.rounds.append(([], []))
        return self.rounds[number]
