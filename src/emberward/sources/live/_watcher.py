"""Watches the rings of a job, and says who stops it.

[Note: snapshots]
Reading the words of the rings is cheap, and is nearly all that happens while the job moves: see [Note: pulses] in
`_quiet`. When a rank has stood still for longer than its own history allows, a snapshot is taken, and another
SNAPSHOT_GAP_S later; what both say is the verdict. While the rank goes on standing still, snapshots go on at growing
distances, until the job moves or the error is said.
"""

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from emberward.diagnose import Evidence, LineOf, hang_finding, judge, met_apart, ranks_text
from emberward.diagnose.live import Snapshot
from emberward.findings import GOES_ON, QUOTED_CHARS, Cause, Certainty, Finding, Kind, Severity
from emberward.sources.dumps import MIN_NOTICE_S, flights_of, limits_of, ring_facts, source_lines
from emberward.sources.live._alike import are_alike
from emberward.sources.live._judge import judge_with_progress
from emberward.sources.live._lasting import LineDifference, difference_finding, lasting_differences
from emberward.sources.live._lines import StartSampler, start_sampler
from emberward.sources.live._process import read_process_facts
from emberward.sources.live._quiet import Pulses, ReadPulses, read_pulses
from emberward.sources.live._skew import SkewWatch
from emberward.sources.live._stragglers import OwnRows, StragglerWatch
from emberward.sources.live._take import newest_rings, snapshot_of_rings
from emberward.sources.ring import RingView

SNAPSHOT_GAP_S = 3.0
MAX_SNAPSHOT_GAP_S = 15.0
CHECK_GAP_S = 2.5
"""How often calls that have completed are compared."""
LATE_CHECK_GAP_S, NUM_EARLY_CHECKS = 10.0, 48
"""After that many checks they come less often: what a job does in its first minutes it does later too."""
MAX_CHECKED = 2048
MIN_CHECKED = 128

TakeSnapshot = Callable[[Mapping[int, RingView]], Snapshot]
ReadRings = Callable[[Path, int | None], Mapping[int, RingView]]
Said = tuple[str, Cause, tuple[int, ...], str | None]


def read_rings(folder: Path, num_events: int | None) -> Mapping[int, RingView]:
    """The rings of a folder with their last `num_events` calls, or all of them."""
    return newest_rings(folder, num_events=num_events)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchReport:
    """What one `poll` found. `findings` are new, or of another severity now; `resolved` were said and hold no more.

    `is_still`: some rank stands still for longer than its history allows. `snapshot`: the snapshot that was taken, if
    one was.
    `progress`: what of each rank went on between the last two snapshots, where anything did; see [Note: progress].
    """

    findings: tuple[Finding, ...] = ()
    resolved: tuple[Finding, ...] = ()
    is_still: bool = False
    snapshot: Snapshot | None = None
    progress: Mapping[int, str] = field(default_factory=dict)


class Watcher:
    """Watches the rings in `ring_folder`. Call `poll` about once a second, from one thread.

    Blocks for milliseconds while the job moves, and for as long as stacks take when a snapshot is due. Give it a
    process of its own: reading a process can block for as long as the kernel likes.
    """

    def __init__(
        self,
        ring_folder: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
        line_of: LineOf | None = None,
        take: TakeSnapshot = snapshot_of_rings,
        read: ReadRings = read_rings,
        sample: StartSampler = start_sampler,
        pulses: ReadPulses = read_pulses,
    ) -> None:
        self.ring_folder = ring_folder
        self._clock = clock
        self._line_of = source_lines([]) if line_of is None else line_of
        self._take = take
        self._read = read
        self._early: Snapshot | None = None
        self._last: Snapshot | None = None
        self._next_snapshot_s = 0.0
        self._gap_s = SNAPSHOT_GAP_S
        self._next_check_s = 0.0
        self._checked: dict[int, int] = {}
        self._num_checks = 0
        self._said: dict[Said, Finding] = {}
        self._faults: set[Said] = set()
        self._lasting: tuple[LineDifference, ...] = ()
        self._unlike: set[Said] = set()
        self._ending: set[int] = set()
        self._went: set[int] = set()
        self._pulses = Pulses(read=pulses)
        self._notice_s: dict[int, float] = {}
        self._num_alive: int | None = None
        self._stragglers = StragglerWatch(line_of=self._line_of, sample=sample)
        self._is_closed = False
        self._skew = SkewWatch()
        self._past: tuple[Finding, ...] = ()
        """Findings about steps that were slow and are not any more."""
        self._steps: dict[int, int | None] = {}

    def poll(self, exits: Mapping[int, int] | None = None) -> WatchReport:
        """What is new. `exits`: exit codes by pid, as far as the caller knows (minus the signal's number).

        Never raises: a watcher that fails says so in a finding (H127), and tries again.
        """
        try:
            return self._poll(exits)
        except Exception as error:  # noqa: BLE001 (whatever went wrong here, the job must stay watched)
            return WatchReport(findings=self._new((failed_finding(error),)))

    def _poll(self, exits: Mapping[int, int] | None) -> WatchReport:
        now_s, num_exits = self._clock(), len(exits or {})
        is_held = (
            self._said
            or self._last
            or self._ending
            or self._stragglers.is_sampling
            or self._skew.is_open
            or now_s >= self._next_check_s
        )
        if not is_held and self._pulses.goes_on(self.ring_folder, num_exits=num_exits, now_s=now_s):
            self._past = ()
            return WatchReport()
        views = self._read(self.ring_folder, 0)
        now_s = self._clock()
        still, dead = self._still(views), self._dead(views, exits)
        self._pulses.learn(self.ring_folder, views, notice_s=self._notice_s, num_exits=num_exits, now_s=now_s)
        faults = (*self._skew.poll(views), *self._check(views, now_s))
        if views and self._num_alive == 0 and not dead:
            # The job is over: what was said of it holds, and `end` has the last word.
            return WatchReport(findings=faults)
        if not still and not dead:
            return WatchReport(findings=faults, resolved=(*self._moved(), *self._past))
        if now_s < self._next_snapshot_s:
            return WatchReport(findings=faults, resolved=self._past, is_still=True)
        snapshot = self._take(self._read(self.ring_folder, None))
        self._early, self._last = self._last, snapshot
        is_second = self._early is not None
        self._gap_s = SNAPSHOT_GAP_S if not is_second else min(self._gap_s * 1.6, MAX_SNAPSHOT_GAP_S)
        self._next_snapshot_s = self._clock() + self._gap_s
        found, progress = self._judge(self._early, snapshot, exits)
        gone, new = (*self._gone(found), *self._past), (*faults, *self._new(found))
        return WatchReport(findings=new, resolved=gone, is_still=True, snapshot=snapshot, progress=progress)

    @property
    def facts(self) -> Mapping[str, str] | None:
        """What should be alike on all hosts, as this host's first rank tells it; None until its ranks have."""
        return self._skew.facts

    def steps(self) -> list[dict[str, Any]]:
        """The last steps of this host's ranks as plain data, for other hosts."""
        return self._stragglers.summary()

    def new_rows(self) -> OwnRows | None:
        """The steps that all ranks of this host ended since the last call, with each rank's own part."""
        return self._stragglers.new_rows()

    def end(self, exits: Mapping[int, int] | None = None) -> WatchReport:
        """The verdict on a job whose processes have ended, from what their rings still hold. Never raises."""
        try:
            return self._end(exits)
        except Exception as error:  # noqa: BLE001 (as in `poll`)
            return WatchReport(findings=self._new((failed_finding(error),)))

    def close(self) -> None:
        """Ends what is under way beside the polls; steps are not judged any more."""
        self._is_closed = True
        self._stragglers.close()

    def _end(self, exits: Mapping[int, int] | None) -> WatchReport:
        views = self._read(self.ring_folder, None)
        is_well = not self._is_closed and bool(exits) and not any((exits or {}).values())
        if not is_well:
            self._stragglers.take(views)
        late = self._stragglers.conclude(views) if is_well else ()
        self.close()
        snapshot = self._take(views)
        # Processes that have ended do not move: one snapshot at them is as good as two. An older one, such as one of
        # the start, would say that they made calls since, and that what stopped them is therefore past.
        is_over = not any(seen.process.is_alive for seen in snapshot.ranks.values())
        found, _ = self._judge(snapshot if is_over else self._last or snapshot, snapshot, exits)
        return WatchReport(
            findings=(*late, *self._check(views, self._clock(), at_once=True), *self._new(found)), snapshot=snapshot
        )

    def _judge(
        self, early: Snapshot | None, snapshot: Snapshot, exits: Mapping[int, int] | None
    ) -> tuple[tuple[Finding, ...], Mapping[int, str]]:
        by_pid = exits or {}
        codes = {rank: by_pid[s.process.pid] for rank, s in snapshot.ranks.items() if s.process.pid in by_pid}
        return judge_with_progress(early, snapshot, line_of=self._line_of, exits=codes)

    # -- when to look ------------------------------------------------------------------------------------------------

    def _still(self, views: Mapping[int, RingView]) -> list[int]:
        """Ranks that stand still for longer than their history allows."""
        ages = {rank: view.moved_age_s for rank, view in views.items()}
        slow = [rank for rank, age in ages.items() if age is not None and age >= MIN_NOTICE_S]
        self._notice_s = {}
        if not slow:
            return []
        out = []
        full = self._read(self.ring_folder, MAX_CHECKED)
        for rank in slow:
            view, age = full.get(rank), ages[rank]
            if view is None or age is None:
                continue
            self._notice_s[rank] = limits_of(view).notice_s
            if age >= self._notice_s[rank]:
                out.append(rank)
        return out

    def _dead(self, views: Mapping[int, RingView], exits: Mapping[int, int] | None) -> list[int]:
        """Ranks whose process is gone, or whose main thread has raised and was there at the last poll too.

        One that went just now without an exit code counts at the next poll: its parent may still tell the code.
        """
        gone, ending, num_gone = [], set(), 0
        known = exits or {}
        for rank, view in views.items():
            if view.pid is None:
                continue
            facts = read_process_facts(view.pid)
            is_other = None not in (view.start_ticks, facts.start_ticks) and view.start_ticks != facts.start_ticks
            if not facts.is_alive or is_other:
                num_gone += 1
                is_told = view.pid in known or facts.exit_code is not None
                if is_told or view.pid in self._went:
                    gone.append(rank)
                self._went.add(view.pid)
            elif any(mark.kind.value == "exception" for mark in view.marks[-8:]):
                ending.add(rank)
        self._num_alive = len(views) - num_gone
        lasting = sorted(ending & self._ending)
        self._ending = ending
        return [] if len(gone) == len(views) and not lasting else [*gone, *lasting]

    # -- what was said -----------------------------------------------------------------------------------------------

    @staticmethod
    def _key(finding: Finding) -> Said:
        members = tuple(m.rank for m in finding.cycle or ())
        return finding.code, finding.cause, finding.culprit_ranks or members, finding.site

    def _new(self, found: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """Those that were not said yet, or with another severity."""
        new = []
        for finding in found:
            key = self._key(finding)
            if key in self._faults:
                continue
            said = self._said.get(key)
            if said is None or finding.severity is not said.severity:
                self._said[key] = finding
                new.append(finding)
        return tuple(new)

    def _gone(self, found: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """Findings that the newest snapshot does not bear out any more."""
        held = {self._key(finding) for finding in found}
        return tuple(self._said.pop(key) for key in list(self._said) if key not in held)

    def _moved(self) -> tuple[Finding, ...]:
        """All that was said, when the job moves again."""
        self._early = self._last = None
        self._next_snapshot_s, self._gap_s = 0.0, SNAPSHOT_GAP_S
        return self._gone(())

    def _check(self, views: Mapping[int, RingView], now_s: float, *, at_once: bool = False) -> tuple[Finding, ...]:
        """Calls that met and differ though nothing hangs, and ranks that are waited for in every step.

        Gloo lets int32 meet fp32 of one size in silence. `views`: rings that were read just now.
        """
        self._past = ()
        if now_s < self._next_check_s and not at_once and not self._stragglers.is_sampled:
            return ()
        self._num_checks += 1
        self._next_check_s = now_s + (CHECK_GAP_S if self._num_checks < NUM_EARLY_CHECKS else LATE_CHECK_GAP_S)
        made = {rank: view.num_calls - self._checked.get(rank, 0) for rank, view in views.items()}
        steps = {rank: view.step for rank, view in views.items()}
        if max(made.values(), default=0) <= 0:
            # DDP's calls pass below the recorder: its steps are known by their marks alone.
            late = () if steps == self._steps else self._slow(views, now_s)
            self._steps = steps
            return late
        self._steps = steps
        self._checked = {rank: view.num_calls for rank, view in views.items()}
        views = self._read(self.ring_folder, min(MAX_CHECKED, max(made.values()) + MIN_CHECKED))
        lasting = lasting_differences(views)
        seen, self._lasting = self._lasting, lasting
        faults = [difference_finding(each) for each in lasting if each in seen or at_once]
        if are_alike(views):
            return (*self._new_faults(faults), *self._slow(views, now_s))
        evidence = Evidence(
            label="the job",
            flights=flights_of({r: ring_facts(view, is_past=True) for r, view in views.items()}, is_past=True),
        )
        silent = [
            replace(f, certainty=Certainty.OBSERVED)
            for f in judge(evidence, line_of=self._line_of).findings
            if f.severity is not Severity.NOTICE and _is_silent_fault(f)
        ]
        # Other operations that meet stop a job as a rule: then its snapshots tell more. Silent is what it outlives.
        seen_keys, self._unlike = self._unlike, {self._key(f) for f in silent}
        faults += [f for f in silent if at_once or f.cause is not Cause.DIFFERENT_OP or self._key(f) in seen_keys]
        return (*self._new_faults(faults), *self._slow(views, now_s))

    def _new_faults(self, faults: Sequence[Finding]) -> tuple[Finding, ...]:
        """Those that were not said yet; what has happened is not taken back."""
        new = tuple(finding for finding in faults if self._key(finding) not in self._faults)
        self._faults |= {self._key(finding) for finding in new}
        return new

    def _slow(self, views: Mapping[int, RingView], now_s: float) -> tuple[Finding, ...]:
        """What is new about ranks that are waited for; what holds no more is kept for this poll's report."""
        if self._is_closed:
            return ()
        late, self._past = self._stragglers.poll(views, now_s=now_s)
        return late


def _is_silent_fault(finding: Finding) -> bool:
    """Whether a finding about completed calls is a fault of those calls: they differ, or meet one place apart."""
    is_mismatch = finding.code in ("M101", "M102") and finding.kind is Kind.MISMATCH
    return is_mismatch or met_apart(finding)


def resumed_finding(resolved: Finding) -> Finding:
    """The notice that says that the job goes on."""
    ranks = resolved.culprit_ranks or resolved.waiting_ranks
    return hang_finding(
        GOES_ON,
        f"the job goes on: {ranks_text(ranks) if ranks else 'it'} moved again; it was: "
        f"{resolved.message[:QUOTED_CHARS]}",
        kind=Kind.NONE,
        cause=Cause.NONE,
        certainty=Certainty.OBSERVED,
        severity=Severity.NOTICE,
        evidence=(),
        next_step="nothing; a report of the run shows how long it took",
    )


def failed_finding(error: Exception) -> Finding:
    """The warning that says that the watcher itself failed."""
    trace = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(trace[-1].filename).name}:{trace[-1].lineno}" if trace else ""
    return hang_finding(
        "H127",
        f"the watcher of live jobs failed: {type(error).__name__}: {error}"[:300],
        cause=Cause.NONE,
        certainty=Certainty.OBSERVED,
        severity=Severity.WARNING,
        evidence=(f"raised{where}; the job runs on, and is looked at again",),
        next_step="report this with the rings of the job; until then watch it with: emberward explain PID",
    )
