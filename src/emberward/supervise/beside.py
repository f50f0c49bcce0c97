"""What watches the ranks of a host beside a program that nobody supervises; `emberward.watch` starts it.

    python -m emberward.supervise.beside RUN_FOLDER RING_FOLDER

Its standard input says ``{"environment": {...}, "command": [...]}`` and, when the loop has ended well, ``{"done":
true}``. It ends with that, or when that input is closed and every rank of this host has ended, LAST_RANKS_S later at
most. It ends no process. Its starter's process tree ends it when the starter has ended and that time is over.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emberward.findings import Finding
from emberward.match import explain_finding
from emberward.processes import ProcessId, identify
from emberward.report import RunFolder, write_json
from emberward.sources.ring import find_rings, remove_ring_folder
from emberward.supervise._act import Patience
from emberward.supervise._attempt import Attempt
from emberward.supervise._exits import Ended
from emberward.supervise._members import Member
from emberward.supervise._overseer import Overseer, Oversight
from emberward.supervise._policy import AttemptOutcome
from emberward.supervise._rings import pid_of, rank_of
from emberward.supervise._verdict import Conclusion, RingFacts, command_failed, judge_end, rank_record, read_last_facts
from emberward.supervise._watching import JsonLines

TICK_S = 0.25
LAST_RANKS_S = 10.0
"""How long ranks are watched that live on after the loop of the first one broke off."""
WATCHED = Oversight(patience=Patience(act_after_s=0.0))
"""Nothing is ended, whatever is found."""


class Beside(Attempt):
    """Watches one start of a program on this host, from its first rank's call to the last rank's end."""

    tells_at_end = True

    def __init__(self, folder: RunFolder, rings: Path, told: JsonLines, facts: Mapping[str, Any]) -> None:
        self._told = told
        self._is_done = bool(facts.get("done"))
        self.is_left = False
        """Whether a signal said that our starter has ended: a process that it forked may hold our input open."""
        self._rings = rings
        self._facts: dict[int, RingFacts] = {}
        self._over_s: float | None = None
        self._command = [str(word) for word in facts["command"]]
        overseer = Overseer(folder, WATCHED, environment=facts["environment"], ring_folder=rings)
        super().__init__(folder, overseer, _say, grace_s=0.0)

    def run(self) -> AttemptOutcome:
        """How the loop ended, by its own word and by its ranks' ends; blocks until it has."""
        write_json(self.folder.command, {"command": self._command, "folder": str(Path.cwd())})
        outcome = self.make("emberward.watch() was called", command=self._command).outcome
        self.overseer.close(state=outcome.value)
        return outcome

    def start(self, environment: Mapping[str, str]) -> None:
        """Learns of the ranks that are up, and lets the program go on."""
        self.refresh(now_s=time.monotonic(), now_unix=time.time())
        os.write(1, b"watching\n")

    def ended(self) -> int | None:
        """0 when the loop has ended well by its own word, else 1; waits TICK_S."""
        self._is_done |= any(fact.get("done") for fact in self._told.wait(TICK_S))
        now_s = time.monotonic()
        if not (self._told.is_closed or self.is_left):
            return None
        self._over_s = now_s if self._over_s is None else self._over_s
        is_over = self._is_done or not self.members.living or now_s - self._over_s > LAST_RANKS_S
        return int(not self._is_done) if is_over else None

    @property
    def is_failing(self) -> bool:
        """Never: nothing is ended here."""
        return False

    def move(self, *, now_s: float) -> None:
        """None: the program is its own."""

    def refresh(self, *, now_s: float, now_unix: float) -> None:
        """Learns of ranks by their rings, and of their ends."""
        rings = self._found_rings()
        self.members.add({pid: rank for pid, ring in rings.items() if (rank := rank_of(ring)) is not None}, rings=rings)
        self.see_ends(now_unix=now_unix)

    def outcome_of_end(self, code: int) -> AttemptOutcome:
        """By the first rank's word."""
        self.refresh(now_s=time.monotonic(), now_unix=time.time())
        for pid, member in self.members.by_pid.items():
            if member.ring is not None and (facts := read_last_facts(member.ring)) is not None:
                self._facts[pid] = facts
        return AttemptOutcome.DONE if code == 0 else AttemptOutcome.FAILED

    def conclude(self, code: int, outcome: AttemptOutcome) -> Conclusion:
        """What ended the loop; nothing when it ended well."""
        if outcome is AttemptOutcome.DONE:
            return Conclusion()
        members = [*self.members.latest(), *self._unseen()]
        return judge_end(
            code=code,
            records=[rank_record(each, self._facts.get(each.process.pid)) for each in members],
            facts=self._facts,
            verdicts=[*self.overseer.verdicts, *self.overseer.conclude()],
            otherwise=lambda: command_failed(code, self._command),
            standing=self.overseer.standing(now_s=time.monotonic()),
        )

    def costs(self, outcome: AttemptOutcome, seconds: float) -> dict[str, Any]:
        """The last step that a rank told."""
        steps = [facts.step for facts in self._facts.values() if facts.step is not None]
        return {"last_step": max(steps, default=None), "saved_step": None, "hours_lost": 0.0}

    def _found_rings(self) -> dict[int, Path]:
        return {pid: ring for ring in find_rings(self._rings) if (pid := pid_of(ring)) is not None}

    def _unseen(self) -> list[Member]:
        """Ranks that began and were gone between two snapshots: what their rings hold is all that is known of them."""
        seen = {member.rank for member in self.members.by_pid.values()}
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
    told, said = JsonLines(0), list[dict[str, Any]]()
    while not said and not told.is_closed:
        said = told.wait(TICK_S)
    if not said:
        return 0
    _remove_dead(rings)
    watch = Beside(RunFolder(path=folder), rings, told, {name: value for each in said for name, value in each.items()})
    # So the guardian of our starter's tree says that it has ended, before it ends us: END_LIMIT_S of `emberward.watch`.
    signal.signal(signal.SIGTERM, lambda number, frame: setattr(watch, "is_left", True))
    watch.run()
    remove_ring_folder(rings)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
