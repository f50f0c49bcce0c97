"""Everything that goes on beside an attempt: rings, watcher, findings, notifications, acknowledgements, heartbeat."""

import socket
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.report import LineTail, RunFolder
from emberward.supervise._act import is_actionable, is_due
from emberward.supervise._late_lines import LINES, write_if_possible
from emberward.supervise._nodes import Node
from emberward.supervise._notify import Notifier
from emberward.supervise._rings import RingBox, own_identity
from emberward.supervise._watching import MAX_STARTS, WatcherChild, findings_in, watcher_command

BEAT_S = 2.0
CONCLUDE_LIMIT_S = 8.0
DEATHS = frozenset({"H105"})
"""Of deaths the supervisor itself knows more: the exit codes, and which came first."""
LOUDNESS = (Severity.NOTICE, Severity.WARNING, Severity.ERROR)
POLL_S = 0.05
LET_GO_S = 15.0
Around = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Oversight:
    """How closely a run is watched, and what may be done about it.

    `act_after_s`: how long a finding must hold before the job is ended for it (0: never). `notify`: a command or a
    webhook that is given each finding. `is_watched`: whether ranks record and the watcher looks at them. `node`: this
    host's place among several.
    """

    act_after_s: float = 60.0
    notify: str | None = None
    is_watched: bool = True
    node: Node | None = None


@dataclass(slots=True, kw_only=True)
class _Held:
    """A finding that holds, since when, and until when nobody wants to hear of it (seconds since 1970)."""

    finding: Finding
    since_s: float


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
    ) -> None:
        self.folder = folder
        self._oversight = oversight
        self._environment = environment
        self._around = around_start
        self._notifier = Notifier(oversight.notify)
        self.lines = LINES
        self._acks = LineTail(folder.acknowledged)
        self._by_ranks = LineTail(folder.findings, from_end=True)
        self._quiet: dict[str, float] = {}
        self._box: RingBox | None = None
        self._child: WatcherChild | None = None
        self._num_starts = 0
        self._exits: dict[int, int] = {}
        self._attempt = 0
        self._held: dict[tuple[object, ...], _Held] = {}
        self._let_go: dict[tuple[object, ...], _Held] = {}
        self._said: dict[tuple[object, ...], Severity] = {}
        self._num_failures = 0
        self._beat_s = float("-inf")
        self._num_ranks = 0
        self.verdicts: list[Finding] = []
        """The error findings of this attempt that still hold, by the watcher's word."""

    # -- one attempt -------------------------------------------------------------------------------------------------

    def begin(self, attempt: int) -> dict[str, str]:
        """The environment for this attempt's command: ours, and what makes its ranks record."""
        self._attempt, self._num_starts = attempt, 0
        self._exits = {}
        self._held.clear()
        self._let_go.clear()
        self._said.clear()
        self.verdicts = []
        if not self._oversight.is_watched:
            return dict(self._environment)
        self._box = RingBox(f"{self.folder.name}-{self.folder.id}", owner=own_identity())
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

    def due(self, *, now_s: float, now_unix: float) -> Finding | None:
        """The finding for which the job is to be ended now; None while there is none."""
        for held in self._held.values():
            quiet = now_unix < self._quiet.get(held.finding.code, 0.0)
            if is_due(
                held.finding,
                since_s=held.since_s,
                now_s=now_s,
                act_after_s=self._oversight.act_after_s,
                is_acknowledged=quiet,
            ):
                return held.finding
        return None

    def standing(self, *, now_s: float) -> list[Finding]:
        """What holds, or held until LET_GO_S ago: who stood still when a time-out of the job's own ended it."""
        late = [held.finding for held in self._let_go.values() if now_s - held.since_s <= LET_GO_S]
        return [*(held.finding for held in self._held.values()), *late]

    def mute(self) -> None:
        """Ends the watching of this attempt: what its ranks do from now on is our own doing."""
        if self._child is not None:
            self._child.stop()
            self._child, self._num_starts = None, MAX_STARTS + 1

    def is_said(self, finding: Finding) -> bool:
        """Whether this attempt has said so already, as severely."""
        return not self._is_news(finding)

    def report(self, finding: Finding, *, is_told_elsewhere: bool = False) -> None:
        """Writes a finding down and tells whoever wants to know; not one that was said in this attempt as severely.

        `is_told_elsewhere`: another host tells people the same, so that N hosts tell it once.
        """
        if not self._is_news(finding):
            return
        self._said[key_of(finding)] = finding.severity
        line = {**finding.to_json(), "attempt": self._attempt, "seen": _now()}
        self.lines.append(self.folder.findings, line)
        if self._quiet.get(finding.code, 0.0) <= time.time() and not is_told_elsewhere:
            self._notifier.send({"run": str(self.folder.path), "host": socket.gethostname(), **line})

    def _written_by_ranks(self) -> list[Finding]:
        """What ranks themselves wrote down since the last call, such as a spike or a failed save; told to others here.

        A supervisor's own lines bear the time at which it saw them.
        """
        new: list[Finding] = []
        for line in self._by_ranks.poll():
            if "seen" in line:
                continue
            try:
                finding = Finding.from_json(line)
            except (KeyError, TypeError, ValueError):
                continue
            new.append(finding)
            if finding.severity is not Severity.NOTICE and self._quiet.get(finding.code, 0.0) <= time.time():
                told = {**line, "attempt": self._attempt, "seen": _now()}
                self._notifier.send({"run": str(self.folder.path), "host": socket.gethostname(), **told})
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
        if self._child is None or not self._child.is_up or self._box is None or self._box.folder is None:
            return []
        self._child.tell({"conclude": True})
        new: list[Finding] = []
        end_s = time.monotonic() + CONCLUDE_LIMIT_S
        while (now_s := time.monotonic()) < end_s and not self._child.is_silent(now_s=now_s):
            said = self._child.poll(now_s=now_s)
            for each in said:
                new += [found for found in findings_in(each) if found.code not in DEATHS]
            if any(each.get("done") for each in said):
                break
            time.sleep(POLL_S)
        return new

    def end(self) -> None:
        """Ends the watcher, keeps the rings in ``events/attempt-N``, and takes their folder away."""
        self._written_by_ranks()
        if self._child is not None:
            self._child.stop()
            self._child = None
        if self._box is not None:
            self._tell_gaps(is_last=True)
            self._box.copy(self._kept)
            self._box.remove()
            self._box = None

    def close(self, *, state: str) -> None:
        """Says that the run has ended, and waits for the last notification, which is bounded."""
        self.end()
        self._notifier.close()
        self._note_failures()
        self._beat(state, now_s=time.monotonic(), now_unix=time.time())

    # -- inside ------------------------------------------------------------------------------------------------------

    @property
    def _kept(self) -> Path:
        return self.folder.events / f"attempt-{self._attempt:04d}"

    def _listen(self, rings: Path, *, now_s: float) -> list[Finding]:
        """What the watcher said; starts it when there is something to watch, and again when it is silent."""
        if self._child is None:
            if self._num_starts < MAX_STARTS and (self.rings() or self._oversight.node is not None):
                self._start(rings, now_s=now_s)
            return []
        new: list[Finding] = []
        for said in self._child.poll(now_s=now_s):
            new += self._take(said, now_s=now_s)
        if self._child.is_silent(now_s=now_s):
            self._child.stop()
            self._child = None
            if self._num_starts >= MAX_STARTS:
                self.report(
                    own_finding("the watcher of the ranks ended or is silent", "emberward explain PID of the command")
                )
        return new

    def _start(self, rings: Path, *, now_s: float) -> None:
        self._num_starts += 1
        try:
            self._child = WatcherChild(
                watcher_command(rings, self._oversight.node),
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
        for finding in findings_in(said, "resolved"):
            if (held := self._held.pop(key_of(finding), None)) is not None:
                self._let_go[key_of(finding)] = _Held(finding=held.finding, since_s=now_s)
        new = []
        for finding in findings_in(said):
            held = self._held.get(key_of(finding))
            if held is None or held.finding.severity is not finding.severity:
                self._held[key_of(finding)] = _Held(finding=finding, since_s=now_s)
            if finding.code not in DEATHS and self._is_news(finding):
                new.append(finding)
                self.report(finding, is_told_elsewhere=finding.code in (said.get("told_elsewhere") or ()))
        if any(is_actionable(finding) for finding in new) and self._box is not None:
            self._box.copy(self._kept)
        self.verdicts = [held.finding for held in self._held.values() if held.finding.severity is Severity.ERROR]
        return new

    def _tell_gaps(self, *, is_last: bool) -> None:
        if self._box is not None:
            for finding in self._box.gaps(is_last=is_last):
                self.report(finding)

    def _is_news(self, finding: Finding) -> bool:
        said = self._said.get(key_of(finding))
        return said is None or LOUDNESS.index(finding.severity) > LOUDNESS.index(said)

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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def own_finding(message: str, next: str = "report it as a bug; the job itself goes on") -> Finding:
    """A finding about the watching itself; it is no alarm about the job."""
    return Finding(
        code="L108",
        severity=Severity.WARNING,
        kind=Kind.RESOURCE,
        cause=Cause.UNKNOWN,
        certainty=Certainty.OBSERVED,
        message=message,
        hosts=(socket.gethostname(),),
        next=next,
    )


def notification_finding(text: str) -> Finding:
    """The finding for a notification that could not be handed over."""
    return Finding(
        code="L109",
        severity=Severity.WARNING,
        kind=Kind.RESOURCE,
        cause=Cause.UNKNOWN,
        certainty=Certainty.OBSERVED,
        message=f"a notification failed: {text}",
        hosts=(socket.gethostname(),),
        next="run the command of --notify by hand with the finding's JSON on its standard input",
    )
