"""A member that answers without the value that the others give: its answer is not whole. Pure.

[Note: whose value is missing]
A probe need not give a value, nor give it on each rank: many print it on rank 0, or on the first device of a host. So a
missing value is a failure only where few devices have ever lacked theirs, and others gave one at the same place: first
of the set or not, first of its host or not, alone or in company.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from emberward.doctor._fleet import Fleet, Result, SetOutcome

LEAST_GAVE = 3
"""So many devices must have given a value, and as many times those that lacked one."""

Place = tuple[bool, bool, bool]


class Answers:
    """Which devices gave a value, and which lacked theirs. See [Note: whose value is missing]."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._gave: dict[Place, set[int]] = defaultdict(set)
        self._lacked: set[int] = set()

    def judged(self, results: Sequence[Result]) -> list[Result]:
        """The results of a round; a test that passed has failed where a member's answer is not whole."""
        for result in results:
            if result.outcome is SetOutcome.PASS:
                for number, place in self._places(result):
                    if number in result.values:
                        self._gave[place].add(number)
                    else:
                        self._lacked.add(number)
        return [self._judge(result) for result in results]

    def _judge(self, result: Result) -> Result:
        num_gave = len(set().union(*self._gave.values()))
        if result.outcome is not SetOutcome.PASS or num_gave < LEAST_GAVE * max(len(self._lacked), 1):
            return result
        lacks = {n for n, place in self._places(result) if n not in result.values and self._gave[place] - {n}}
        if not lacks:
            return result
        reports = {n: "ok without a value, which the others gave" for n in lacks}
        return replace(
            result,
            outcome=SetOutcome.FAIL,
            failed=result.failed | lacks,
            reports={**result.reports, **reports},
        )

    def _places(self, result: Result) -> Iterator[tuple[int, Place]]:
        met: set[str] = set()
        for rank, number in enumerate(result.devices):
            host = self._fleet.devices[number].host
            yield number, (len(result.devices) > 1, rank == 0, host not in met)
            met.add(host)
