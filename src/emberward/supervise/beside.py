"""What watches the ranks of a host beside a program that nobody supervises; `emberward.watch` starts it.

    python -m emberward.supervise.beside RUN_FOLDER RING_FOLDER

Its standard input says ``{"environment": {...}, "command": [...]}`` and, when the loop has ended well, ``{"done":
true}``. It ends with that, or when that input is closed and every rank of this host has ended, LAST_RANKS_S later at
most. It ends no process. Its starter's process tree ends it when the starter has ended and that time is over.
"""

import contextlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emberward.findings import Finding, Severity
from emberward.match import explain_finding
from emberward.processes import ProcessId, identify
from emberward.report import RunFolder, write_json
from emberward.sources.ring import find_rings, remove_ring_folder
from emberward.supervise._diary import now_text, open_attempt
from emberward.supervise._exits import Ended
from emberward.supervise._members import Member, Members
from emberward.supervise._overseer import Overseer, Oversight
from emberward.supervise._policy import Outcome
from emberward.supervise._rings import pid_of, rank_of
from emberward.supervise._verdict import RingFacts, command_failed, judge_end, rank_record, read_last_facts

TICK_S = 0.25
LAST_RANKS_S = 10.0
"""How long ranks are watched that live on after the loop of the first one broke off."""
MAX_READ_BYTES = 1 << 20


class _Told:
    """Our standard input: what we are told, and whether it is closed."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""
        self.is_closed = False
        self.is_left = False
        """Whether a signal said that our starter has ended: a process that it forked may hold our input open."""
        self.facts: dict[str, Any] = {}

    def wait(self, timeout_s: float) -> None:
        """Takes what is said within `timeout_s`; returns at once when something is, or waits when all is said."""
        ready, _, _ = select.select([] if self.is_closed else [self._descriptor], [], [], timeout_s)
        if not ready:
            return
        data = os.read(self._descriptor, MAX_READ_BYTES)
        self.is_closed = not data
        whole, _, self._rest = (self._rest + data).rpartition(b"\n")
        for line in whole.splitlines():
            self.facts |= json.loads(line)


class Beside:
    """Watches one start of a program on this host, from its first rank's call to the last rank's end."""

    def __init__(self, folder: RunFolder, rings: Path, told: _Told) -> None:
        self._folder = folder
        self._told = told
        self._rings = rings
        self._members = Members()
        self._facts: dict[int, RingFacts] = {}
        self._overseer = Overseer(folder, Oversight(), environment=told.facts["environment"], ring_folder=rings)
        self._overseer.begin(1)

    def run(self) -> Outcome:
        """How the loop ended, by its own word and by its ranks' ends; blocks until it has."""
        command = [str(word) for word in self._told.facts["command"]]
        write_json(self._folder.command, {"command": command, "folder": str(Path.cwd())})
        why = "emberward.watch() was called"
        number = open_attempt(self._folder, self._overseer.lines, why=why, num_ranks=None, config=None, command=command)
        began_s, over_s = time.monotonic(), None
        self._look(now_s=began_s)
        os.write(1, b"watching\n")
        while True:
            self._told.wait(TICK_S)
            now_s = time.monotonic()
            self._look(now_s=now_s)
            if (self._told.is_closed or self._told.is_left) and over_s is None:
                over_s = now_s
            if over_s is None:
                continue
            is_over = self._told.facts.get("done") or not self._members.living
            if is_over or now_s - over_s > LAST_RANKS_S:
                break
        findings = self._judge(command)
        is_done = bool(self._told.facts.get("done")) and not any(each.severity is Severity.ERROR for each in findings)
        outcome = Outcome.DONE if is_done else Outcome.FAILED
        self._write_end(number, outcome, findings, seconds=time.monotonic() - began_s)
        self._overseer.close(state=outcome.value)
        self._members.close()
        return outcome

    def _look(self, *, now_s: float) -> None:
        rings = self._found_rings()
        self._members.add(
            {pid: rank for pid, ring in rings.items() if (rank := rank_of(ring)) is not None}, rings=rings
        )
        gone = self._members.look(now_unix=time.time())
        codes = {each.process.pid: each.ended.exit_code for each in gone if each.ended is not None}
        self._overseer.tell_exits({pid: code for pid, code in codes.items() if code is not None})
        for member in gone:
            if member.ring is not None and (facts := read_last_facts(member.ring)) is not None:
                self._facts[member.process.pid] = facts
        living = len(self._members.living)
        for finding in self._overseer.poll(now_s=now_s, now_unix=time.time(), num_ranks=living):
            _say(finding)

    def _judge(self, command: Sequence[str]) -> tuple[Finding, ...]:
        """What ended the loop; nothing when it ended well by the first rank's word."""
        if self._told.facts.get("done"):
            return ()
        members = [*self._members.latest(), *self._unseen()]
        found = judge_end(
            code=1,
            records=[rank_record(each, self._facts.get(each.process.pid)) for each in members],
            facts=self._facts,
            verdicts=[*self._overseer.verdicts, *self._overseer.conclude()],
            otherwise=lambda: command_failed(1, command),
            standing=self._overseer.standing(now_s=time.monotonic()),
        )
        findings = self._overseer.explained(found.findings)
        for finding in findings:
            if not self._overseer.is_said(finding):
                _say(finding)
                self._overseer.report(finding)
        return findings

    def _found_rings(self) -> dict[int, Path]:
        return {pid: ring for ring in find_rings(self._rings) if (pid := pid_of(ring)) is not None}

    def _unseen(self) -> list[Member]:
        """Ranks that began and were gone between two looks: what their rings hold is all that is known of them."""
        seen = {member.rank for member in self._members.by_pid.values()}
        found = []
        for pid, ring in self._found_rings().items():
            rank, facts = rank_of(ring), read_last_facts(ring)
            if rank is None or rank in seen or facts is None:
                continue
            self._facts[pid] = facts
            at = ring.stat().st_mtime
            ended = Ended(exit_code=None, seen_unix=at)
            found.append(Member(rank=rank, process=ProcessId(pid=pid, created=at), ended=ended, ring=ring))
        return found

    def _write_end(self, number: int, outcome: Outcome, findings: Sequence[Finding], *, seconds: float) -> None:
        first = findings[0] if findings else None
        steps = [facts.step for facts in self._facts.values() if facts.step is not None]
        self._overseer.lines.append(
            self._folder.attempts,
            {
                "event": "end",
                "attempt": number,
                "end": now_text(),
                "outcome": outcome.value,
                "why": outcome.value if first is None else first.message,
                "cause": None if first is None else first.cause.value,
                "code": None if first is None else first.code,
                "hosts": [] if first is None else list(first.hosts),
                "last_step": max(steps, default=None),
                "saved_step": None,
                "hours": seconds / 3600,
                "hours_lost": 0.0,
            },
        )


def _say(finding: Finding) -> None:
    with contextlib.suppress(OSError):
        os.write(2, (explain_finding(finding) + "\n").encode("utf-8", "replace"))


def _remove_dead(rings: Path) -> None:
    """Removes what an earlier start with the same name left behind: rings of processes that are gone."""
    for ring in find_rings(rings):
        pid = pid_of(ring)
        if pid is not None and identify(pid, or_zombie=True) is None:
            ring.unlink(missing_ok=True)


def main(folder: Path, rings: Path) -> int:
    """Watches until the loop is over; 0."""
    told = _Told(0)
    while not told.facts and not told.is_closed:
        told.wait(TICK_S)
    if not told.facts:
        return 0
    _remove_dead(rings)
    # So the guardian of our starter's tree says that it has ended, before it ends us: END_LIMIT_S of `emberward.watch`.
    signal.signal(signal.SIGTERM, lambda number, frame: setattr(told, "is_left", True))
    Beside(RunFolder(path=folder), rings, told).run()
    remove_ring_folder(rings)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
