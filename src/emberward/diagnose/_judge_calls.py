"""The judge of flight-recorder dumps: mismatches first, then where all waiting ends."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from emberward.diagnose._calls import Call, Departed, GroupName
from emberward.diagnose._departures import (
    Departure,
    departed,
    departed_finding,
    departures,
    elsewhere_finding,
    history,
    lacking_finding,
    out_of_order,
)
from emberward.diagnose._ended import has_ended
from emberward.diagnose._ends import Ending, death_finding, failures_of_ranks
from emberward.diagnose._evidence import Evidence
from emberward.diagnose._frames import Frame, LineOf, user_frame
from emberward.diagnose._graph import OpKey, Root, RootKind, WaitGraph
from emberward.diagnose._groups import Groups, GroupView, world_of
from emberward.diagnose._hidden import hidden_wait
from emberward.diagnose._mismatch import other_roots_finding, tells_why
from emberward.diagnose._parting import left_the_loop, own_work
from emberward.diagnose._program import is_in_every_turn, place_at
from emberward.diagnose._rank_tests import root_of_its_own
from emberward.diagnose._say import (
    age_evidence,
    arrival,
    call_text,
    cannot_tell,
    hang_finding,
    ranks_text,
    verb,
    waits,
)
from emberward.diagnose._states import next_of_state
from emberward.diagnose._transfers import new_peer_finding, other_tag_finding, unmatched_finding
from emberward.diagnose._usual import told_apart
from emberward.diagnose._waits import Reading, severity_of, stack_evidence, stuck_worker
from emberward.events import WAITING, HostState
from emberward.findings import Cause, Certainty, CycleMember, Finding, Kind, Severity

_ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter", "broadcast_oop", "reduce_oop"})
"""Calls with a root: a member may end them while others wait for ever."""
_UNSURE = frozenset({HostState.UNKNOWN, HostState.CPU_LOOP})


@dataclass(slots=True)
class FlightJudge:
    """Judges one incident's dumps. `readings` are the stacks of ranks, `workers` those of their children."""

    evidence: Evidence
    readings: Mapping[int, Reading]
    workers: Mapping[int, tuple[Reading, ...]]
    line_of: LineOf
    world: tuple[int, ...] = ()
    groups: Groups = field(init=False)
    graph: WaitGraph = field(init=False)
    proved: dict[int, Departed] = field(init=False)
    age: str = field(init=False)

    def __post_init__(self) -> None:
        flights = self.evidence.flights
        self.world = world_of(flights, (*self.readings, *self.evidence.absent))
        self.groups = Groups(flights, self.world)
        kinds = {rank: reading.kind for rank, reading in self.readings.items()}
        busy = {rank for rank, kind in kinds.items() if kind not in WAITING | _UNSURE}
        busy |= {rank for rank, flight in flights.items() if flight.is_free and kinds.get(rank) not in WAITING}
        self.graph = WaitGraph(flights, self.groups, frozenset(busy))
        self.proved = departed(flights)
        self.age = age_evidence(flights.values())

    def judge(self) -> list[Finding]:
        """The findings, the surest first; empty when no call is open and none differs."""
        found: list[Finding] = []
        odd_groups: set[GroupName] = set()
        for name, finding in told_apart(self.evidence.flights, self.groups, len(self.world), self.line_of):
            odd_groups.add(name)
            members = {rank for view in self.groups if view.name == name for rank in view.members}
            other = departed_finding(self.proved, sorted(members), finding.waiting_ranks, finding.evidence)
            other = other or elsewhere_finding(self.graph, finding.culprit_ranks, finding.evidence)
            found.append(finding if other is None else replace(other, code=finding.code))
        # Of programs that have ended nobody waits: calls that nobody answered were given up.
        roots = () if has_ended(self.evidence.flights) else self.graph.roots()
        hosts: list[Root] = []
        unknown: list[Root] = []
        for root in roots:
            if any(op[0] in odd_groups for op in root.ops):
                continue
            match root.kind:
                case RootKind.HOST:
                    hosts.append(root)
                case RootKind.UNKNOWN:
                    unknown.append(root)
                case RootKind.STALL:
                    found.append(self._stall(root))
                case RootKind.CYCLE:
                    found.append(self._cycle(root))
        arrived_never = self._hosts(hosts)
        # Who waits in a call that no dump holds waits for somebody: where another one is found, for that one.
        if any(tells_why(finding) for finding in (*arrived_never, *found)):
            arrived_never = [finding for finding in arrived_never if finding.code != "H109"]
        return arrived_never + found + self._unknowns(unknown)

    def _view(self, op: OpKey) -> GroupView:
        return next(view for view in self.groups if view.name == op[0] and (view.members == op[1] or op[2] == -1))

    def _waits(self, root: Root) -> list[str]:
        """Evidence: in which calls the victims of a root sit, the largest crowd first."""
        crowds: dict[str, list[int]] = defaultdict(list)
        for rank in root.victims:
            flight = self.evidence.flights.get(rank)
            if flight is not None and flight.head is not None:
                view = self.groups.of(flight.groups[flight.head.group])
                crowds[call_text(flight.head, view)].append(rank)
        rows = sorted(crowds.items(), key=lambda item: -len(item[1]))
        lines = [f"{ranks_text(ranks)} {verb(ranks, 'waits', 'wait')} in {text}" for text, ranks in rows[:6]]
        if len(rows) > 6:
            lines.append(f"{len(rows) - 6} more calls are open behind these")
        return lines

    def _severity(self, reading: Reading | None) -> Severity:
        """As of the stack alone; where there is none, or it waits, and no file tells of time, who asks is believed."""
        is_unseen = reading is None or reading.kind in WAITING
        is_lasting = self.evidence.is_lasting or (is_unseen and not self.evidence.is_young)
        return severity_of([] if reading is None else [reading], is_lasting=is_lasting)

    def _hosts(self, roots: list[Root]) -> list[Finding]:
        """One finding for all ranks that never arrived for the same reason."""
        together: dict[tuple[Cause, str | None, bool], list[Root]] = defaultdict(list)
        deaths = failures_of_ranks(self.evidence.ends)
        for root in roots:
            rank = root.ranks[0]
            reading, is_dead = self.readings.get(rank), rank in deaths
            # Transfers without a partner are one fault: who sits in one may wait for a rank that sits in another.
            key: tuple[Cause, str | None, bool] = (Cause.UNKNOWN, None, False)
            if reading is not None:
                is_p2p = reading.kind is HostState.P2P
                key = (Cause.UNMATCHED_P2P, None, False) if is_p2p else (reading.cause, reading.site, False)
            together[(deaths[rank].cause, deaths[rank].end.site, True) if is_dead else key].append(root)
        found = []
        for key, group in together.items():
            ranks = [rank for root in group for rank in root.ranks]
            victims = {victim for root in group for victim in root.victims} - set(ranks)
            is_seen = key[2] or ranks[0] in self.readings
            is_crowd = not is_seen and len(ranks) >= max(1, len(victims)) + (not self._is_partial())
            found.append(self._other_crowd(group, ranks, sorted(victims)) if is_crowd else self._host(group, deaths))
        return found

    def _is_partial(self) -> bool:
        """Whether ranks of the job left no dump: with theirs, another group may be seen to wait for the same ones."""
        return any(rank not in self.evidence.flights for rank in self.world)

    def _other_crowd(self, roots: list[Root], ranks: list[int], victims: list[int]) -> Finding:
        """Most ranks wait in no recorded call, and few for them, or few left a dump: either side may be the odd one."""
        return cannot_tell(
            f"{waits(victims)} in a call that {ranks_text(ranks)} did not make; the dumps do not tell "
            "which side is odd",
            severity=self._severity(None),
            waiting=victims,
            evidence=(
                *[line for root in roots for line in self._waits(root)][:6],
                *[self._last_calls(rank) for rank in ranks[:4]],
                self.age,
            ),
            ruled_out=self._ruled_out(),
            next_step=f"py-spy dump --subprocesses --pid PID on {ranks_text(ranks)}, then explain both together",
        )

    def _host(self, roots: list[Root], deaths: Mapping[int, Ending]) -> Finding:
        ranks = sorted(rank for root in roots for rank in root.ranks)
        victims = sorted({victim for root in roots for victim in root.victims} - set(ranks))
        reading = self.readings.get(ranks[0])
        evidence = list(dict.fromkeys(line for root in roots for line in self._waits(root)))[:6]
        evidence += [self._last_calls(rank) for rank in ranks[:4]]
        if dead := [deaths[rank] for rank in ranks if rank in deaths]:
            return death_finding(dead, waiting=victims, evidence=evidence)
        if reading is not None and reading.kind in WAITING:
            is_late = not self.evidence.is_young
            waiting = {rank: self.readings[rank] for rank in ranks}
            return hidden_wait(self.graph, waiting, victims, evidence, ruled_out=self._ruled_out(), is_late=is_late)
        subject = verb(ranks, "it does", "they do")
        what = (
            f"what {subject} instead is not in the dumps"
            if reading is None
            else f"{verb(ranks, 'it', 'each')} {reading.text}"
        )
        if reading is not None:
            evidence += stack_evidence(reading, self.workers.get(ranks[0], ()))
        evidence.append(self.age)
        own = None if reading is not None or self.evidence.is_lasting else self._own_work(ranks, victims)
        if own is not None:
            evidence.append(f"on the way there {ranks_text(ranks)} alone may have work to do, at {own.site}")
        severity = self._severity(reading) if own is None else Severity.WARNING
        worker = stuck_worker(self.workers.get(ranks[0], ()))
        site = None if reading is None else reading.site
        return hang_finding(
            "H101",
            f"{ranks_text(ranks)} {arrival(ranks, severity)}: {waits(victims)} for {verb(ranks, 'it', 'them')}; {what}",
            kind=Kind.HANG,
            cause=Cause.UNKNOWN if reading is None else reading.cause,
            certainty=Certainty.INFERRED if reading is None else Certainty.OBSERVED,
            severity=severity,
            ranks=ranks,
            waiting=victims,
            hosts=[] if reading is None or reading.process.host is None else [reading.process.host],
            site=site if worker is None or worker.site is None else worker.site,
            evidence=evidence,
            ruled_out=self._ruled_out(),
            next_step=next_of_state(None if reading is None else reading.kind, ranks_text(ranks)),
        )

    def _own_work(self, ranks: Sequence[int], victims: Sequence[int]) -> Frame | None:
        """The line of what the text has these ranks alone do between their last call and that of who waits for them."""
        heads = [head for rank in victims if (flight := self.evidence.flights.get(rank)) and (head := flight.head)]
        past = history(self.evidence.flights[ranks[0]])
        return own_work(past[-1].frames, heads[0].frames, self.line_of) if heads and past else None

    def _last_calls(self, rank: int) -> str:
        flight = self.evidence.flights.get(rank)
        if flight is None:
            return f"no dump of rank {rank}"
        busiest = max(
            (part for part in flight.groups.values() if part.enqueued), key=lambda p: p.enqueued, default=None
        )
        if flight.pending:
            return f"rank {rank} has {len(flight.pending)} calls open on its device, and its host is elsewhere"
        if busiest is None:
            return f"rank {rank} has issued no call"
        view = self.groups.of(busiest)
        last = busiest.call(busiest.enqueued)
        text = f"call {busiest.enqueued} of {view.label}" if last is None else call_text(last, view)
        return f"rank {rank} has no open call; its last was {text}, completed"

    def _ruled_out(self) -> tuple[str, ...]:
        flights = self.evidence.flights
        lines = []
        if not any(root.kind is RootKind.CYCLE for root in self.graph.roots()):
            lines.append("a cycle: every wait ends at the ranks named")
        if all(part.is_alike for flight in flights.values() for part in flight.groups.values()):
            lines.append("a mismatch: all calls that meet are of the same operation, type and size")
        return tuple(lines)

    def _unknowns(self, roots: list[Root]) -> list[Finding]:
        """Findings on ranks without a dump: what their stacks tell of them, and one for all that wait or have none."""
        busy = {rank for rank, reading in self.readings.items() if reading.kind not in WAITING}
        together: dict[tuple[int, ...], list[Root]] = defaultdict(list)
        for root in roots:
            if root.ranks[0] not in busy:
                together[root.victims].append(root)
        return self._hosts([root for root in roots if root.ranks[0] in busy]) + [
            self._unknown(group) for group in together.values()
        ]

    def _unknown(self, roots: list[Root]) -> Finding:
        root = roots[0]
        absent = [rank for each in roots for rank in each.ranks]
        missing = [r for r in self.world if r not in self.evidence.flights]
        return cannot_tell(
            f"{waits(root.victims)} for {ranks_text(absent)}, and the "
            f"{verb(missing, 'dump', 'dumps')} of {ranks_text(missing)} {verb(missing, 'is', 'are')} missing",
            waiting=root.victims,
            evidence=(*self._waits(root), self.age),
            ruled_out=("the ranks with a dump: each waits for a rank without one",),
            next_step=f"fetch a dump, log or stack of {ranks_text(missing)}; a rank without a dump is not guilty",
        )

    def _stall(self, root: Root) -> Finding:
        """All members have issued the call and it does not end."""
        op = root.ops[0]
        view = self._view(op)
        inside = sorted(self.graph.calls.get(op, {}))
        done = [r for r in view.members if op[2] != -1 and self._completed(r, op) >= op[2]]
        call = next(iter(self.graph.calls[op].values()))
        if (parted := other_tag_finding(self.graph, root, self._waits(root))) is not None:
            return parted
        absent = self._may_be_members(view)
        evidence = [*self._waits(root), self.age]
        # A call that all have issued usually just runs: below the limit that is worth a word and no more.
        severity = Severity.ERROR if not self.evidence.is_young else Severity.NOTICE
        if not view.is_told and absent:
            reading = self.readings.get(absent[0])
            return hang_finding(
                "H101",
                f"{ranks_text(absent)} never arrived, as far as the dumps tell: {ranks_text(inside)} wait in "
                f"{call_text(call, view)}, and {verb(absent, 'it alone has', 'they alone have')} no open call",
                kind=Kind.HANG,
                cause=Cause.UNKNOWN if reading is None else reading.cause,
                severity=severity if reading is None else self._severity(reading),
                ranks=absent,
                waiting=inside,
                site=None if reading is None else reading.site,
                evidence=(*evidence, f"gloo's dump does not tell who else is in {view.label}"),
                next_step=next_of_state(None if reading is None else reading.kind, ranks_text(absent)),
            )
        if not view.is_told and op[2] == 1 and root.victims and len(inside) * 2 < len(self.world):
            return self._lone_call(root, call, view, inside, evidence)
        own_root = None if call.root is not None else root_of_its_own(place_at(user_frame(call.frames), self.line_of))
        if call.op in _ROOTED and own_root is not None:
            return other_roots_finding(own_root, call.site, inside, evidence, severity=severity)
        if done and inside and call.op in _ROOTED and call.root is None:
            return self._rooted(root, call, view, inside, done, evidence)
        if done and inside and len(inside) < len(view.members):
            return hang_finding(
                "H102",
                f"{ranks_text(inside)} {verb(inside, 'does', 'do')} not end {call_text(call, view)}; the others have",
                cause=Cause.DEVICE_STALL,
                severity=severity,
                ranks=inside,
                waiting=root.victims,
                site=None,
                evidence=(*evidence, f"{ranks_text(done)} completed it"),
                ruled_out=("a missing call: every member has issued it",),
                next_step=f"test the device and host of {ranks_text(inside)}; is its process stopped",
            )
        return hang_finding(
            "H103",
            f"{call_text(call, view)} was issued by all its members and ends on none",
            cause=Cause.DEVICE_STALL,
            severity=severity,
            waiting=inside,
            evidence=evidence,
            ruled_out=("a missing call: every member has issued it", "a mismatch: the calls agree"),
            next_step=f"test the devices and links among {ranks_text(view.members)} only",
        )

    def _rooted(
        self, root: Root, call: Call, view: GroupView, inside: list[int], done: list[int], evidence: list[str]
    ) -> Finding:
        """Some ended a call that has a root. Roots that differ look so, and no recorder of torch tells them."""
        return cannot_tell(
            f"{ranks_text(inside)} {verb(inside, 'does', 'do')} not end {call_text(call, view)}, "
            f"{ranks_text(done)} {verb(done, 'has', 'have')}; the dumps do not tell whether all named the same root",
            severity=Severity.ERROR if not self.evidence.is_young else Severity.WARNING,
            waiting=sorted({*inside, *root.victims}),
            evidence=evidence,
            ruled_out=("a missing call: every member has issued it",),
            next_step=f"print the root of the {call.op} on every rank; where all agree, test {ranks_text(inside)}",
        )

    def _lone_call(self, root: Root, call: Call, view: GroupView, inside: list[int], evidence: list[str]) -> Finding:
        """The first call of a group, made by few, while the others wait elsewhere for just these."""
        return hang_finding(
            "H104",
            f"{ranks_text(inside)} alone made a call of {view.label.partition('[')[0]} that no other rank has made "
            f"({call.text} at {call.site}); the others wait for {verb(inside, 'it', 'them')} in the call before",
            kind=Kind.MISMATCH,
            cause=Cause.EXTRA_COLLECTIVE,
            ranks=inside,
            waiting=root.victims,
            site=call.site,
            evidence=(*evidence, "the dumps do not tell who else is in that group"),
            ruled_out=("a busy rank: every rank waits in a call",),
            next_step=f"read the condition around {call.site}: it holds on {ranks_text(inside)} alone",
        )

    def _completed(self, rank: int, op: OpKey) -> int:
        flight = self.evidence.flights.get(rank)
        part = None if flight is None else flight.groups.get(op[0])
        return 0 if part is None else part.completed

    def _may_be_members(self, view: GroupView) -> list[int]:
        """Ranks without an open call that may belong to a group whose members nobody tells."""
        known = {r for v in self.groups if v.name[1] == view.name[1] and v.name[1] != "undefined" for r in v.members}
        return [
            r
            for r, f in sorted(self.evidence.flights.items())
            if f.head is None and r not in view.members and r not in known
        ]

    def _cycle(self, root: Root) -> Finding:
        left = departures(self.graph, root)
        turned = {item.rank: item.call for item in left if self._is_turned_round(item, root)}
        left = [] if turned else left
        out = {} if left else out_of_order(self.evidence.flights, root.ranks)
        members = tuple(self._member(rank) for rank in root.ranks[:32])
        evidence = [
            f"rank {m.rank} in {m.op}{f' at {m.site}' if m.site else ''}, waits for {ranks_text(m.waits_for)}"
            for m in members[:8]
        ]
        evidence += [
            f"rank {rank} now makes the calls at {call.site} in another order than before"
            for rank, call in {**turned, **out}.items()
        ]
        if (proved := departed_finding(self.proved, root.ranks, root.victims, evidence)) is not None:
            return proved
        is_p2p = any(op[2] == -1 for op in root.ops)
        sites = {rank: reading.site for rank, reading in self.readings.items()}
        unmatched = other_tag_finding(self.graph, root, evidence)
        unmatched = unmatched or unmatched_finding(self.graph, root, evidence)
        unmatched = unmatched or new_peer_finding(self.graph, root, evidence, sites)
        if unmatched is not None:
            return unmatched
        ended = elsewhere_finding(self.graph, root.ranks, evidence) or self._left_the_loop(root, evidence)
        if ended is not None:
            return ended
        if left:
            ranks = [item.rank for item in left]
            first = left[0]
            is_skip = first.cause is Cause.SKIPPED_COLLECTIVE
            group = next(view for view in self.groups if view.name == first.group and first.rank in view.members)
            what = f"left out a call of {group.label}" if is_skip else "made a call that its peers do not make"
            waiting = sorted(set(root.ranks) | set(root.victims) - set(ranks))
            return hang_finding(
                "H104",
                f"{ranks_text(ranks)} {what} and {verb(ranks, 'waits', 'wait')} in {first.call.text} at "
                f"{first.call.site}; the others wait in the call before it",
                kind=Kind.MISMATCH if first.cause is Cause.EXTRA_COLLECTIVE else Kind.MISSING,
                cause=first.cause,
                ranks=ranks,
                waiting=[r for r in waiting if r not in ranks],
                site=first.call.site,
                evidence=(*evidence, *(item.why for item in left[:4])),
                ruled_out=("a busy rank: every rank waits in a call",),
                next_step=f"read the condition around {first.call.site}: it holds on {ranks_text(ranks)} alone",
            )
        if (lone := lacking_finding(self.graph, root, evidence)) is not None:
            return lone
        odd = sorted(out)
        who = f"{ranks_text(odd)} turned the order of calls round" if odd else "no one rank is guilty"
        return Finding(
            code="M104",
            severity=Severity.ERROR,
            kind=Kind.DEADLOCK,
            cause=Cause.CYCLE_P2P if is_p2p else Cause.CYCLE_COLLECTIVE,
            certainty=Certainty.OBSERVED,
            message=f"{ranks_text(root.ranks)} wait for one another in different calls; {who}",
            culprit_ranks=tuple(odd),
            site=out[odd[0]].site if odd else None,
            waiting_ranks=root.victims,
            cycle=members,
            evidence=tuple(evidence),
            ruled_out=("a busy rank: every rank of the cycle waits in a call",),
            next="issue these calls in one order on every rank, or put them in one batch",
        )

    def _is_turned_round(self, item: Departure, root: Root) -> bool:
        """Whether the call that a rank seems to lack is made at the very line at which it waits, turn by turn."""
        lacked = [call for op in root.ops if op[0] == item.group for call in self.graph.calls.get(op, {}).values()]
        is_one_line = bool(lacked) and item.call.place is not None and all(c.place == item.call.place for c in lacked)
        return is_one_line and is_in_every_turn(place_at(user_frame(item.call.frames), self.line_of))

    def _left_the_loop(self, root: Root, evidence: Sequence[str]) -> Finding | None:
        """A finding when one rank of a cycle of transfers is in a collective behind the loop that all others are in."""
        heads = {rank: self.evidence.flights[rank].head for rank in root.ranks}
        lone = [rank for rank, head in heads.items() if head is not None and not head.is_p2p]
        rest = [rank for rank in root.ranks if rank not in lone]
        if len(lone) != 1 or not rest:
            return None
        frames = {rank: self._frames(rank) for rank in root.ranks}
        left = [left_the_loop(frames[lone[0]], frames[rank], self.line_of) for rank in rest]
        if left[0] is None or None in left:
            return None
        # Why, the text tells: `refine`.
        now, inside, _ = left[0]
        return hang_finding(
            "H104",
            f"rank {lone[0]} is not in its loop and is at {now.site}, while {waits(rest)} for it in theirs "
            f"({inside.site})",
            kind=Kind.MISSING,
            cause=Cause.SKIPPED_COLLECTIVE,
            ranks=lone,
            waiting=sorted((set(root.ranks) | set(root.victims)) - set(lone)),
            site=now.site,
            evidence=evidence,
            ruled_out=("a busy rank: every rank of the cycle waits in a call",),
            next_step=f"count the turns of the loop before {now.site} on rank {lone[0]} and of those of the others",
        )

    def _frames(self, rank: int) -> tuple[Frame, ...]:
        reading, head = self.readings.get(rank), self.evidence.flights[rank].head
        return reading.frames if reading is not None else () if head is None else head.frames

    def _member(self, rank: int) -> CycleMember:
        flight = self.evidence.flights[rank]
        head = flight.head
        if head is None:
            return CycleMember(rank=rank, op="?", site=None, waits_for=())
        view = self.groups.of(flight.groups[head.group])
        targets = {t for op in self.graph.edges[rank] for t in self.graph.edges.get(op, ()) if isinstance(t, int)}
        return CycleMember(
            rank=rank, op=call_text(head, view).partition(" at ")[0], site=head.site, waits_for=tuple(sorted(targets))
        )
