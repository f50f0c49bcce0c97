"""Which devices a probe found in use, who of a set that refused it was, and whom to ask again. Pure."""

from collections.abc import Sequence

from emberward.doctor._choose import halves
from emberward.doctor._fleet import Result, Set, SetOutcome, Talk

MAX_ASKS = 3


class Busy:
    """Counts for one probe how often each device was in use; `asks` holds those that are."""

    def __init__(self, talk: Talk) -> None:
        self.asks: dict[int, int] = {}
        self._talk = talk
        self._refused: list[Set] = []
        self._is_own_word = False
        self._num_asked = 0

    def learn(self, results: Sequence[Result]) -> list[Result]:
        """The results that say more than that somebody is busy."""
        for result in sorted(results, key=lambda result: len(result.busy) == len(result.devices)):
            # A set that refuses the work for one busy member says nothing of the others, until members answer apart.
            self._is_own_word |= bool(result.busy) and len(result.busy) < len(result.devices)
            is_refused = 1 < len(result.devices) == len(result.busy)
            if is_refused and not self._is_own_word and (parts := self._parts_of(result.devices)):
                self._refused += parts
                continue
            for number in result.busy:
                self.asks[number] = self.asks.get(number, 0) + 1
            if result.outcome is not SetOutcome.BUSY:
                for number in set(result.devices) - result.busy:
                    self.asks.pop(number, None)
        return [result for result in results if result.outcome is not SetOutcome.BUSY]

    def _parts_of(self, devices: Set) -> list[Set]:
        """Smaller sets that tell who of a set is busy; none where the probe needs as many."""
        if self._talk is not Talk.TOGETHER:
            return [(number,) for number in devices]
        return halves(list(devices)) if len(devices) > 3 else []

    def refused(self) -> list[Set]:
        """The sets that tell who was busy where whole sets refused, once."""
        asked, self._refused = self._refused, []
        return asked

    def asked_again(self, suspects: Sequence[int], *, is_needed: bool) -> list[Set]:
        """A suspect beside a device that was found busy, the last first, in the hope that it has become free.

        None where they have been asked often enough, or where it is not needed: who is in use may be so for hours.
        """
        waiting = [n for n, asks in self.asks.items() if asks <= MAX_ASKS]
        if not is_needed or not waiting or self._num_asked >= MAX_ASKS * len(self.asks):
            return []
        self._num_asked += 1
        if not suspects or self._talk is Talk.ALONE:
            return [(waiting[-1],)]
        mate = waiting[-1 - (self._num_asked - 1) % len(waiting)]
        return [(min(suspects[0], mate), max(suspects[0], mate))]
