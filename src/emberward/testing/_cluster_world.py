"""What is true of a simulated cluster, whoever knows it: which hosts, links, ranks and ways to the collector work."""

import random
from collections import Counter
from enum import StrEnum

STEP_S = 1.0
FAULT_AT_S = 8.0
FROZEN_S = 8.0
"""Of `Disturbance.FROZEN`: an agent says nothing of its links for so long from the fault on."""
LOSSES = (0.0, 0.02, 0.15)
"""Shares of letters, or of their answers, that the network loses."""
STILL_AFTER_S = 2.0
"""From a fault of the job's link to ranks that stand still: as long as a step of this job takes."""
NUM_BAD_S = 2.0
"""As `Prober`: two tries a second apart."""


class Trouble(StrEnum):
    """What befalls the job, FAULT_AT_S after its start."""

    NOTHING = "nothing"
    POWER = "a host loses its power"
    CUT = "the job's link of a host is cut"
    PAIR = "two hosts do not reach each other"
    SPLIT = "the job's network falls into two groups"
    SLOW = "a host's link has half its speed"
    PROGRAM = "the program raises on one rank"


class Disturbance(StrEnum):
    """What befalls the hosts' way to the collector meanwhile."""

    NOTHING = "nothing"
    COLLECTOR = "the collector begins anew, up to three times"
    PARTED = "some hosts do not reach the collector for a while"
    PARTED_AND_COLLECTOR = "some hosts do not reach it for a while, and it begins anew"
    FROZEN = "an agent stands still for 8 s"
    AGENTS = "agents begin anew"


NAMES_ONE = frozenset({Trouble.POWER, Trouble.CUT})
ENDS_NO_ATTEMPT = frozenset({Trouble.NOTHING, Trouble.SLOW})
MOVES_COLLECTOR = frozenset({Disturbance.COLLECTOR, Disturbance.PARTED_AND_COLLECTOR})

SHORT_S, LONG_S = 60.0, 95.0


class World:
    """See above. All is drawn from `rng`."""

    def __init__(
        self, trouble: Trouble | None, disturbance: Disturbance | None, names: tuple[str, ...], rng: random.Random
    ) -> None:
        self.now_s = 0.0
        # Of three hosts the smaller group is one host, which is cut off.
        possible = [each for each in Trouble if each is not Trouble.SPLIT or len(names) > 3]
        self.trouble = trouble or rng.choice(possible)
        self.disturbance = disturbance or rng.choice(list(Disturbance))
        self.loss = rng.choice(LOSSES)
        self.victim, self.other = rng.sample(names, 2)
        group = rng.sample(names, rng.randint(2, len(names) // 2)) if len(names) >= 4 else [self.victim]
        self.group = frozenset(group)
        self._parted = frozenset(rng.sample(names, rng.randint(1, max(2 * len(names) // 3, 1))))
        self._parted_from_s = FAULT_AT_S + rng.uniform(-5.0, 15.0)
        self._parted_until_s = self._parted_from_s + rng.uniform(5.0, 40.0)
        self._num_hosts = len(names)
        self._names = names
        self.runs: Counter[int] = Counter()
        """attempt -> hosts that make it now."""
        self.num_out: dict[int, int] = {0: 0}
        """attempt -> hosts that it leaves out."""
        self.broke_s: dict[int, float] = {}
        """attempt -> when ranks of it ended first: those that reach them fail soon."""

    @property
    def course_s(self) -> float:
        """How long all may take to agree and to make the next attempt.

        Longer where the collector is out of reach, or so many letters are lost that another attempt may end first.
        """
        is_late = self.loss == max(LOSSES) or self.disturbance in MOVES_COLLECTOR | {Disturbance.PARTED}
        return LONG_S if is_late else SHORT_S

    @property
    def has_begun(self) -> bool:
        """Whether the trouble has."""
        return self.now_s >= FAULT_AT_S

    def is_off(self, host: str) -> bool:
        """Whether the host has no power."""
        return self.has_begun and self.trouble is Trouble.POWER and host == self.victim

    def _is_link_down(self, a: str, b: str) -> bool:
        match self.trouble:
            case Trouble.POWER | Trouble.CUT:
                return self.victim in (a, b)
            case Trouble.PAIR:
                return {a, b} == {self.victim, self.other}
            case Trouble.SPLIT:
                return (a in self.group) != (b in self.group)
            case _:
                return False

    def is_reached(self, a: str, b: str) -> bool:
        """What a host knows of its link to another."""
        return not (self.now_s >= FAULT_AT_S + NUM_BAD_S and self._is_link_down(a, b))

    def is_slow(self, sender: str) -> bool:
        """Whether what it sends takes twice as long."""
        return self.has_begun and self.trouble is Trouble.SLOW and sender == self.victim

    def is_still(self, attempt: int) -> bool:
        """Whether ranks of this attempt stand still: a host that it needs is not reached."""
        if self.now_s < FAULT_AT_S + STILL_AFTER_S:
            return False
        match self.trouble:
            case Trouble.POWER | Trouble.CUT:
                return self.num_out[attempt] == 0
            case Trouble.PAIR | Trouble.SPLIT:
                return True
            case _:
                return False

    def is_connected(self, host: str) -> bool:
        """Whether the ranks of this host learn that others of their attempt have ended."""
        return not (self.has_begun and self.trouble is Trouble.CUT and host == self.victim)

    def makes_steps(self, attempt: int) -> bool:
        """Whether all that an attempt needs make it and reach each other."""
        return self.runs[attempt] == self._num_hosts - self.num_out[attempt] and not self.is_still(attempt)

    def is_parted(self, host: str) -> bool:
        """Whether the host does not reach the collector."""
        parts = self.disturbance in (Disturbance.PARTED, Disturbance.PARTED_AND_COLLECTOR)
        return parts and self._parted_from_s <= self.now_s < self._parted_until_s and host in self._parted

    def may_be_out(self, host: str) -> bool:
        """Whether a fault of hardware befell this host, or of the network that parts it from all by both ways."""
        if self.trouble in NAMES_ONE and host == self.victim:
            return True
        parts = self.disturbance in (Disturbance.PARTED, Disturbance.PARTED_AND_COLLECTOR)
        heard = [each for each in self._names if each not in self._parted]
        return parts and host in self._parted and all(self._is_link_down(host, each) for each in heard)

    def is_frozen(self, host: str) -> bool:
        """Whether its agent stands still."""
        lasts = FAULT_AT_S <= self.now_s < FAULT_AT_S + FROZEN_S
        return lasts and self.disturbance is Disturbance.FROZEN and host == self.other
