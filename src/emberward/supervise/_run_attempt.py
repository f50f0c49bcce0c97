"""One attempt of a supervised command: what it starts, when it ends it, what its rings tell of its costs."""

import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emberward.findings import ConfigError, Severity
from emberward.processes import Child, ProcessId, end, send
from emberward.report import RunFolder
from emberward.sources.attach import CAPTURE_VARIABLE
from emberward.sources.live import rank_in
from emberward.supervise._act import LEFT_LIMIT_S, Ending, EndMove, end_move
from emberward.supervise._attempt import Attempt, OnFinding, kill_switch_finding
from emberward.supervise._members import Members, ranks_below
from emberward.supervise._overseer import Overseer, Oversight
from emberward.supervise._policy import AttemptOutcome, StopBy
from emberward.supervise._restart import RunEnd
from emberward.supervise._rings import rank_of
from emberward.supervise._signals import SignalDesk
from emberward.supervise._verdict import (
    Conclusion,
    RingFacts,
    command_failed,
    judge_end,
    rank_record,
    read_facts,
    read_last_facts,
)

TICK_S = 0.1
RINGS_EVERY_S = 0.5
TREE_EVERY_S = 2.0
EARLY_S, EARLY_TREE_EVERY_S = 10.0, 0.25
"""A rank that dies as soon as it has started is to be seen too."""
SWITCH_EVERY_S = 0.25
SETTLE_LIMIT_S = 2.0
NUMBER_OF_ATTEMPT = "EMBERWARD_ATTEMPT"

DEFAULT = Oversight()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """A command to be supervised.

    `stdout`: the descriptor that becomes its standard output; None leaves ours. `grace_s`: from SIGTERM to SIGKILL when
    we end it. `max_restarts`: how often it may be started again after a failure.
    """

    folder: RunFolder
    command: tuple[str, ...]
    environment: Mapping[str, str]
    oversight: Oversight = DEFAULT
    max_restarts: int = 0
    grace_s: float = 10.0
    kill_switch: Path | None = None
    stdout: int | None = None
    rendezvous_s: float | None = None
    """Of a launcher that starts with other ranks when hosts come and go: how long its rendezvous may take."""
    stop_file: Path | None = None
    """Made instead of passing on the first signal that asks to stop, and for the kill switch: the ranks look for it and
    save. The command then has a session of its own, and `grace_s` to end."""


def shell_code(code: int) -> int:
    """A child's exit code as a shell tells it: 128 + n for signal n."""
    return 128 - code if code < 0 else code


class CommandAttempt(Attempt):
    """An attempt of a command that nobody changed: it has our streams, and its signals pass through us."""

    tells_at_end = True

    def __init__(self, plan: RunPlan, overseer: Overseer, desk: SignalDesk, on_finding: OnFinding) -> None:
        super().__init__(plan.folder, overseer, on_finding, grace_s=plan.grace_s)
        self._plan = plan
        self._desk = desk
        self.members = Members(own_rank=rank_in(plan.environment), is_elastic=plan.rendezvous_s is not None)
        self.stop_by: StopBy | None = None
        """By what kind of signal we were asked to stop, if we were."""
        self._stop_s: float | None = None
        self._process: Child
        self._root: ProcessId | None = None
        self._is_stop_asked = self._is_switched_off = self._is_killed = False
        self._died_s: float | None = None
        self._moved_s: float | None = None
        self._left_s: float | None = None
        self._terminated_s: float | None = None
        self._num_calls = self._code = 0
        self._rings_s = self._tree_s = self._switch_s = float("-inf")
        self._facts: dict[int, RingFacts] = {}

    def run(self, why: str) -> RunEnd:
        """The attempt, and what of its rings decides whether there is another."""
        ended = self.make(why, command=self._plan.command)
        return RunEnd(
            outcome=ended.outcome,
            exit_code=ended.exit_code,
            findings=ended.findings,
            last_step=self._last_step,
            num_saves=self._num_saves,
        )

    def start(self, environment: Mapping[str, str]) -> None:
        """Starts the command. Raises ConfigError C112 when it cannot be."""
        try:
            with self._desk.passing_on_the_mask():
                self._process = self.tree.start(
                    self._plan.command,
                    environment={**environment, NUMBER_OF_ATTEMPT: str(self.number), CAPTURE_VARIABLE: "1"},
                    stdin=None,
                    stdout=self._plan.stdout,
                    stderr=None,
                    is_session=self._plan.stop_file is not None,
                    passes_descriptors=True,
                )
        except OSError as error:
            raise _cannot_start(self._plan.command, error) from error
        self._root = self._process.identity

    # -- while it runs -----------------------------------------------------------------------------------------------

    def ended(self) -> int | None:
        """Its exit code; waits TICK_S for a signal, and passes that on."""
        if (code := self._process.poll()) is not None:
            return code
        taken = self._desk.take(timeout_s=TICK_S)
        if taken is not None:
            is_first = taken.asks_to_stop and not self._is_stop_asked
            self._is_stop_asked |= taken.asks_to_stop
            if is_first:
                self.stop_by = StopBy.INTERRUPT if taken.number == signal.SIGINT else StopBy.TERMINATE
            if is_first and self._plan.stop_file is not None:
                self._ask_by_file(self._plan.stop_file)
            elif self._root is not None and not (taken.is_shared and self._plan.stop_file is None):
                send(self._root, taken.number)
        return None

    @property
    def is_failing(self) -> bool:
        """Whether a rank ended with an error, and was not started anew."""
        return self._died_s is not None

    def refresh(self, *, now_s: float, now_unix: float) -> None:
        """Learns of ranks by their rings and by the processes below the command, and of their ends."""
        if now_s - self._rings_s >= RINGS_EVERY_S:
            self._rings_s = now_s
            rings = self.overseer.rings()
            self.members.add(
                {pid: rank for pid, ring in rings.items() if (rank := rank_of(ring)) is not None}, rings=rings
            )
        every_s = TREE_EVERY_S if now_s - self.began_s > EARLY_S else EARLY_TREE_EVERY_S
        if now_s - self._tree_s >= every_s:
            self._tree_s = now_s
            self.members.add(ranks_below(self._process.pid))
        if self.see_ends(now_unix=now_unix) and self._died_s is None:
            self._died_s = now_s
        if self._died_s is not None:
            self._snapshot_after_a_death(now_s=now_s)

    def _snapshot_after_a_death(self, *, now_s: float) -> None:
        """Whether the launcher started the dead anew, and whether the others go on without them."""
        latest = self.members.latest()
        self._left_s = None if self.members.living else self._left_s or now_s
        if all(member.ended is None or member.ended.exit_code == 0 for member in latest):
            self._died_s = None
            return
        facts = [read_facts(member.ring) for member in latest if member.ended is None and member.ring is not None]
        num_calls = sum(each.num_calls for each in facts if each is not None)
        if num_calls != self._num_calls:
            self._num_calls, self._moved_s = num_calls, now_s if self._num_calls else None

    def move(self, *, now_s: float) -> None:
        """Ends the job when it is due. See [Note: never on a guess]."""
        self._look_at_switch(now_s=now_s)
        if self._root is None or self._is_killed:
            return
        is_overdue = self._stop_s is not None and now_s - self._stop_s >= self.grace_s
        ending = Ending(
            now_s=now_s,
            died_s=None if self._is_stopping else self._died_s,
            moved_s=self._moved_s,
            left_s=self._left_s,
            asked_s=now_s if is_overdue else self.due_s,
            terminated_s=self._terminated_s,
            left_limit_s=LEFT_LIMIT_S + (self._plan.rendezvous_s or 0.0),
        )
        match end_move(ending, grace_s=self.grace_s):
            case EndMove.TERMINATE:
                self._terminated_s = now_s
                self._remember_rings()
                self.overseer.mute()
                send(self._root, signal.SIGTERM)
            case EndMove.KILL:
                self._is_killed = True
                end(self.tree.processes())
            case EndMove.WAIT:
                pass

    @property
    def _is_stopping(self) -> bool:
        return self._is_stop_asked or self._is_switched_off

    def _look_at_switch(self, *, now_s: float) -> None:
        switch = self._plan.kill_switch
        if switch is None or self._is_switched_off or now_s - self._switch_s < SWITCH_EVERY_S:
            return
        self._switch_s = now_s
        if switch.exists() and self._root is not None:
            self._is_switched_off = True
            finding = kill_switch_finding(switch)
            self.overseer.report(finding)
            self.on_finding(finding)
            if self._plan.stop_file is None:
                send(self._root, signal.SIGTERM)
            else:
                self._ask_by_file(self._plan.stop_file)

    def _ask_by_file(self, file: Path) -> None:
        """Asks the ranks to save, as long as there are any; a folder that takes no file leaves the signal."""
        now_s = time.monotonic()
        try:
            file.touch()
            self._stop_s = now_s if self.members.living else now_s - self.grace_s
        except OSError:
            self._stop_s = now_s - self.grace_s

    # -- after its end -----------------------------------------------------------------------------------------------

    def outcome_of_end(self, code: int) -> AttemptOutcome:
        """Sees the ends of ranks whose launcher has just gone: briefly after a failure, `grace_s` after a stop.

        Ranks that were asked to stop may be saving.
        """
        limit_s = self.grace_s if self._is_stopping else SETTLE_LIMIT_S if code != 0 else 0.0
        until_s = time.monotonic() + limit_s
        while True:
            self._rings_s = float("-inf")
            self.refresh(now_s=time.monotonic(), now_unix=time.time())
            if not self.members.living or time.monotonic() >= until_s:
                break
            time.sleep(TICK_S)
        self._remember_rings()
        self._code = code
        if self._is_stopping:
            return AttemptOutcome.STOPPED
        return AttemptOutcome.DONE if code == 0 and self._terminated_s is None else AttemptOutcome.FAILED

    def left(self, outcome: AttemptOutcome) -> set[ProcessId]:
        """What still runs; what a command that ended well left running was meant to go on."""
        if outcome is AttemptOutcome.DONE:
            self.tree.release()
            return set()
        return super().left(outcome)

    def _remember_rings(self) -> None:
        for member in self.members.latest():
            if member.ring is not None and (facts := read_last_facts(member.ring)) is not None:
                self._facts[member.process.pid] = facts

    def conclude(self, code: int, outcome: AttemptOutcome) -> Conclusion:
        """The findings on an attempt that failed; on one that ended well, what its rings tell of calls and times."""
        if outcome not in (AttemptOutcome.FAILED, AttemptOutcome.DONE):
            return Conclusion()
        concluded = self.overseer.conclude()
        if outcome is AttemptOutcome.DONE:
            return Conclusion(findings=tuple(each for each in concluded if each.severity is not Severity.NOTICE))
        return judge_end(
            code=code,
            records=[rank_record(each, self._facts.get(each.process.pid)) for each in self.members.latest()],
            facts=self._facts,
            verdicts=[*self.overseer.verdicts, *concluded],
            otherwise=lambda: command_failed(code, self._plan.command),
            due=self.due,
            ended_by_us=self._terminated_s is not None,
            standing=self.overseer.standing(now_s=time.monotonic()),
        )

    def why(self, outcome: AttemptOutcome) -> str:
        """Who stopped it."""
        if outcome is AttemptOutcome.STOPPED:
            return "stopped by the kill switch" if self._is_switched_off else "stopped by a signal"
        return super().why(outcome)

    def costs(self, outcome: AttemptOutcome, seconds: float) -> dict[str, Any]:
        """Steps and saves of this attempt, as its rings tell."""
        saved_unix = max((facts.saved_unix or 0.0 for facts in self._facts.values()), default=0.0)
        lost_s = seconds - max(0.0, saved_unix - self.began_unix) if outcome is AttemptOutcome.FAILED else 0.0
        return {
            "exit_code": shell_code(self._code),
            "last_step": self._last_step,
            "saved_step": None,
            "num_saves": self._num_saves,
            "hours_lost": max(lost_s, 0.0) / 3600,
        }

    @property
    def _last_step(self) -> int | None:
        return max((facts.step for facts in self._facts.values() if facts.step is not None), default=None)

    @property
    def _num_saves(self) -> int:
        return max((facts.num_saves for facts in self._facts.values()), default=0)


def _cannot_start(command: Sequence[str], error: OSError) -> ConfigError:
    return ConfigError(
        "the command cannot be started",
        code="C112",
        where=command[0],
        expected="a program on PATH or a path to one",
        found=error.strerror or type(error).__name__,
        next="emberward run -- torchrun --nproc-per-node 8 train.py",
    )
