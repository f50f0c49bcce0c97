"""One attempt of a supervised command: started, watched, ended when it must be, judged, and written down."""

import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from emberward.findings import Cause, Certainty, ConfigError, Finding, Kind, Severity
from emberward.processes import Child, ProcessId, ProcessTree, end, send
from emberward.report import RunFolder
from emberward.sources.attach import CAPTURE_VARIABLE
from emberward.supervise._act import Ending, EndMove, end_move
from emberward.supervise._attempts import now_text, open_attempt
from emberward.supervise._members import Members, rank_in, ranks_below
from emberward.supervise._overseer import Overseer, Oversight, own_finding
from emberward.supervise._policy import Outcome
from emberward.supervise._restart import RunEnd
from emberward.supervise._rings import rank_of
from emberward.supervise._signals import SignalDesk
from emberward.supervise._verdict import RingFacts, judge_end, read_facts, read_last_facts

TICK_S = 0.1
RINGS_EVERY_S = 0.5
TREE_EVERY_S = 2.0
EARLY_S, EARLY_TREE_EVERY_S = 10.0, 0.25
"""A rank that dies as soon as it has started is to be seen too."""
SWITCH_EVERY_S = 0.25
SETTLE_LIMIT_S = 2.0
NUMBER_OF_ATTEMPT = "EMBERWARD_ATTEMPT"

DEFAULT = Oversight()
OnFinding = Callable[[Finding], None]


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


@dataclass(slots=True, kw_only=True)
class _Going:
    """What has been seen of the attempt that runs. Times are seconds of the monotonic clock."""

    tree: ProcessTree
    process: Child
    root: ProcessId | None
    members: Members
    began_s: float
    is_stop_asked: bool = False
    is_switched_off: bool = False
    due: Finding | None = None
    died_s: float | None = None
    moved_s: float | None = None
    left_s: float | None = None
    num_calls: int = 0
    asked_s: float | None = None
    terminated_s: float | None = None
    is_killed: bool = False
    rings_s: float = float("-inf")
    tree_s: float = float("-inf")
    switch_s: float = float("-inf")
    found: list[Finding] = field(default_factory=list)
    facts: dict[int, RingFacts] = field(default_factory=dict)


def shell_code(code: int) -> int:
    """A child's exit code as a shell tells it: 128 + n for signal n."""
    return 128 - code if code < 0 else code


class AttemptMaker:
    """Makes attempts, one after the other."""

    def __init__(self, plan: RunPlan, overseer: Overseer, desk: SignalDesk, on_finding: OnFinding) -> None:
        self._plan = plan
        self._overseer = overseer
        self._desk = desk
        self._on_finding = on_finding

    def run(self, why: str) -> RunEnd:
        """One attempt from its start line to its end line. After a failure nothing of it runs any more."""
        plan = self._plan
        number = open_attempt(
            plan.folder, self._overseer.lines, why=why, num_ranks=None, config=None, command=plan.command
        )
        environment = {**self._overseer.begin(number), NUMBER_OF_ATTEMPT: str(number), CAPTURE_VARIABLE: "1"}
        with ProcessTree(grace_s=plan.grace_s) as tree:
            try:
                going = self._start(tree, environment)
            except OSError as error:
                self._overseer.end()
                raise _cannot_start(plan.command, error) from error
            start_unix = time.time()
            try:
                code = self._watch(going)
                self._settle(going, code)
                outcome = self._outcome(going, code)
                findings = self._judge(going, code, outcome)
                left = tree.processes()
            finally:
                going.members.close()
            if outcome is Outcome.DONE:
                # What a command that ended well left running was meant to go on.
                left = set()
                tree.release()
        for finding in findings:
            self._overseer.report(finding)
        result = self._end(going, code, outcome, findings)
        self._write_end(number, result, start_unix, going, len(left))
        self._overseer.end()
        return result

    def _start(self, tree: ProcessTree, environment: Mapping[str, str]) -> _Going:
        with self._desk.passing_on_the_mask():
            process = tree.start(
                self._plan.command,
                environment=environment,
                stdin=None,
                stdout=self._plan.stdout,
                stderr=None,
                is_session=False,
                passes_descriptors=True,
            )
        return _Going(
            tree=tree,
            process=process,
            root=process.identity,
            members=Members(own_rank=rank_in(self._plan.environment)),
            began_s=time.monotonic(),
        )

    # -- while it runs -----------------------------------------------------------------------------------------------

    def _watch(self, going: _Going) -> int:
        """Waits for the command's end and returns its code, negative for a signal. Makes what moves are due.

        A mistake of ours ends the watching, never the command: from then on it is only waited for.
        """
        is_blind = False
        while (code := going.process.poll()) is None:
            taken = self._desk.take(timeout_s=TICK_S)
            if taken is not None:
                going.is_stop_asked |= taken.asks_to_stop
                if not taken.is_shared and going.root is not None:
                    send(going.root, taken.number)
            if is_blind:
                continue
            try:
                self._tick(going, now_s=time.monotonic(), now_unix=time.time())
            except Exception as error:  # noqa: BLE001 (see above; the finding carries the mistake)
                is_blind = True
                self._overseer.report(own_finding(f"the supervisor failed: {type(error).__name__}: {error}"))
        return code

    def _tick(self, going: _Going, *, now_s: float, now_unix: float) -> None:
        self._look(going, now_s=now_s, now_unix=now_unix)
        for finding in self._overseer.poll(now_s=now_s, now_unix=now_unix, num_ranks=len(going.members.living)):
            self._on_finding(finding)
        # A job in which a rank has died is ended within seconds, or goes on without it: there is nothing to announce.
        if going.due is None and going.died_s is None:
            said, due = self._overseer.act(now_s=now_s, now_unix=now_unix)
            for finding in said:
                self._on_finding(finding)
            if due is not None:
                going.due, going.asked_s = due, now_s
        self._look_at_switch(going, now_s=now_s)
        self._move(going, now_s=now_s)

    def _look(self, going: _Going, *, now_s: float, now_unix: float) -> None:
        """Learns of ranks that came up or ended."""
        members = going.members
        if now_s - going.rings_s >= RINGS_EVERY_S:
            going.rings_s = now_s
            rings = self._overseer.rings()
            members.add({pid: rank for pid, ring in rings.items() if (rank := rank_of(ring)) is not None}, rings=rings)
        every_s = TREE_EVERY_S if now_s - going.began_s > EARLY_S else EARLY_TREE_EVERY_S
        if now_s - going.tree_s >= every_s:
            going.tree_s = now_s
            members.add(ranks_below(going.process.pid))
        gone = members.look(now_unix=now_unix)
        codes = {m.process.pid: m.ended.exit_code for m in gone if m.ended is not None}
        self._overseer.tell_exits({pid: code for pid, code in codes.items() if code is not None})
        failed = [member for member in gone if member.ended is not None and member.ended.exit_code != 0]
        if failed and going.died_s is None:
            going.died_s = now_s
        if going.died_s is not None:
            self._look_after_a_death(going, now_s=now_s)

    def _look_after_a_death(self, going: _Going, *, now_s: float) -> None:
        """Whether the launcher started the dead anew, and whether the others go on without them."""
        latest = going.members.latest()
        going.left_s = None if going.members.living else going.left_s or now_s
        if all(member.ended is None or member.ended.exit_code == 0 for member in latest):
            going.died_s = None
            return
        facts = [read_facts(member.ring) for member in latest if member.ended is None and member.ring is not None]
        num_calls = sum(each.num_calls for each in facts if each is not None)
        if num_calls != going.num_calls:
            going.num_calls, going.moved_s = num_calls, now_s if going.num_calls else None

    def _look_at_switch(self, going: _Going, *, now_s: float) -> None:
        switch = self._plan.kill_switch
        if switch is None or going.is_switched_off or now_s - going.switch_s < SWITCH_EVERY_S:
            return
        going.switch_s = now_s
        if switch.exists() and going.root is not None:
            going.is_switched_off = True
            finding = kill_switch_finding(switch)
            self._overseer.report(finding)
            self._on_finding(finding)
            send(going.root, signal.SIGTERM)

    def _move(self, going: _Going, *, now_s: float) -> None:
        """Ends the job when it is due. See [Note: never on a guess]."""
        if going.root is None or going.is_killed:
            return
        stopping = going.is_stop_asked or going.is_switched_off
        ending = Ending(
            now_s=now_s,
            died_s=None if stopping else going.died_s,
            moved_s=going.moved_s,
            left_s=going.left_s,
            asked_s=going.asked_s,
            terminated_s=going.terminated_s,
        )
        match end_move(ending, grace_s=self._plan.grace_s):
            case EndMove.TERMINATE:
                going.terminated_s = now_s
                self._remember_rings(going)
                self._overseer.mute()
                send(going.root, signal.SIGTERM)
            case EndMove.KILL:
                going.is_killed = True
                end(going.tree.processes())
            case EndMove.WAIT:
                pass

    # -- after its end -----------------------------------------------------------------------------------------------

    def _settle(self, going: _Going, code: int) -> None:
        """Sees the ends of ranks whose launcher has just gone: briefly after a failure, `grace_s` after a stop.

        Ranks that were asked to stop may be saving.
        """
        is_stopped = going.is_stop_asked or going.is_switched_off
        limit_s = self._plan.grace_s if is_stopped else SETTLE_LIMIT_S if code != 0 else 0.0
        until_s = time.monotonic() + limit_s
        while True:
            going.rings_s = float("-inf")
            self._look(going, now_s=time.monotonic(), now_unix=time.time())
            if not going.members.living or time.monotonic() >= until_s:
                break
            time.sleep(TICK_S)
        self._remember_rings(going)

    def _remember_rings(self, going: _Going) -> None:
        for member in going.members.latest():
            if member.ring is not None and (facts := read_last_facts(member.ring)) is not None:
                going.facts[member.process.pid] = facts

    def _outcome(self, going: _Going, code: int) -> Outcome:
        if going.is_stop_asked or going.is_switched_off:
            return Outcome.STOPPED
        if going.terminated_s is not None:
            return Outcome.FAILED
        return Outcome.DONE if code == 0 else Outcome.FAILED

    def _judge(self, going: _Going, code: int, outcome: Outcome) -> tuple[Finding, ...]:
        if outcome is not Outcome.FAILED:
            return ()
        concluded = self._overseer.conclude()
        findings = judge_end(
            code=code,
            command=self._plan.command,
            members=going.members.latest(),
            facts=going.facts,
            verdicts=[*self._overseer.verdicts, *concluded],
            due=going.due,
            ended_by_us=going.terminated_s is not None,
            standing=self._overseer.standing(now_s=time.monotonic()),
        )
        findings = self._overseer.explained(findings)
        for finding in findings:
            if not self._overseer.is_said(finding):
                self._on_finding(finding)
        return findings

    def _end(self, going: _Going, code: int, outcome: Outcome, findings: Sequence[Finding]) -> RunEnd:
        steps = [facts.step for facts in going.facts.values() if facts.step is not None]
        saves = [facts.num_saves for facts in going.facts.values()]
        return RunEnd(
            outcome=outcome,
            exit_code=code,
            findings=tuple(findings),
            last_step=max(steps, default=None),
            num_saves=max(saves, default=0),
            seconds=time.monotonic() - going.began_s,
            saved_unix=max((facts.saved_unix for facts in going.facts.values() if facts.saved_unix), default=None),
        )

    def _write_end(self, number: int, result: RunEnd, start_unix: float, going: _Going, num_ended: int) -> None:
        lost_s = 0.0
        if result.outcome is Outcome.FAILED:
            lost_s = start_unix + result.seconds - max(start_unix, result.saved_unix or 0.0)
        first = result.findings[0] if result.findings else None
        why = first.message if first is not None else result.outcome.value
        if result.outcome is Outcome.STOPPED:
            why = "stopped by the kill switch" if going.is_switched_off else "stopped by a signal"
        self._overseer.lines.append(
            self._plan.folder.attempts,
            {
                "event": "end",
                "attempt": number,
                "end": now_text(),
                "outcome": result.outcome.value,
                "why": why,
                "cause": None if first is None else first.cause.value,
                "code": None if first is None else first.code,
                "hosts": [] if first is None else list(first.hosts),
                "exit_code": shell_code(result.exit_code),
                "last_step": result.last_step,
                "saved_step": None,
                "num_saves": result.num_saves,
                "hours": result.seconds / 3600,
                "hours_lost": max(lost_s, 0.0) / 3600,
                "num_ended": num_ended,
            },
        )


def _cannot_start(command: Sequence[str], error: OSError) -> ConfigError:
    return ConfigError(
        "the command cannot be started",
        code="C112",
        where=command[0],
        expected="a program on PATH or a path to one",
        found=error.strerror or type(error).__name__,
        next="emberward run -- torchrun --nproc-per-node 8 train.py",
    )


def kill_switch_finding(switch: Path) -> Finding:
    """The notice that a kill switch stopped a run."""
    return Finding(
        code="L111",
        severity=Severity.NOTICE,
        kind=Kind.NONE,
        cause=Cause.NONE,
        certainty=Certainty.OBSERVED,
        message=f"stopped by the kill switch {switch}",
        hosts=(socket.gethostname(),),
        next=f"rm {switch}   (starts are refused until then)",
    )
