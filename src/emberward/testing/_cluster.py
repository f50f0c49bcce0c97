"""A simulated cluster: the real agents, collector, policy and ledger on a fake clock and network. One seed, one course.

[Note: what is real]
Of each host run `NodeAgent` with its `LetterMailbox`, what a supervisor decides for a finding that holds (`decide`),
who is left out (`named_host`) and which hosts make the next attempt (`without`); and the collector's `PostOffice`. Fake
are the clock, the transport of letters (loss of a letter or its answer, delay, late copies), the links, and the ranks,
which stand still while a host of their team is gone or cut off. Clocks of hosts are minutes apart: each agent gets its
own.

[Note: invariants]
1. Nobody is left out whom no fault of hardware befell.
2. No split brain: all that make the next attempt make it with the same hosts, and one that was left out makes none.
3. No host is lost without a reason: whoever is not in the next team is in the ledger of each that is, with a finding.
4. The one host that a fault befell is named within SILENT_S, the supervisor's patience and SLACK_S.
5. Where two explanations fit (a pair of hosts, two groups), nobody is left out.
6. A fault of the control network alone ends no attempt.
"""

import heapq
import itertools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from emberward.findings import Finding
from emberward.sources.live import WatchReport
from emberward.supervise import (
    SILENT_S,
    Act,
    Held,
    Host,
    LetterMailbox,
    Node,
    NodeAgent,
    Patience,
    PostOffice,
    Team,
    decide,
    key_of,
    launcher_of,
    named_host,
    without,
)

STEP_S = 1.0
FAULT_AT_S = 8.0
STILL_AFTER_S = 2.0
"""From a fault of the job's link to ranks that stand still: as long as a step of this job takes."""
NUM_BAD_S = 2.0
"""As `Prober`: two tries a second apart."""
ACT_AFTER_S = 5.0
SLACK_S = 10.0
RANKS_PER_HOST = 8
USUAL_FETCH_S, SLOW_FETCH_S = 0.034, 0.068


class Trouble(StrEnum):
    """What befalls the cluster."""

    NOTHING = "nothing"
    POWER = "a host loses its power"
    CUT = "the job's link of a host is cut"
    PAIR = "two hosts do not reach each other"
    SPLIT = "the job's network falls into two groups"
    SLOW = "a host's link has half its speed"
    FROZEN = "an agent stands still for 8 s"
    COLLECTOR = "the collector begins anew"
    CONTROL = "a third of the hosts do not reach the collector for 15 s"
    POWER_AND_COLLECTOR = "a host loses its power, and the collector begins anew"


NAMES_ONE = frozenset({Trouble.POWER, Trouble.CUT, Trouble.POWER_AND_COLLECTOR})


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What happened in one simulation. `broken`: the invariants that did not hold, in words; empty when all did.

    `named_after_s`: from the fault to the first finding of severity error that names its host. Letters are those of all
    hosts, requests and answers; `letter_bytes` counts both as JSON.
    """

    seed: int
    num_hosts: int
    trouble: Trouble
    broken: tuple[str, ...]
    named_after_s: float | None
    num_letters: int
    letter_bytes: int
    seconds: float


@dataclass(slots=True, kw_only=True)
class _Member:
    """One host: its agent, and what its supervisor knows."""

    name: str
    offset_s: float
    agent: NodeAgent
    team: Team
    held: dict[tuple[object, ...], Held] = field(default_factory=dict)
    attempt: int = 1
    ledger: dict[str, Finding] = field(default_factory=dict)
    has_left: bool = False
    is_waiting: bool = False


class _Links:
    """The links of one host, as it sees them. See `supervise._probe.Links`."""

    port = 1

    def __init__(self, world: "_World", host: str) -> None:
        self._world = world
        self._host = host
        self._peers: tuple[str, ...] = ()
        self._since_s: dict[str, float] = {}

    def know(self, peers: Mapping[str, tuple[str, int]]) -> None:
        new = tuple(sorted(peers))
        if new != self._peers:
            self._peers = new
            self._since_s = {peer: self._since_s.get(peer, self._world.now_s) for peer in new}

    def reached(self) -> dict[str, bool]:
        world = self._world
        tried = (peer for peer in self._peers if world.now_s - self._since_s[peer] >= STEP_S)
        return {peer: world.is_reached(self._host, peer) for peer in tried}

    def fetch_s(self) -> dict[str, float]:
        world = self._world
        return {
            peer: SLOW_FETCH_S if world.is_slow(peer) else USUAL_FETCH_S
            for peer in self._peers
            if world.now_s - self._since_s[peer] >= 5 * STEP_S
        }

    def lost(self) -> dict[str, float]:
        return {}


class _World:
    """What is true of the machines, whoever knows it."""

    def __init__(self, trouble: Trouble, names: tuple[str, ...], rng: random.Random) -> None:
        self.now_s = 0.0
        self.trouble = trouble
        self.victim, self.other = rng.sample(names, 2)
        group = rng.sample(names, rng.randint(2, len(names) // 2)) if len(names) >= 4 else [self.victim]
        self.group = frozenset(group)
        self.control_group = frozenset(rng.sample(names, max(len(names) // 3, 1)))

    @property
    def has_begun(self) -> bool:
        return self.now_s >= FAULT_AT_S

    def is_off(self, host: str) -> bool:
        powers = self.trouble in (Trouble.POWER, Trouble.POWER_AND_COLLECTOR)
        return self.has_begun and powers and host == self.victim

    def _is_link_down(self, a: str, b: str) -> bool:
        if self.is_off(a) or self.is_off(b):
            return True
        match self.trouble:
            case Trouble.CUT:
                return self.victim in (a, b)
            case Trouble.PAIR:
                return {a, b} == {self.victim, self.other}
            case Trouble.SPLIT:
                return (a in self.group) != (b in self.group)
            case _:
                return False

    def is_reached(self, a: str, b: str) -> bool:
        return not (self.now_s >= FAULT_AT_S + NUM_BAD_S and self._is_link_down(a, b))

    def is_slow(self, sender: str) -> bool:
        return self.has_begun and self.trouble is Trouble.SLOW and sender == self.victim

    def is_still(self, team: Team) -> bool:
        """Whether ranks of this team stand still: one of its hosts does not reach another."""
        if self.now_s < FAULT_AT_S + STILL_AFTER_S:
            return False
        names = {host.name for host in team.hosts}
        match self.trouble:
            case Trouble.POWER | Trouble.POWER_AND_COLLECTOR | Trouble.CUT:
                return self.victim in names
            case Trouble.PAIR:
                return {self.victim, self.other} <= names
            case Trouble.SPLIT:
                return bool(names & self.group) and bool(names - self.group)
            case _:
                return False

    def is_cut_from_collector(self, host: str) -> bool:
        lasts = FAULT_AT_S <= self.now_s < FAULT_AT_S + 15.0
        return lasts and self.trouble is Trouble.CONTROL and host in self.control_group

    def is_frozen(self, host: str) -> bool:
        lasts = FAULT_AT_S <= self.now_s < FAULT_AT_S + 8.0
        return lasts and self.trouble is Trouble.FROZEN and host == self.victim


class ClusterSimulation:
    """`run` it once. All follows from `seed` and `num_hosts`. See [Note: what is real] and [Note: invariants]."""

    def __init__(
        self,
        seed: int,
        *,
        num_hosts: int,
        trouble: Trouble | None = None,
        count_bytes: Callable[[Any], int] | None = None,
    ) -> None:
        """`count_bytes` measures a letter or an answer; without it bytes are not counted, which saves half the time."""
        self._rng = random.Random(f"{seed} {num_hosts}")
        self._seed = seed
        names = tuple(f"n{number:05d}" for number in range(num_hosts))
        # Of three hosts the smaller group is one host, which is cut off.
        possible = [each for each in Trouble if each is not Trouble.SPLIT or num_hosts > 3]
        self._world = _World(trouble or self._rng.choice(possible), names, self._rng)
        self._loss = self._rng.choice([0.0, 0.02, 0.15])
        self._num_offices = 0
        self._office = self._new_office()
        self._count_bytes = count_bytes
        self._num_letters = self._letter_bytes = 0
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._broken: list[str] = []
        self._named_s: float | None = None
        hosts = tuple(Host(name=name, address=name) for name in names)
        team = Team(hosts=hosts, spares=(), ranks_per_host=RANKS_PER_HOST, min_hosts=1, launcher=launcher_of("local"))
        self._members = {host.name: self._member(host, team) for host in hosts}

    def _new_office(self) -> PostOffice:
        self._num_offices += 1
        return PostOffice(f"session {self._num_offices}")

    def _member(self, host: Host, team: Team) -> _Member:
        offset_s = self._rng.uniform(0.0, 600.0)

        def clock() -> float:
            return self._world.now_s + offset_s

        mailbox = LetterMailbox(lambda letter: self._send(host.name, letter), clock=clock)
        node = Node(host=host.name, address=host.address, mailbox="http://collector/")
        agent = NodeAgent(node, mailbox=mailbox, links=_Links(self._world, host.name), clock=clock)
        return _Member(name=host.name, offset_s=offset_s, agent=agent, team=team)

    # -- transport ---------------------------------------------------------------------------------------------------

    def _send(self, host: str, letter: dict[str, Any]) -> Mapping[str, Any]:
        world, rng = self._world, self._rng
        self._num_letters += 1
        if world.is_cut_from_collector(host) or rng.random() < self._loss:
            raise OSError("timed out")
        if rng.random() < self._loss:
            # A copy that comes late, after newer letters.
            self._later(rng.uniform(0.5, 6.0), lambda: self._deliver(letter))
        answer = self._deliver(letter)
        if self._count_bytes is not None:
            self._letter_bytes += self._count_bytes(letter) + self._count_bytes(answer)
        if rng.random() < self._loss:
            raise OSError("the answer was lost")
        return answer

    def _deliver(self, letter: dict[str, Any]) -> Mapping[str, Any]:
        return self._office.take(letter, now_s=self._world.now_s)

    def _later(self, delay_s: float, action: Callable[[], object]) -> None:
        heapq.heappush(self._events, (self._world.now_s + delay_s, next(self._order), action))

    # -- course ------------------------------------------------------------------------------------------------------

    def run(self, *, seconds: float = FAULT_AT_S + SILENT_S + ACT_AFTER_S + SLACK_S + 5.0) -> Course:
        """The course of `seconds`; by default long enough for a host to be named and the next attempt to begin."""
        for member in self._members.values():
            self._later(self._rng.uniform(0.0, STEP_S), lambda member=member: self._step(member))  # type: ignore[misc]
        if self._world.trouble in (Trouble.COLLECTOR, Trouble.POWER_AND_COLLECTOR):
            self._later(FAULT_AT_S + self._rng.uniform(0.0, 6.0), self._restart_collector)
        while self._events and self._events[0][0] <= seconds:
            at_s, _, action = heapq.heappop(self._events)
            self._world.now_s = at_s
            action()
        self._check_end()
        return Course(
            seed=self._seed,
            num_hosts=len(self._members),
            trouble=self._world.trouble,
            broken=tuple(dict.fromkeys(self._broken)),
            named_after_s=None if self._named_s is None else self._named_s - FAULT_AT_S,
            num_letters=self._num_letters,
            letter_bytes=self._letter_bytes,
            seconds=seconds,
        )

    def _restart_collector(self) -> None:
        self._office = self._new_office()

    def _step(self, member: _Member) -> None:
        world = self._world
        if world.is_off(member.name) or member.has_left:
            return
        # A mailbox that is slow holds its agent up.
        delay_s = self._rng.uniform(0.0, 2.0) if self._rng.random() < self._loss else 0.0
        self._later(STEP_S + delay_s, lambda: self._step(member))
        if world.is_frozen(member.name):
            return
        report = member.agent.step(
            WatchReport(is_still=world.is_still(member.team)),
            ranks=range(RANKS_PER_HOST * int(member.name[1:]), RANKS_PER_HOST * (int(member.name[1:]) + 1)),
        )
        now_s = world.now_s
        for finding in report.resolved:
            member.held.pop(key_of(finding), None)
        for finding in report.findings:
            member.held[key_of(finding)] = Held(finding=finding, quiet_s=now_s, looked_s=now_s, said_s=now_s)
            self._note_named(finding)
        for key, held in list(member.held.items()):
            match decide(held, Patience(act_after_s=ACT_AFTER_S), now_s=now_s).act:
                case Act.ANNOUNCE:
                    member.held[key] = replace(held, announced_s=now_s)
                case Act.END:
                    self._end_attempt(member, held.finding)
                    return

    def _note_named(self, finding: Finding) -> None:
        if self._named_s is None and named_host([finding]) is not None and finding.hosts == (self._world.victim,):
            self._named_s = self._world.now_s

    def _end_attempt(self, member: _Member, finding: Finding) -> None:
        """What `supervise_command` does: who is named takes no part, the others go on without it."""
        member.held.clear()
        member.attempt += 1
        named = named_host([finding])
        if self._world.trouble in (Trouble.FROZEN, Trouble.COLLECTOR, Trouble.CONTROL, Trouble.SLOW, Trouble.NOTHING):
            self._broken.append(f"6: {member.name} ended its attempt for {finding.code} {finding.message}")
        if named is None:
            return
        lost = named.hosts[0]
        if self._world.trouble not in NAMES_ONE or lost != self._world.victim:
            self._broken.append(f"1: {member.name} left out {lost}: {finding.message}")
        if lost == member.name:
            member.has_left = True
            member.agent.leave()
            return
        if lost not in member.ledger:
            member.ledger[lost] = named
            member.team = without(member.team, {lost})

    def _check_end(self) -> None:
        world = self._world
        going = [each for each in self._members.values() if not each.has_left and not world.is_off(each.name)]
        if world.trouble in NAMES_ONE:
            if self._named_s is None or self._named_s - FAULT_AT_S > SILENT_S + SLACK_S:
                self._broken.append(f"4: {world.victim} was not named in time: {self._named_s}")
            for member in going:
                if member.name != world.victim and set(member.ledger) != {world.victim}:
                    self._broken.append(f"3: the ledger of {member.name} has {sorted(member.ledger)}")
        teams = {tuple(host.name for host in each.team.hosts) for each in going if each.name not in each.ledger}
        stay = [each for each in going if world.trouble not in NAMES_ONE or each.name != world.victim]
        if len({tuple(host.name for host in each.team.hosts) for each in stay}) > 1:
            self._broken.append(f"2: {len(teams)} different teams")
        if world.trouble not in NAMES_ONE and any(each.ledger for each in going):
            self._broken.append("5: a host was left out where two explanations fit, or none was needed")
