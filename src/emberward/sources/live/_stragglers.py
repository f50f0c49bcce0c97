"""Who is waited for while a job runs, and since when steps are slower: fed with rings, says what lasts. See `health`.

[Note: a straggler is said]
The rule must find the same rank late at two checks, between which its lines are sampled beside a peer's; then it is a
warning, once. It is taken back when the rule has not found the rank for FORGET_S. Steps of the start, and those with a
compilation in them on any rank, are not counted.
"""

import hashlib
import statistics
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from emberward.diagnose import LineOf, hang_finding, ranks_text, short_path, verb, waits
from emberward.findings import Cause, Certainty, Finding, FindingPhase, Kind, Severity
from emberward.health import LateRank, late_ranks
from emberward.sources.live._lines import LineSampler, LineShares, StartSampler, odd_line, start_sampler
from emberward.sources.live._own_time import OwnTimes, marked_s, own_times
from emberward.sources.live._slower import SlowerSteps, known_of
from emberward.sources.ring import MarkKind, RingView

MAX_KEPT_STEPS = 512
MAX_POSTED_STEPS = 64
NUM_START_STEPS = 3
FORGET_S = 20.0
SAMPLE_END_S = 2.0
"""How long a sampler may take to write what it has when its process has ended."""
MIN_MARKED = 0.5
"""The least part of an excess that marks of one kind must make up to be its place."""

Program = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRows:
    """Steps that every rank of this host has ended, ascending: each step's length and each rank's own part in seconds.

    `own_s` has a tuple a rank, as long as `steps`. `programs` names what each rank runs: equal for equal programs.
    """

    steps: tuple[int, ...]
    length_s: tuple[float, ...]
    own_s: Mapping[int, tuple[float, ...]]
    programs: Mapping[int, str]


Key = tuple[Cause, tuple[int, ...]]


@dataclass(slots=True)
class _Rank:
    """What is kept of one rank's steps. `spans`: when each was, on the rank's own clock."""

    program: Program
    own_s: dict[int, float] = field(default_factory=dict)
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)


@dataclass(slots=True)
class _Suspect:
    """A rank that was found late once, while its lines are sampled."""

    key: Key
    pids: tuple[int, int]
    sampler: LineSampler
    is_first: bool


class StragglerWatch:
    """Sees the rings of a job again and again, and says who is waited for. `poll` it when rings were read anyway."""

    def __init__(self, *, line_of: LineOf, sample: StartSampler = start_sampler) -> None:
        self._line_of = line_of
        self._sample = sample
        self._ranks: dict[int, _Rank] = {}
        self._lengths_s: dict[int, float] = {}
        self._is_by_step = False
        self._pids: dict[int, int] = {}
        self._compiled: set[int] = set()
        self._slower = SlowerSteps()
        self._last_level = -1
        self._suspect: _Suspect | None = None
        self._said: dict[Key, tuple[Finding, float]] = {}
        self._last_given = -1

    @property
    def is_sampling(self) -> bool:
        """Whether lines are being sampled: then another poll is wanted soon."""
        return self._suspect is not None

    @property
    def is_sampled(self) -> bool:
        """Whether lines have been sampled: another poll says for whom the others wait."""
        return self._suspect is not None and self._suspect.sampler.is_done

    def conclude(self, views: Mapping[int, RingView]) -> tuple[Finding, ...]:
        """What is new when the job has ended well: a rank that was late in a job too short for two checks, too."""
        self.take(views)
        return (*self._conclude_late(views), *self._slower.news(views, self._spans())[0])

    def _conclude_late(self, views: Mapping[int, RingView]) -> tuple[Finding, ...]:
        late = self._late()
        key, suspect = _key(late), self._suspect
        if key is None or key in self._said:
            return ()
        is_known = suspect is not None and suspect.key == key
        lines = suspect.sampler.take(self._line_of, within_s=SAMPLE_END_S) if suspect is not None and is_known else {}
        pids = suspect.pids if suspect is not None else (0, 0)
        self._said[key] = (self._finding(late, views, lines, pids), 0.0)
        return (self._said[key][0],)

    def poll(self, views: Mapping[int, RingView], *, now_s: float) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
        """What is new, and what holds no more. `views`: rings with the calls made since the last poll, at least."""
        self.take(views)
        slower, over = self._slower.news(views, self._spans())
        late, gone = self._poll_late(views, now_s)
        return (*slower, *late), (*over, *gone)

    def _spans(self) -> dict[int, dict[int, tuple[int, int]]]:
        return {rank: kept.spans for rank, kept in self._ranks.items()}

    def _poll_late(
        self, views: Mapping[int, RingView], now_s: float
    ) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
        late = self._late()
        key = _key(late)
        gone = self._forget(key, now_s)
        if key is None or key in self._said:
            self._drop()
            if key is not None:
                self._said[key] = (self._said[key][0], now_s)
            return (), gone
        if self._suspect is None or self._suspect.key != key:
            self._drop()
            self._suspect = self._begin(key, late)
            return (), gone
        if not self._suspect.sampler.is_done:
            return (), gone
        lines, pids = self._suspect.sampler.take(self._line_of), self._suspect.pids
        if len(lines) < len(pids) and self._suspect.is_first:
            # On a busy host py-spy may fail to find its way into a process: once more, then without lines.
            self._suspect = self._begin(key, late, is_first=False)
            return (), gone
        self._suspect = None
        finding = self._finding(late, views, lines, pids)
        self._said[key] = (finding, now_s)
        return (finding,), gone

    def summary(self) -> list[dict[str, Any]]:
        """The last steps of this host's ranks as plain data, for other hosts: one part for each program.

        ``own_ms`` is the median over the program's ranks here, ``length_ms`` the step's length.
        """
        out = []
        for program, peers in self._peers().items():
            common = set(self._lengths_s).intersection(*(set(own) for own in peers.values()))
            numbers = sorted(common)[-MAX_POSTED_STEPS:]
            out.append(
                {
                    "program": self._name_of(program),
                    "ranks": sorted(peers),
                    "numbers": numbers,
                    "own_ms": [round(1000 * statistics.median(own[n] for own in peers.values()), 2) for n in numbers],
                    "length_ms": [round(1000 * self._lengths_s[n], 2) for n in numbers],
                }
            )
        return out

    def new_rows(self) -> OwnRows | None:
        """The steps that all ranks ended since the last call; None when there are none."""
        if not self._ranks:
            return None
        common = set.intersection(*(set(kept.own_s) for kept in self._ranks.values()))
        steps = tuple(sorted(step for step in common if step > self._last_given))
        if not steps:
            return None
        self._last_given = steps[-1]
        return OwnRows(
            steps=steps,
            length_s=tuple(self._lengths_s[step] for step in steps),
            own_s={rank: tuple(kept.own_s[step] for step in steps) for rank, kept in sorted(self._ranks.items())},
            programs={rank: self._name_of(kept.program) for rank, kept in sorted(self._ranks.items())},
        )

    def _name_of(self, program: Program) -> str:
        return hashlib.blake2b(f"{self._is_by_step} {program}".encode(), digest_size=6).hexdigest()

    def close(self) -> None:
        """Ends the sampling."""
        self._drop()

    # -- what is kept ------------------------------------------------------------------------------------------------

    def take(self, views: Mapping[int, RingView]) -> None:
        """Keeps each rank's own part of the steps that it has ended since."""
        for rank, view in views.items():
            pid = view.pid or 0
            kept = self._ranks.get(rank) if self._pids.get(rank) == pid else None
            times = own_times(view, after=None if kept is None or not kept.own_s else max(kept.own_s))
            if self._pids.get(rank) != pid or (times.is_by_step and not self._is_by_step):
                self._start_anew(rank, pid, is_by_step=times.is_by_step)
            if times.is_by_step != self._is_by_step or not times.steps:
                continue
            self._keep(rank, view, times)
        self._see_levels()

    def _start_anew(self, rank: int, pid: int, *, is_by_step: bool) -> None:
        """Another process, or steps that are told from now on: what was kept is of another count."""
        if (is_by_step and not self._is_by_step) or rank in self._pids:
            self._ranks.clear()
            self._lengths_s.clear()
            self._compiled.clear()
            self._slower, self._last_level, self._last_given = SlowerSteps(), -1, -1
        self._is_by_step |= is_by_step
        self._pids[rank] = pid

    def _keep(self, rank: int, view: RingView, times: OwnTimes) -> None:
        kept = self._ranks.setdefault(rank, _Rank(program=times.program))
        kept.program = times.program or kept.program
        compiles = [(m.began_ns, m.ended_ns) for m in view.marks if m.kind is MarkKind.COMPILE and m.ended_ns]
        for step in times.steps:
            kept.own_s[step.number] = step.own_s
            kept.spans[step.number] = (step.began_ns, step.ended_ns)
            self._lengths_s[step.number] = max(self._lengths_s.get(step.number, 0.0), step.length_s)
            if any(low < step.ended_ns and high > step.began_ns for low, high in compiles if high is not None):
                self._compiled.add(step.number)
        for old in sorted(kept.own_s)[:-MAX_KEPT_STEPS]:
            kept.own_s.pop(old)
            kept.spans.pop(old)
            self._lengths_s.pop(old, None)
            self._compiled.discard(old)

    def _see_levels(self) -> None:
        """Tells the rule of slowdowns the lengths of steps that every rank has ended."""
        if not self._ranks:
            return
        last = min(max(kept.own_s, default=-1) for kept in self._ranks.values())
        steps = sorted(step for step in self._lengths_s if self._last_level < step <= last)
        peers = self._peers() if steps else {}
        for step in steps:
            self._last_level = step
            if step >= NUM_START_STEPS and step not in self._compiled:
                self._slower.see(step=step, step_s=self._lengths_s[step], own_s=known_of(peers, step))

    # -- who is late -------------------------------------------------------------------------------------------------

    def _peers(self) -> dict[Program, dict[int, dict[int, float]]]:
        """Ranks that run one program, with the steps that count."""
        groups: dict[Program, dict[int, dict[int, float]]] = defaultdict(dict)
        for rank, kept in self._ranks.items():
            groups[kept.program][rank] = {
                step: own for step, own in kept.own_s.items() if step >= NUM_START_STEPS and step not in self._compiled
            }
        return dict(groups)

    def _late(self) -> tuple[LateRank, ...]:
        """The late ranks of one kind, the costliest first."""
        found = sorted(
            (late for peers in self._peers().values() for late in late_ranks(peers, self._lengths_s)), key=_cost
        )
        return tuple(late for late in found if (late.period is None) == (found[0].period is None))

    def _begin(self, key: Key, late: tuple[LateRank, ...], *, is_first: bool = True) -> _Suspect:
        first = late[0]
        peers = next(each for each in self._peers().values() if first.rank in each)
        rank = _ordinary_peer(peers, {each.rank for each in late})
        pids = (self._pids[first.rank], self._pids[rank])
        seconds = 0.0 if first.period is None else 1.5 * first.round_s
        return _Suspect(key=key, pids=pids, sampler=self._sample(pids, seconds), is_first=is_first)

    def _drop(self) -> None:
        if self._suspect is not None:
            self._suspect.sampler.close()
            self._suspect = None

    def _forget(self, key: Key | None, now_s: float) -> tuple[Finding, ...]:
        """What was said and has not been found for a while."""
        old = [each for each, (_, seen_s) in self._said.items() if each != key and now_s - seen_s > FORGET_S]
        return tuple(self._said.pop(each)[0] for each in old)

    # -- what is said ------------------------------------------------------------------------------------------------

    def _finding(
        self,
        late: tuple[LateRank, ...],
        views: Mapping[int, RingView],
        lines: Mapping[int, LineShares],
        pids: tuple[int, int],
    ) -> Finding:
        ranks = [each.rank for each in late]
        first = late[0]
        kind, marked = self._marked(first, views)
        is_sampled = all(lines[pid].num_samples for pid in pids) if len(lines) == len(pids) else False
        sampled = odd_line(lines[pids[0]], lines[pids[1]], share=first.share) if is_sampled else None
        site = sampled or marked
        waiting = sorted(set(self._ranks) - set(ranks))
        hosts = [view.host for rank in ranks if (view := views.get(rank)) is not None and view.host is not None]
        finding = _late_finding(late, waiting=waiting, hosts=hosts, site=site, stage=kind)
        evidence = list(finding.evidence)
        change = self._slower.now
        if change is not None:
            evidence.append(
                f"steps take {100 * change.share:.0f}% longer since step {change.first_step}: "
                f"{change.level_s:.3f} s before, {change.now_s:.3f} s now"
            )
        if site is None and is_sampled:
            evidence.append("no line of its program makes up the difference: it does the same, slower")
        return replace(finding, evidence=tuple(evidence))

    def _marked(self, late: LateRank, views: Mapping[int, RingView]) -> tuple[str | None, str | None]:
        """The part of the step that is longer than the peers', by marks: its kind and line; None when none is."""
        spans = self._ranks[late.rank].spans
        steps = [late.last_event] if late.last_event is not None else sorted(spans)[-16:]
        peers = [rank for rank in self._ranks if rank != late.rank and rank in views]
        if late.rank not in views or not peers:
            return None, None
        totals: dict[tuple[str, str | None], float] = defaultdict(float)
        for step in steps:
            if step not in spans:
                continue
            for key, seconds in marked_s(views, late.rank, *spans[step]).items():
                totals[key] += seconds / len(steps)
            others: dict[tuple[str, str | None], list[float]] = defaultdict(list)
            for rank in peers:
                span = self._ranks[rank].spans.get(step)
                for key, seconds in ({} if span is None else marked_s(views, rank, *span)).items():
                    others[key].append(seconds)
            for key, values in others.items():
                values += [0.0] * (len(peers) - len(values))
                totals[key] -= statistics.median(values) / len(steps)
        best = max(totals, key=lambda each: totals[each], default=None)
        if best is None or totals[best] < MIN_MARKED * late.excess_s:
            return None, None
        return best[0], None if best[1] is None else short_path(best[1])


def _cost(late: LateRank) -> float:
    return -late.share


def _key(late: tuple[LateRank, ...]) -> Key | None:
    if not late:
        return None
    cause = Cause.SLOW_RANK if late[0].period is None else Cause.SLOW_PERIODIC
    return cause, tuple(sorted(each.rank for each in late))


def _ordinary_peer(peers: Mapping[int, Mapping[int, float]], late: set[int]) -> int:
    """The peer whose own time is in the middle."""
    middles = {rank: statistics.median(own.values()) for rank, own in peers.items() if rank not in late and own}
    ordered = sorted(middles, key=lambda rank: (middles[rank], rank))
    return ordered[len(ordered) // 2]


def _late_finding(
    late: tuple[LateRank, ...],
    *,
    waiting: list[int],
    hosts: list[str],
    site: str | None,
    stage: str | None,
) -> Finding:
    """H140 for ranks that are late in each step, H141 for those that are at times. Severity: warning."""
    first, ranks = late[0], [each.rank for each in late]
    at = "" if site is None else f", at {site}"
    inside = "" if stage is None else f", in {stage}"
    length = f"{first.step_s:.3f} s"
    unit = "standard errors" if first.period is None else "times the ordinary spread"
    if first.period is None:
        code, cause = "H140", Cause.SLOW_RANK
        message = (
            f"{ranks_text(ranks)} {verb(ranks, 'is', 'are')} waited for in every step: "
            f"{1000 * first.excess_s:.0f} ms of {length} ({100 * first.share:.1f}%){inside}{at}"
        )
    else:
        code, cause = "H141", Cause.SLOW_PERIODIC
        message = (
            f"{ranks_text(ranks)} {verb(ranks, 'is', 'are')} waited for every {first.period} steps: "
            f"{1000 * first.excess_s:.0f} ms each time, {100 * first.share:.1f}% of all{inside}{at}"
        )
    found = hang_finding(
        code,
        message,
        kind=Kind.STRAGGLER,
        cause=cause,
        certainty=Certainty.OBSERVED,
        severity=Severity.WARNING,
        ranks=ranks,
        waiting=waiting,
        hosts=hosts,
        site=site,
        evidence=[
            f"rank {each.rank}: {1000 * each.excess_s:.1f} ms more of its own than its peers in the middle, "
            f"{each.sigmas:.0f} {unit}, steps {each.first_step} to {each.last_step}"
            for each in late[:8]
        ],
        ruled_out=(f"{waits(waiting)} for {verb(ranks, 'it', 'them')}: their own parts are shorter",),
        next_step=(
            f"read {site}"
            if site is not None
            else f"compare clocks, heat and neighbours of {ranks_text(ranks)} with another's; try another host"
        ),
    )
    step = first.last_step if first.last_event is None else first.last_event
    return replace(found, phase=FindingPhase(step=step))
