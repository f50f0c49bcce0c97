"""The one loop of an attempt, whatever it runs: started, watched, ended when it must be, judged, and written down."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from emberward.findings import Cause, Finding, Severity
from emberward.processes import ProcessId, ProcessTree
from emberward.report import RunFolder
from emberward.supervise._diary import now_text, open_attempt
from emberward.supervise._host import seen_here
from emberward.supervise._members import Members
from emberward.supervise._overseer import Overseer, own_finding
from emberward.supervise._policy import AttemptOutcome
from emberward.supervise._verdict import Conclusion

OnFinding = Callable[[Finding], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchResult:
    """How an attempt ended. `exit_code` is the command's, negative for a signal; of a launch, what its caller returns.

    `death`: the text about the rank that died first, for people; None when none did. `num_ended`: processes of it that
    still ran then, and were ended. `lost`: of several hosts, a finding for each that the attempt lost.
    """

    attempt: int
    outcome: AttemptOutcome
    exit_code: int
    seconds: float
    findings: tuple[Finding, ...] = ()
    death: str | None = None
    num_ended: int = 0
    lost: tuple[Finding, ...] = ()


class Attempt(ABC):
    """One attempt of a run; make a new one for each. `make` it in the main thread.

    What runs, how it is asked to stop and what it leaves behind is a subclass's; the order of things is here alone:
    refresh, poll the overseer, ask the policy; after the end see the ends of ranks, ask the judge once, write it down.
    """

    tells_at_end: ClassVar[bool] = False
    """Whether people are told at once of what is found at the end; else whoever called does it."""

    def __init__(self, folder: RunFolder, overseer: Overseer, on_finding: OnFinding, *, grace_s: float) -> None:
        self.folder = folder
        self.overseer = overseer
        self.grace_s = grace_s
        self.on_finding = on_finding
        self.members = Members()
        self.tree = ProcessTree(grace_s=grace_s)
        self.number = 0
        self.began_s = self.began_unix = 0.0
        self.due: Finding | None = None
        """For what the attempt is ended."""
        self.due_s: float | None = None

    # -- what differs --------------------------------------------------------------------------------------------------

    @abstractmethod
    def start(self, environment: Mapping[str, str]) -> None:
        """Starts it in `tree`. An exception ends the attempt before it began."""

    @abstractmethod
    def ended(self) -> int | None:
        """Its exit code once it has ended; waits a fraction of a second at most, and takes signals meanwhile."""

    @abstractmethod
    def refresh(self, *, now_s: float, now_unix: float) -> None:
        """Learns of ranks that came up or ended."""

    @property
    @abstractmethod
    def is_failing(self) -> bool:
        """Whether a rank has failed: then the job ends within seconds, or goes on without it."""

    @abstractmethod
    def move(self, *, now_s: float) -> None:
        """Makes the move that the policy asks for."""

    @abstractmethod
    def outcome_of_end(self, code: int) -> AttemptOutcome:
        """How it ended; sees the ends of ranks that come after that of their launcher."""

    @abstractmethod
    def conclude(self, code: int, outcome: AttemptOutcome) -> Conclusion:
        """What was found about an attempt at its end, before the judge hears what the folder of a failed one holds."""

    @abstractmethod
    def costs(self, outcome: AttemptOutcome, seconds: float) -> dict[str, Any]:
        """The part of the end line that tells what was done and what is lost."""

    @property
    def num_living(self) -> int:
        """How many ranks are up."""
        return len(self.members.living)

    def why(self, outcome: AttemptOutcome) -> str:
        """Why it ended, when nothing was found."""
        return outcome.value

    # -- the same for all ----------------------------------------------------------------------------------------------

    def make(self, why: str, **what: Any) -> LaunchResult:
        """The attempt from its start line to its end line; blocks. Afterwards nothing of it runs any more, but for what
        a command that ended well left running. `what`: see `open_attempt`."""
        overseer = self.overseer
        self.number = open_attempt(self.folder, overseer.lines, why=why, **what)
        try:
            environment = overseer.begin(self.number)
            self.began_s, self.began_unix = time.monotonic(), time.time()
            with self.tree:
                self.start(environment)
                code = self._watch()
                outcome = self.outcome_of_end(code)
                left = self.left(outcome)
                found = self.conclude(code, outcome)
            findings = tuple(found.findings)
            if outcome is AttemptOutcome.FAILED:
                findings = overseer.explained(findings)
            for finding in findings:
                if self.tells_at_end and not overseer.is_said(finding):
                    self.on_finding(finding)
                overseer.report(finding)
            ended = LaunchResult(
                attempt=self.number,
                outcome=outcome,
                exit_code=code,
                findings=findings,
                death=found.death,
                seconds=time.monotonic() - self.began_s,
                num_ended=len(left),
            )
            self._write_end(ended)
            return ended
        finally:
            self.members.close()
            overseer.end()

    def left(self, outcome: AttemptOutcome) -> set[ProcessId]:
        """The processes of it that still run after its end, and are ended now."""
        return self.tree.processes()

    def _watch(self) -> int:
        """Waits for the end and returns its code. A mistake of ours ends what it is in, never the job: the watching or
        the moves; it is told once."""
        steps: list[Callable[[], None]] = [
            self._tick,
            lambda: self.move(now_s=time.monotonic()),
        ]
        while (code := self.ended()) is None:
            for step in tuple(steps):
                try:
                    step()
                except Exception as error:  # noqa: BLE001 (see above; the finding carries the mistake)
                    steps.remove(step)
                    self.overseer.report(own_finding(f"the supervisor failed: {type(error).__name__}: {error}"))
        return code

    def _tick(self) -> None:
        now_s, now_unix = time.monotonic(), time.time()
        self.refresh(now_s=now_s, now_unix=now_unix)
        for finding in self.overseer.poll(now_s=now_s, now_unix=now_unix, num_ranks=self.num_living):
            self.on_finding(finding)
        # A job in which a rank has died is ended within seconds, or goes on without it: there is nothing to announce.
        if self.due is None and not self.is_failing:
            said, due = self.overseer.act(now_s=now_s, now_unix=now_unix)
            for finding in said:
                self.on_finding(finding)
            if due is not None:
                self.due, self.due_s = due, now_s

    def see_ends(self, *, now_unix: float) -> list[int]:
        """Pids of members that ended since the last call with another code than 0; the watcher is told all codes."""
        members = self.members.newly_ended(now_unix=now_unix)
        gone = {each.process.pid: each.ended for each in members if each.ended is not None}
        self.overseer.tell_exits({pid: end.exit_code for pid, end in gone.items() if end.exit_code is not None})
        return [pid for pid, end in gone.items() if end.exit_code != 0]

    def _write_end(self, ended: LaunchResult) -> None:
        first = ended.findings[0] if ended.findings and ended.outcome is not AttemptOutcome.DONE else None
        self.overseer.lines.append(
            self.folder.attempts,
            {
                "event": "end",
                "attempt": ended.attempt,
                "end": now_text(),
                "outcome": ended.outcome.value,
                "why": self.why(ended.outcome) if first is None else first.message,
                "cause": None if first is None else first.cause.value,
                "code": None if first is None else first.code,
                "hosts": [] if first is None else list(first.hosts),
                **self.costs(ended.outcome, ended.seconds),
                "hours": ended.seconds / 3600,
                "num_ended": ended.num_ended,
            },
        )


def kill_switch_finding(switch: Path) -> Finding:
    """The notice that a kill switch stopped a run."""
    return seen_here(
        "L111",
        f"stopped by the kill switch {switch}",
        cause=Cause.NONE,
        severity=Severity.NOTICE,
        next=f"rm {switch}   (starts are refused until then)",
    )
