"""Everything that goes on beside an attempt: rings, watcher, findings, notifications, acknowledgements, heartbeat."""

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, assert_never

from emberward.diagnose import arrival_as
from emberward.findings import Finding, Severity
from emberward.processes import ProcessTree
from emberward.report import LineTail, RunFolder
from emberward.sources.dumps import explain_paths
from emberward.sources.live import Watcher
from emberward.supervise._act import DEATH_LIMIT_S, LASTING, Act, Held, Patience, decide, is_stuck
from emberward.supervise._council import Council
from emberward.supervise._host import seen_here
from emberward.supervise._late_lines import LINES, write_if_possible
from emberward.supervise._losses import LossLog
from emberward.supervise._node_agent import findings_of
from emberward.supervise._nodes import Node
from emberward.supervise._notify import Notifier
from emberward.supervise._rings import RingBox, own_identity
from emberward.supervise._watching import MAX_STARTS, STOP_LIMIT_S, WatcherChild, watcher_command

BEAT_S = 2.0
CONCLUDE_LIMIT_S = 8.0
LAST_LIMIT_S = 10.0
"""For the watcher to read what the job logged last."""
DEATHS = frozenset({"L102"})
"""Of deaths the supervisor itself knows more: the exit codes, and which came first."""
SEVERITY_ORDER = (Severity.NOTICE, Severity.WARNING, Severity.ERROR)
POLL_S = 0.05
LET_GO_S = 15.0
Around = Callable[[], AbstractContextManager[None]]


DEFAULT_PATIENCE = Patience()


@dataclass(frozen=True, slots=True, kw_only=True)
class Oversight:
    """How closely a run is watched, and what may be done about it.

    `patience`: for what and when the job is ended. `notify`: a command or a webhook that is given each finding.
    `is_watched`: whether ranks record and the watcher looks at them. `node`: this host's place among several.
    """

    patience: Patience = DEFAULT_PATIENCE
    notify: str | None = None
    is_watched: bool = True
    node: Node | None = None


def key_of(finding: Finding) -> tuple[object, ...]:
    """What makes two findings the same incident: code, cause, and who did it."""
    return (finding.code, finding.cause, finding.culprit_ranks, finding.culprit_pids, finding.hosts)


class Overseer:
    """Oversees one attempt after the other of one run on this host. `begin`, `poll` often, `end`; `close` at last."""

    def __init__(
        self,
        folder: RunFolder,
        oversight: Oversight,
        *,
        environment: Mapping[str, str],
        around_start: Around = nullcontext,
        ring_folder: Path | None = None,
    ) -> None:
        """`ring_folder` is given where ranks have one already; else each attempt gets a new one."""
        self.folder = folder
        self._ring_folder = ring_folder
        self._oversight = oversight
        self._environment = environment
        self._around = around_start
        self.council = None if oversight.node is None else Council(oversight.node)
        self._helpers = ProcessTree()
        self._notifier = Notifier(oversight.notify, tree=self._helpers)
        self.lines = LINES
        self._acks = LineTail(folder.acknowledged)
        self._by_ranks = LineTail(folder.findings, from_end=True)
        self._quiet: dict[str, float] = {}
        self._box: RingBox | None = None
        self._child: WatcherChild | None = None
        self._num_starts = 0
        self._has_read = False
        """Whether a watcher of this attempt was up: it has read what the job logged."""
        self._exits: dict[int, int] = {}
        self._attempt = 0
        self._held: dict[tuple[object, ...], Held] = {}
        self._let_go: dict[tuple[object, ...], tuple[Finding, float]] = {}
        self._said: dict[tuple[object, ...], Severity] = {}
        self._unshown: dict[tuple[object, ...], Finding] = {}
        """Notices of one snapshot; see `_shown_now`."""
        self._num_failures = 0
        self._beat_s = float("-inf")
        self._num_ranks = 0
        self.verdicts: list[Finding] = []
        """The error findings of this attempt that still hold, by the watcher's word."""

    # -- one attempt -------------------------------------------------------------------------------------------------

    def begin(self, attempt: int) -> dict[str, str]:
        """The environment for this attempt's command: ours, and what makes its ranks record."""
        self._attempt, self._num_starts, self._has_read = attempt, 0, False
        self._exits = {}
        self._held.clear()
        self._let_go.clear()
        self._said.clear()
        self._unshown.clear()
        self.verdicts = []
        if not self._oversight.is_watched:
            return dict(self._environment)
        self._box = RingBox(
            f"{self.folder.name}-{self.folder.id}",
            owner=own_identity(),
            tree=self._helpers,
            kept=self._kept,
            folder=self._ring_folder,
        )
        if self._box.problem is not None:
            self.report(own_finding(f"ranks are not recorded: {self._box.problem}", "free space in /dev/shm"))
        return self._box.environment(self._environment)

    def rings(self) -> dict[int, Path]:
        """pid -> ring of the processes of this attempt that record."""
        return {} if self._box is None else self._box.rings()

    def poll(self, *, now_s: float, now_unix: float, num_ranks: int) -> list[Finding]:
        """The findings since the last call, already written down and told. Does not wait.

        `num_ranks`: how many rank processes of this host live, for the heartbeat.
        """
        new: list[Finding] = []
        if self._box is not None and self._box.folder is not None:
            new = self._listen(self._box.folder, now_s=now_s)
        new += self._written_by_ranks()
        self._take_acks()
        self._note_failures()
        if now_s - self._beat_s >= BEAT_S or num_ranks != self._num_ranks:
            self._num_ranks = num_ranks
            self._beat_s = now_s
            self._beat("runs", now_s=now_s, now_unix=now_unix)
            self._tell_gaps(is_last=False)
        return new

    def act(self, *, now_s: float, now_unix: float) -> tuple[list[Finding], Finding | None]:
        """What to say now about findings that hold, written down already; and for which one to end the job, if any."""
        said: list[Finding] = []
        if self.council is not None and (due := self.council.due) is not None:
            return said, due
        for key, held in self._held.items():
            if held.finding.code in DEATHS and now_s - held.quiet_s < DEATH_LIMIT_S:
                continue  # Its launcher is about to end the job: nothing to announce.
            known = replace(held, is_acknowledged=now_unix < self._quiet.get(held.finding.code, 0.0))
            decision = decide(known, self._oversight.patience, now_s=now_s)
            match decision.act:
                case Act.NOTHING:
                    pass
                case Act.REPEAT:
                    self._held[key] = replace(held, said_s=now_s, num_repeats=held.num_repeats + 1)
                    said.append(held.finding)
                    self._write(held.finding)
                case Act.ANNOUNCE:
                    self._held[key] = replace(held, announced_s=now_s)
                    said.append(end_announcement(held.finding, decision.end_in_s or 0.0, now_unix=now_unix))
                    self._write(said[-1])
                case Act.END:
                    quiet_s = None if is_stuck(held.finding) else now_s - held.quiet_s
                    return said, ending_finding(held.finding, quiet_s=quiet_s)
                case _:
                    assert_never(decision.act)
        return said, None

    def standing(self, *, now_s: float) -> list[Finding]:
        """What holds, or held until LET_GO_S ago: who stood still when a time-out of the job's own ended it."""
        late = [finding for finding, gone_s in self._let_go.values() if now_s - gone_s <= LET_GO_S]
        return [*(held.finding for held in self._held.values()), *late]

    def mute(self) -> None:
        """Ends the watching of this attempt: what its ranks do from now on is our own doing."""
        if self._child is not None:
            self._child.stop()
            self._child, self._num_starts = None, MAX_STARTS + 1

    def is_said(self, finding: Finding) -> bool:
        """Whether this attempt has said so already, as severely."""
        return not self._is_news(finding)

    def correct(self, finding: Finding) -> None:
        """What is reported next of the same incident is said again: it tells more than what was said of it first."""
        self._said.pop(key_of(finding), None)

    def report(self, finding: Finding, *, is_told_elsewhere: bool = False) -> None:
        """Writes a finding down and tells whoever wants to know; not one that was said in this attempt as severely.

        `is_told_elsewhere`: another host tells people the same, so that N hosts tell it once.
        """
        if not self._is_news(finding):
            return
        self._said[key_of(finding)] = finding.severity
        self._write(finding, is_told_elsewhere=is_told_elsewhere)

    def _write(self, finding: Finding, *, is_told_elsewhere: bool = False) -> None:
        line = {**finding.to_json(), "attempt": self._attempt, "seen": _now()}
        self.lines.append(self.folder.findings, line)
        if self._quiet.get(finding.code, 0.0) <= time.time() and not is_told_elsewhere:
            self._notify(line)

    def _notify(self, line: Mapping[str, Any]) -> None:
        self._notifier.send({"run": str(self.folder.path), "host": socket.gethostname(), **line})

    def _written_by_ranks(self) -> list[Finding]:
        """What ranks themselves wrote down since the last call, such as a spike or a failed save; told to others here.

        A supervisor's own lines bear the time at which it saw them.
        """
        new: list[Finding] = []
        for line in self._by_ranks.poll():
            found = [] if "seen" in line else findings_of([line])
            new += found
            for finding in found:
                if finding.severity is not Severity.NOTICE and self._quiet.get(finding.code, 0.0) <= time.time():
                    self._notify({**line, "attempt": self._attempt, "seen": _now()})
        return new

    def tell_exits(self, exits: Mapping[int, int]) -> None:
        """Gives the watcher exit codes by pid, minus the signal's number."""
        self._exits |= exits
        if self._child is not None and exits:
            self._child.tell({"exits": exits})

    def conclude(self) -> list[Finding]:
        """The watcher's last word after the attempt failed, from the rings that are left; waits CONCLUDE_LIMIT_S.

        Told to nobody yet: whoever knows the exit codes decides what of it is a cause. See [Note: root and death].
        """
        if self._box is None or self._box.folder is None or self._num_starts > MAX_STARTS:
            return []
        new: tuple[Finding, ...] = ()
        is_told = False
        if self._child is not None and self._child.is_up:
            new, is_told = _last_word(self._child)
        if not is_told:
            # The watcher was not up yet, or is late. The ranks are gone: only rings are left, and read without a wait.
            new = (*new, *Watcher(self._box.folder).end(self._exits).findings)
        return [found for found in new if found.code not in DEATHS]

    def explained(self, found: Sequence[Finding]) -> tuple[Finding, ...]:
        """`found` on this attempt, which failed, as ``emberward explain`` concludes from the folder and them: one call
        of the judge on the rings that are kept there, so that nobody finds more in it afterwards.

        Of several hosts each has its own ranks' rings alone: there it stays with `found`, and whoever started them
        all asks the judge about the folder that holds them.
        """
        if self._oversight.node is not None:
            return tuple(found)
        if self._box is not None:
            self._box.copy(self._kept)
        try:
            (verdict,) = explain_paths([self.folder.path], source_folders=[Path.cwd()], prior=found).explanations
        except Exception as error:  # noqa: BLE001 (whatever went wrong here, what was found is told)
            self.report(own_finding(f"its rings could not be explained: {type(error).__name__}: {error}"))
            return tuple(found)
        # A line that was told before keeps the name of its file: an explanation of a folder knows shorter ones.
        lines = {key_of(finding): finding.site for finding in found}
        last = [
            replace(each, site=lines.get(key_of(each)) or each.site)
            for each in verdict.findings
            if each.severity is Severity.ERROR or key_of(each) in lines
        ]
        return tuple(last or found)

    def end(self) -> None:
        """Ends the watcher, keeps the rings in ``events/attempt-N``, and takes their folder away."""
        self._written_by_ranks()
        if self._child is not None:
            self._end_child(limit_s=LAST_LIMIT_S)
        if self._box is not None:
            if not self._has_read and self._box.has_captured():
                # The job ended before a watcher was up.
                assert self._box.folder is not None
                losses = LossLog(self._box.folder, self.folder)
                losses.start()
                losses.end()
            self._tell_gaps(is_last=True)
            self._box.copy(self._kept)
            self._box.remove()
            self._box = None

    def close(self, *, state: str) -> None:
        """Says that the run has ended, and waits for the last notification, which is bounded."""
        self.end()
        self._notifier.close()
        self._helpers.close()
        self._note_failures()
        self._beat(state, now_s=time.monotonic(), now_unix=time.time())

    # -- inside ------------------------------------------------------------------------------------------------------

    @property
    def _kept(self) -> Path:
        return self.folder.events / f"attempt-{self._attempt:04d}"

    def _listen(self, rings: Path, *, now_s: float) -> list[Finding]:
        """What the watcher said; starts it when there is something to watch, and again when it is silent."""
        if self._child is None:
            is_due = (
                self.rings() or self._oversight.node is not None or (self._box is not None and self._box.has_captured())
            )
            if self._num_starts < MAX_STARTS and is_due:
                self._start(rings, now_s=now_s)
            return []
        new: list[Finding] = []
        for said in self._child.poll(now_s=now_s):
            new += self._take(said, now_s=now_s)
        if self._child.is_silent(now_s=now_s):
            self._end_child()
            if self._num_starts >= MAX_STARTS:
                self.report(
                    own_finding("the watcher of the ranks ended or is silent", "emberward explain PID of the command")
                )
        return new

    def _end_child(self, *, limit_s: float = STOP_LIMIT_S) -> None:
        assert self._child is not None
        self._has_read |= self._child.stop(limit_s=limit_s) or self._child.is_up
        self._child = None

    def _start(self, rings: Path, *, now_s: float) -> None:
        self._num_starts += 1
        try:
            self._child = WatcherChild(
                watcher_command(rings, self.folder.lag, None if self.council is None else self.council.node),
                tree=self._helpers,
                environment=self._environment,
                now_s=now_s,
                around_start=self._around(),
            )
            self._child.tell({"exits": self._exits})
        except OSError as error:
            self._num_starts = MAX_STARTS
            self.report(
                own_finding(f"the watcher could not be started: {error}", "free memory or processes on this host")
            )

    def _take(self, said: Mapping[str, Any], *, now_s: float) -> list[Finding]:
        if self.council is not None:
            self.council.hear(said)
        for finding in findings_of(said.get("resolved")):
            if (held := self._held.pop(key_of(finding), None)) is not None:
                self._let_go[key_of(finding)] = held.finding, now_s
        fresh: dict[tuple[object, ...], Finding] = {}
        self._note_progress(said.get("progress"), now_s=now_s)
        for finding in findings_of(said.get("findings")):
            held = self._held.get(key_of(finding))
            if held is None or held.finding.severity is not finding.severity:
                quiet_s = now_s if held is None else held.quiet_s
                self._held[key_of(finding)] = Held(finding=finding, quiet_s=quiet_s, seen_until_s=now_s, said_s=now_s)
            if finding.code not in DEATHS and self._is_news(finding):
                fresh[key_of(finding)] = finding
                self.report(finding, is_told_elsewhere=finding.code in (said.get("told_elsewhere") or ()))
        if any(is_stuck(finding) for finding in fresh.values()) and self._box is not None:
            self._box.copy(self._kept)
        self.verdicts = [held.finding for held in self._held.values() if held.finding.severity is Severity.ERROR]
        return self._shown_now(fresh, has_snapshot="progress" in said)

    def _shown_now(self, fresh: Mapping[tuple[object, ...], Finding], *, has_snapshot: bool) -> list[Finding]:
        """What people are shown now: a notice about ranks only once a second snapshot has left it a notice.

        The first snapshot of what cannot go on is a notice too, and the second the error: people read one of the two.
        """
        lasting = [
            finding for key, finding in self._unshown.items() if has_snapshot and key not in fresh and key in self._held
        ]
        kept = {} if has_snapshot else {key: each for key, each in self._unshown.items() if key not in fresh}
        new = {key: each for key, each in fresh.items() if each.severity is Severity.NOTICE and each.kind in LASTING}
        self._unshown = {**kept, **new}
        return [*lasting, *(each for key, each in fresh.items() if key not in new)]

    def _note_progress(self, progress: object, *, now_s: float) -> None:
        """Starts the time of silence anew for findings about ranks of which a snapshot showed that something went
        on."""
        if not isinstance(progress, Mapping):
            return
        ranks = {int(rank) for rank in progress}
        for key, earlier in self._held.items():
            held = self._held[key] = replace(earlier, seen_until_s=now_s)
            finding = held.finding
            if ranks & {*finding.culprit_ranks, *(() if finding.culprit_ranks else finding.waiting_ranks)}:
                announced_s = held.announced_s if is_stuck(finding) else None
                self._held[key] = replace(held, quiet_s=now_s, announced_s=announced_s)

    def _tell_gaps(self, *, is_last: bool) -> None:
        if self._box is not None:
            for finding in self._box.gaps(is_last=is_last):
                self.report(finding)

    def _is_news(self, finding: Finding) -> bool:
        said = self._said.get(key_of(finding))
        return said is None or SEVERITY_ORDER.index(finding.severity) > SEVERITY_ORDER.index(said)

    def _take_acks(self) -> None:
        for line in self._acks.poll():
            if isinstance(line.get("code"), str) and isinstance(line.get("until_unix"), int | float):
                self._quiet[line["code"]] = float(line["until_unix"])

    def _note_failures(self) -> None:
        for text in self._notifier.failures[self._num_failures :]:
            self._num_failures += 1
            self.lines.append(
                self.folder.findings,
                {**notification_finding(text).to_json(), "attempt": self._attempt, "seen": _now()},
            )

    def _beat(self, state: str, *, now_s: float, now_unix: float) -> None:
        """Writes ``supervisor.json``: whoever reads an old one knows that nobody watches any more."""
        child = self._child
        watcher = None if child is None else {"pid": child.pid, "heard_s": round(now_s - child.heard_s, 1)}
        me = own_identity()
        self.lines.flush()
        write_if_possible(
            self.folder.supervisor,
            {
                "host": socket.gethostname(),
                "pid": None if me is None else me.pid,
                "created": None if me is None else me.created,
                "state": state,
                "attempt": self._attempt,
                "time_unix": now_unix,
                "every_s": BEAT_S,
                "num_ranks": self._num_ranks,
                "watcher": watcher,
                "holds": [held.finding.code for held in self._held.values()],
            },
        )


def _last_word(child: WatcherChild) -> tuple[tuple[Finding, ...], bool]:
    """What a watcher says when it is asked to conclude, and whether that was all of it; waits CONCLUDE_LIMIT_S."""
    child.tell({"conclude": True})
    found: list[Finding] = []
    end_s = time.monotonic() + CONCLUDE_LIMIT_S
    while True:
        now_s = time.monotonic()
        # Asked before the read: the watcher ends once it has said its last word, which is read then.
        is_over = now_s >= end_s or child.is_silent(now_s=now_s)
        for said in child.poll(now_s=now_s):
            found += findings_of(said.get("findings"))
            if said.get("done"):
                return tuple(found), True
        if is_over:
            return tuple(found), False
        time.sleep(POLL_S)


def end_announcement(finding: Finding, end_in_s: float, *, now_unix: float) -> Finding:
    """The notice that says when the job will be ended, and for what."""
    at = datetime.fromtimestamp(now_unix + end_in_s, UTC)
    return replace(
        finding,
        code="L115",
        severity=Severity.NOTICE,
        message=f"the job is ended at {at:%Y-%m-%d %H:%M:%S} UTC, in {end_in_s:.0f} s, unless this is past by then: "
        f"{finding.code} {finding.message[:200]}",
        evidence=(),
        next=f"emberward watch RUN --ack {finding.code} --silence-s 3600   (the job is not ended for it then)",
    )


def ending_finding(finding: Finding, *, quiet_s: float | None) -> Finding:
    """The finding for which the job is ended. `quiet_s`: how long nothing went on, where that alone is why."""
    if quiet_s is None:
        return finding
    line = f"nothing of it went on for {quiet_s:.0f} s, longer than --max-silence allows; it may have come by itself"
    return arrival_as(replace(finding, evidence=(*finding.evidence, line)), Severity.ERROR)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def own_finding(message: str, next: str = "report it as a bug; the job itself goes on") -> Finding:
    """A finding about the watching itself; it is no alarm about the job."""
    return seen_here("L108", message, severity=Severity.WARNING, next=next)


def notification_finding(text: str) -> Finding:
    """The finding for a notification that could not be handed over."""
    return seen_here(
        "L109",
        f"a notification failed: {text}",
        severity=Severity.WARNING,
        next="run the command of --notify by hand with the finding's JSON on its standard input",
    )
