"""A simulated cluster: the real agents, collector and policy on a fake clock and network. One seed, one course.

[Note: what is real]
Of each host run `NodeAgent` with its `LetterMailbox`, what a supervisor decides for a finding that holds (`decide`),
whether it wishes another attempt (`decide_rerun`, `wish_of`) and which the hosts agreed on (`Council`); and the
collector's `PostOffice`. Fake are the clock, the transport of letters (loss of a letter or its answer, delay, late
copies, parted hosts, restarts of the collector and of agents), the links, and the ranks: they stand still while a host
of their attempt is gone or cut off, and fail once ranks that they reach have ended. Clocks of hosts are minutes apart.

[Note: invariants]
1. Nobody is left out whom no fault of hardware befell: not for a program's fault, nor where two explanations fit. A
   host that the network takes from all that are heard, on the job's link and on the way to the collector, may be.
2. No split brain: all hosts that begin an attempt begin it without the same hosts, one that was left out begins none,
   and never do two attempts make steps.
3. No host is lost without a reason: at the end all that have power make one attempt, or were left out with a finding.
4. The one host that a fault befell is named within SILENT_S, the supervisor's patience and SLACK_S, where the way to
   the collector works; an agent that stands still meanwhile may be the second witness that tells one end of a link from
   the other, so that its FROZEN_S are added.
5. An attempt begins only if a quorum of the hosts wished it.
6. A fault of the way to the collector alone ends no attempt.
"""

import heapq
import itertools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.sources.live import WatchReport
from emberward.supervise import (
    SILENT_S,
    Act,
    AttemptOutcome,
    Council,
    Held,
    LetterMailbox,
    Node,
    NodeAgent,
    Patience,
    PeerAddress,
    PostOffice,
    Restart,
    RunEnd,
    decide,
    decide_rerun,
    key_of,
    named_host,
    wish_of,
)
from emberward.testing._cluster_world import (
    ENDS_NO_ATTEMPT,
    FAULT_AT_S,
    FROZEN_S,
    MOVES_COLLECTOR,
    NAMES_ONE,
    STEP_S,
    Disturbance,
    Trouble,
    World,
)

ACT_AFTER_S = 5.0
SLACK_S = 10.0
MAX_RESTARTS = 3
RANKS_PER_HOST = 8
USUAL_FETCH_S, SLOW_FETCH_S = 0.034, 0.068
DEATH = Finding(
    code="L102",
    severity=Severity.ERROR,
    kind=Kind.CRASH,
    cause=Cause.EXCEPTION,
    certainty=Certainty.OBSERVED,
    message="a rank died first",
    next="read its log",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What happened in one simulation. `broken`: the invariants that did not hold, in words; empty when all did.

    `named_after_s`: from the fault to the first finding of severity error that names its host. `agreed_after_s`: to the
    last host's beginning of the attempt without it. Letters are those of all hosts, requests and answers;
    `letter_bytes` counts both as JSON.
    """

    seed: int
    num_hosts: int
    trouble: Trouble
    disturbance: Disturbance
    broken: tuple[str, ...]
    named_after_s: float | None
    agreed_after_s: float | None
    num_attempts: int
    num_letters: int
    letter_bytes: int
    seconds: float


@dataclass(slots=True, kw_only=True)
class _Member:
    """One host: its agent, and what its supervisor knows. `failed`: for what its last attempt ended, between two."""

    name: str
    clock: Callable[[], float]
    agent: NodeAgent
    council: Council
    held: dict[tuple[object, ...], Held] = field(default_factory=dict)
    ends: list[RunEnd] = field(default_factory=list)
    rerun: Restart | None = None
    fails_s: float | None = None
    stopped: str | None = None

    @property
    def attempt(self) -> int:
        return self.council.node.agreed.number


class _Links:
    """The links of one host during an attempt, as it sees them. See `supervise._probe.Links`."""

    port = 1

    def __init__(self, world: World, host: str) -> None:
        self._world = world
        self._host = host
        self.listener = f"{host} {world.now_s}"
        self._peers: dict[str, PeerAddress] = {}
        self._since_s: dict[str, float] = {}

    def know(self, peers: Mapping[str, PeerAddress]) -> None:
        if peers != self._peers:
            same = {peer for peer, place in peers.items() if self._peers.get(peer) == place}
            self._since_s = {peer: self._since_s[peer] if peer in same else self._world.now_s for peer in sorted(peers)}
            self._peers = dict(peers)

    def tried(self) -> dict[str, tuple[str, bool]]:
        world = self._world
        tried = (peer for peer in self._since_s if world.now_s - self._since_s[peer] >= STEP_S)
        return {peer: (self._peers[peer].listener, world.is_reached(self._host, peer)) for peer in tried}

    def fetch_s(self) -> dict[str, float]:
        world = self._world
        return {
            peer: SLOW_FETCH_S if world.is_slow(peer) else USUAL_FETCH_S
            for peer in self._since_s
            if world.now_s - self._since_s[peer] >= 5 * STEP_S
        }

    def lost(self) -> dict[str, float]:
        return {}


class ClusterSimulation:
    """`run` it once. All follows from `seed` and `num_hosts`. See [Note: what is real] and [Note: invariants]."""

    def __init__(
        self,
        seed: int,
        *,
        num_hosts: int,
        trouble: Trouble | None = None,
        disturbance: Disturbance | None = None,
        count_bytes: Callable[[Any], int] | None = None,
    ) -> None:
        """`count_bytes` measures a letter or an answer; without it bytes are not counted, which saves half the time."""
        self._rng = random.Random(f"{seed} {num_hosts}")
        self._seed = seed
        names = tuple(f"n{number:05d}" for number in range(num_hosts))
        self._world = World(trouble, disturbance, names, self._rng)
        self._loss = self._world.loss
        self._office = self._new_office()
        self._count_bytes = count_bytes
        self._num_letters = self._letter_bytes = 0
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._broken: list[str] = []
        self._named_s: float | None = None
        self._began_s = 0.0
        self._begun: dict[int, frozenset[str]] = {}
        self._wished: dict[int, set[str]] = {}
        self._members = {name: self._member(name) for name in names}
        self._world.runs[0] = num_hosts

    def _new_office(self) -> PostOffice:
        return PostOffice(f"{self._world.now_s:020.6f}")

    def _member(self, name: str) -> _Member:
        offset_s = self._rng.uniform(0.0, 600.0)

        def clock() -> float:
            return self._world.now_s + offset_s

        node = Node(host=name, address=name, mailbox="http://collector/")
        return _Member(name=name, clock=clock, agent=self._agent(node, clock), council=Council(node))

    def _agent(self, node: Node, clock: Callable[[], float]) -> NodeAgent:
        mailbox = LetterMailbox(lambda letter: self._send(node.host, letter), clock=clock)
        return NodeAgent(node, mailbox=mailbox, links=_Links(self._world, node.host), clock=clock)

    # -- transport ---------------------------------------------------------------------------------------------------

    def _send(self, host: str, letter: dict[str, Any]) -> Mapping[str, Any]:
        world, rng = self._world, self._rng
        self._num_letters += 1
        if world.is_parted(host) or rng.random() < self._loss:
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
        if (wish := letter["changes"].get("wish")) is not None:
            self._wished.setdefault(wish["number"], set()).add(letter["host"])
        return self._office.take(letter, now_s=self._world.now_s)

    def _later(self, delay_s: float, action: Callable[[], object]) -> None:
        heapq.heappush(self._events, (self._world.now_s + delay_s, next(self._order), action))

    # -- course ------------------------------------------------------------------------------------------------------

    def run(self, *, seconds: float | None = None) -> Course:
        """The course of `seconds`; by default long enough for all to agree on the next attempt and to make it."""
        world, rng = self._world, self._rng
        seconds = world.course_s if seconds is None else seconds
        for member in self._members.values():
            self._later(rng.uniform(0.0, STEP_S), lambda member=member: self._step(member))  # type: ignore[misc]
        if world.disturbance in MOVES_COLLECTOR:
            for _ in range(rng.randint(1, 3)):
                self._later(FAULT_AT_S + rng.uniform(-3.0, 35.0), self._restart_collector)
        if world.disturbance is Disturbance.AGENTS:
            for member in rng.sample(list(self._members.values()), max(len(self._members) // 2, 1)):
                self._later(FAULT_AT_S + rng.uniform(0.0, 25.0), lambda member=member: self._restart_agent(member))  # type: ignore[misc]
        if world.trouble is Trouble.PROGRAM:
            self._later(FAULT_AT_S, lambda: self._fail(self._members[world.victim], DEATH))
        while self._events and self._events[0][0] <= seconds:
            at_s, _, action = heapq.heappop(self._events)
            world.now_s = at_s
            action()
        self._check_end()
        named_s = self._named_s
        return Course(
            seed=self._seed,
            num_hosts=len(self._members),
            trouble=world.trouble,
            disturbance=world.disturbance,
            broken=tuple(dict.fromkeys(self._broken)),
            named_after_s=None if named_s is None else named_s - FAULT_AT_S,
            agreed_after_s=self._began_s - FAULT_AT_S if self._begun and world.trouble in NAMES_ONE else None,
            num_attempts=1 + len(self._begun),
            num_letters=self._num_letters,
            letter_bytes=self._letter_bytes,
            seconds=seconds,
        )

    def _restart_collector(self) -> None:
        self._office = self._new_office()

    def _restart_agent(self, member: _Member) -> None:
        if member.rerun is None:
            member.agent = self._agent(member.council.node, member.clock)

    def _step(self, member: _Member) -> None:
        world = self._world
        if world.is_off(member.name) or member.stopped is not None:
            return
        # A mailbox that is slow holds its agent up.
        delay_s = self._rng.uniform(0.0, 2.0) if self._rng.random() < self._loss else 0.0
        self._later(STEP_S + delay_s, lambda: self._step(member))
        if world.is_frozen(member.name):
            return
        if member.rerun is not None:
            agreed = member.agent.parley(wish_of(member.ends[-1].findings))
            if agreed is not None:
                self._begin(member, *member.council.conclude(agreed, member.rerun))
            elif member.agent.is_hopeless:
                self._stop(member, "too few hosts are left")
            return
        self._watch(member)

    def _watch(self, member: _Member) -> None:
        """What a watcher and a supervisor do each second of an attempt."""
        world, now_s = self._world, self._world.now_s
        number = int(member.name[1:])
        report = member.agent.step(
            WatchReport(is_still=world.is_still(member.attempt)),
            ranks=range(RANKS_PER_HOST * number, RANKS_PER_HOST * (number + 1)),
        )
        for finding in report.resolved:
            member.held.pop(key_of(finding), None)
        for finding in report.findings:
            member.held[key_of(finding)] = Held(finding=finding, quiet_s=now_s, seen_until_s=now_s, said_s=now_s)
            if self._named_s is None and named_host([finding]) is not None and finding.hosts == (world.victim,):
                self._named_s = now_s
        is_next, agreed = member.agent.next is not None, member.agent.agreed
        if is_next or agreed.crew != member.council.node.agreed.crew:
            member.council.hear({"agreed": agreed.to_json(), "is_next": is_next})
        if (due := member.council.due) is not None:
            self._fail(member, due)
            return
        broke_s = world.broke_s.get(member.attempt)
        if broke_s is not None and world.is_connected(member.name):
            member.fails_s = member.fails_s or broke_s + self._rng.uniform(0.5, 4.0)
            if now_s >= member.fails_s:
                self._fail(member, DEATH)
                return
        for key, held in list(member.held.items()):
            match decide(held, Patience(act_after_s=ACT_AFTER_S), now_s=now_s).act:
                case Act.ANNOUNCE:
                    member.held[key] = replace(held, announced_s=now_s)
                case Act.END:
                    self._fail(member, held.finding)
                    return

    def _fail(self, member: _Member, finding: Finding) -> None:
        """What `supervise_command` does after an attempt: whether it wishes another."""
        world = self._world
        if member.rerun is not None or member.stopped is not None:
            return
        if world.trouble in ENDS_NO_ATTEMPT:
            self._broken.append(f"6: {member.name} ended its attempt for {finding.code} {finding.message}")
        world.runs[member.attempt] -= 1
        world.broke_s.setdefault(member.attempt, world.now_s)
        member.held.clear()
        member.fails_s = None
        end = RunEnd(
            outcome=AttemptOutcome.FAILED,
            exit_code=1,
            findings=(finding,),
            last_step=9,
            num_saves=0,
        )
        member.ends.append(end)
        rerun = decide_rerun(member.ends, max_restarts=MAX_RESTARTS)
        if not rerun.is_wanted:
            self._stop(member, rerun.why)
            return
        member.rerun = rerun
        member.agent = self._agent(member.council.node, member.clock)

    def _stop(self, member: _Member, why: str) -> None:
        member.stopped = why
        member.agent.leave(is_done=True)

    def _begin(self, member: _Member, restart: Restart, new: tuple[Finding, ...]) -> None:
        """A host begins the attempt that was agreed, or learns that it has no part in it."""
        world, agreed = self._world, member.council.node.agreed
        member.rerun = None
        number, out = agreed.number, frozenset(agreed.out)
        if not all(map(world.may_be_out, out)):
            self._broken.append(f"1: {member.name} knows that {sorted(out)} are left out")
        if not restart.is_wanted:
            self._stop(member, restart.why)
            return
        if self._begun.setdefault(number, out) != out:
            self._broken.append(f"2: {member.name} begins attempt {number} without {sorted(out)}, others otherwise")
        if member.name in out:
            self._broken.append(f"2: {member.name} begins attempt {number}, which leaves it out")
        if any(host not in {finding.hosts[0] for finding in agreed.findings} for host in out):
            self._broken.append(f"3: {member.name} goes on without {sorted(out)} and knows no reason")
        if 2 * len(self._wished.get(number, ())) < len(self._members) - len(self._begun.get(number - 1, ())):
            self._broken.append(f"5: {member.name} begins attempt {number}, which {len(self._wished[number])} wished")
        world.num_out[number] = len(out)
        world.runs[number] += 1
        going = [each for each, count in world.runs.items() if count and world.makes_steps(each)]
        if len(going) > 1:
            self._broken.append(f"2: attempts {going} make steps")
        self._began_s = world.now_s
        member.agent = self._agent(member.council.node, member.clock)

    def _check_end(self) -> None:
        world = self._world
        if world.trouble not in NAMES_ONE:
            return_to = 0 if world.trouble in ENDS_NO_ATTEMPT else 1
            if world.trouble in (Trouble.PAIR, Trouble.SPLIT):
                return
            self._check_one_attempt([*self._members.values()], return_to)
            return
        is_quiet = world.disturbance in (Disturbance.NOTHING, Disturbance.FROZEN, Disturbance.AGENTS)
        allowed_s = SILENT_S + SLACK_S + (FROZEN_S if world.disturbance is Disturbance.FROZEN else 0.0)
        if self._named_s is None or (is_quiet and self._named_s - FAULT_AT_S > allowed_s):
            self._broken.append(f"4: {world.victim} was not named in time: {self._named_s}")
        self._check_one_attempt([each for each in self._members.values() if each.name != world.victim], 1)
        victim = self._members[world.victim]
        if world.trouble is Trouble.CUT and victim.stopped is None:
            self._broken.append(f"3: {victim.name} was left out and goes on")

    def _check_one_attempt(self, members: list[_Member], least: int) -> None:
        """All of them make one attempt, the first after the trouble or a later one."""
        last = max((each.attempt for each in members), default=0)
        for each in members:
            if each.stopped is not None or each.rerun is not None or each.attempt != last or last < least:
                what = each.stopped or ("it waits for the others" if each.rerun else "it is behind")
                self._broken.append(f"3: {each.name} is at attempt {each.attempt} of {last}: {what}")
        if self._world.trouble in NAMES_ONE and self._world.victim not in self._begun.get(last, ()):
            self._broken.append(f"3: attempt {last} leaves out {sorted(self._begun.get(last, ()))}")
