"""Starts the ranks of one attempt, watches them, stops them in order, and leaves no process behind."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from emberward.diagnose import roots
from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.processes import Child, ProcessId, ProcessTree, end, identify, is_alive, send
from emberward.report import Progress, ProgressReader, RunFolder, read_json, read_lines, tail_text
from emberward.runs import require_no_kill_switch
from emberward.supervise._attempts import lost_s, newest_save, now_text, open_attempt
from emberward.supervise._command import KILL_SWITCH, agent_environment
from emberward.supervise._death import RankRecord, death_finding, death_text, first_death, parse_agent_report
from emberward.supervise._exits import ExitWatch
from emberward.supervise._lock import hold_lock
from emberward.supervise._overseer import Overseer, Oversight
from emberward.supervise._policy import Move, Outcome, Seen, StopBy, exit_code_of_launch, next_move, outcome_of
from emberward.supervise._run_attempt import kill_switch_finding
from emberward.supervise._verdict import read_facts

POLL_S = 0.2
LOG_TAIL_LINES = 20

NO_OVERSIGHT = Oversight(is_watched=False)
OnFinding = Callable[[Finding], None]
OnProgress = Callable[[Progress, Sequence[Mapping[str, Any]]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """One attempt to be made.

    `command` is the agent's argv; `environment` what it starts from; `why` a few words for the diary (new, resume);
    `config` a digest of the resolved recipe. `grace_s` bounds the time that ranks have to save after a stop was asked.
    `kill_switch`: the file that stops the run; None for the one beside the runs of its name. `is_restart`: the launcher
    makes this attempt by itself, after one that failed.
    """

    folder: RunFolder
    num_ranks: int
    command: tuple[str, ...]
    environment: Mapping[str, str]
    why: str
    config: str | None = None
    grace_s: float = 120.0
    oversight: Oversight = NO_OVERSIGHT
    kill_switch: Path | None = None
    is_restart: bool = False
    replace_slow_s: float | None = None
    """Of several hosts with a spare, how long one may be slow before the spare takes its place. None: for ever."""
    known_slow: frozenset[tuple[int, ...]] = frozenset()
    """Ranks of hosts that were replaced already: the program makes these slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchResult:
    """How one attempt ended. `death` is the text about the rank that died first, for people; None when none did."""

    outcome: Outcome
    exit_code: int
    attempt: int
    seconds: float
    findings: tuple[Finding, ...] = ()
    death: str | None = None
    num_ended: int = 0
    lost: tuple[Finding, ...] = ()
    """Of several hosts, a finding for each that the attempt lost."""


@dataclass(slots=True, kw_only=True)
class Watched:
    """What the launcher has seen so far of the attempt that runs."""

    ranks: dict[int, dict[str, Any]] = field(default_factory=dict)
    processes: dict[int, ProcessId] = field(default_factory=dict)
    gone_unix: dict[int, float] = field(default_factory=dict)
    watches: dict[int, ExitWatch] = field(default_factory=dict)
    codes: dict[int, int] = field(default_factory=dict)
    told: set[int] = field(default_factory=set)
    stop_at_s: float | None = None
    stop_by: StopBy | None = None
    num_interrupts: int = 0
    failed_at_s: float | None = None
    due: Finding | None = None
    forced: bool = False
    had_ranks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Began:
    """When an attempt began, its number, and how long the ranks' logs were then."""

    attempt: int
    unix: float
    s: float
    log_sizes: Mapping[int, int]


@contextmanager
def stop_signals(watched: Watched) -> Iterator[None]:
    """Notes Ctrl-C, SIGTERM and SIGHUP in `watched` instead of ending this process. Only in the main thread."""

    def note(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            watched.num_interrupts += 1
        if watched.stop_at_s is None:
            watched.stop_at_s = time.monotonic()
            watched.stop_by = StopBy.INTERRUPT if number == signal.SIGINT else StopBy.TERMINATE

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _look(folder: RunFolder, watched: Watched) -> None:
    """Learns of ranks that came up, failed or went since the last look."""
    for path in folder.ranks.glob("rank*.json"):
        said = read_json(path)
        if said is None or not isinstance(said.get("rank"), int) or said["rank"] in watched.ranks:
            continue
        watched.ranks[said["rank"]] = said
        if (process := identify(said["pid"])) is not None:
            watched.processes[said["rank"]] = process
            with contextlib.suppress(OSError):
                watched.watches[process.pid] = ExitWatch(process.pid)
    for rank, process in watched.processes.items():
        if rank not in watched.gone_unix and not is_alive(process):
            watched.gone_unix[rank] = time.time()
    if watched.failed_at_s is None and next(folder.failures.glob("rank*.json"), None) is not None:
        watched.failed_at_s = time.monotonic()


def _exits(watched: Watched) -> dict[int, int]:
    """Exit codes by pid of the ranks that ended since the last look, for the watcher."""
    found = {}
    for pid, watch in list(watched.watches.items()):
        if (ended := watch.ended(now_unix=time.time())) is not None:
            watch.close()
            del watched.watches[pid]
            if ended.exit_code is not None:
                found[pid] = ended.exit_code
    watched.codes |= found
    return found


def _tell(watched: Watched) -> None:
    """Sends SIGTERM once to each rank that is up: save at the end of the step, then exit 0."""
    for rank, process in watched.processes.items():
        if rank not in watched.told:
            watched.told.add(rank)
            send(process, signal.SIGTERM)


def _watch(
    plan: LaunchPlan,
    tree: ProcessTree,
    agent: Child,
    watched: Watched,
    overseer: Overseer,
    on_progress: OnProgress,
    on_finding: OnFinding,
) -> int:
    """Waits until the agent has ended, and returns its exit code. Makes the moves that the policy asks for."""
    save = newest_save(plan.folder)
    reader = ProgressReader(plan.folder, from_end=True, after_step=None if save is None else save[0])
    while True:
        try:
            code: int | None = agent.wait(POLL_S)
        except subprocess.TimeoutExpired:
            code = None
        _look(plan.folder, watched)
        tree.ask_first([process.pid for process in watched.processes.values()])
        overseer.tell_exits(_exits(watched))
        on_progress(*reader.poll(now_unix=time.time()))
        if code is not None:
            return code
        now_s, now_unix = time.monotonic(), time.time()
        for finding in overseer.poll(now_s=now_s, now_unix=now_unix, num_ranks=len(watched.processes)):
            on_finding(finding)
        if watched.due is None and watched.failed_at_s is None:
            said, watched.due = overseer.act(now_s=now_s, now_unix=now_unix)
            for finding in said:
                on_finding(finding)
        seen = Seen(
            now_s=now_s,
            stop_at_s=watched.stop_at_s,
            stop_by=watched.stop_by,
            num_interrupts=watched.num_interrupts,
            has_ranks=bool(watched.processes),
            failed_at_s=watched.failed_at_s,
            is_due=watched.due is not None,
        )
        match next_move(seen, grace_s=plan.grace_s):
            case Move.TELL:
                _tell(watched)
            case Move.KILL:
                overseer.mute()
                if not watched.forced:
                    watched.forced, watched.had_ranks = True, bool(watched.processes)
                end(tree.processes())
            case Move.WAIT:
                pass


def _rank_ends(
    plan: LaunchPlan, watched: Watched, log_sizes: Mapping[int, int], rings: Mapping[int, Path]
) -> list[RankRecord]:
    """What is known of each rank, after the agent has ended."""
    folder = plan.folder
    codes = parse_agent_report("\n".join(tail_text(folder.agent_log, num_lines=10_000, max_bytes=2**20)))
    ends = []
    for rank in range(plan.num_ranks):
        # A rank writes its file twice: when it is up, and again when it knows its coordinates.
        said = read_json(folder.rank_file(rank)) or watched.ranks.get(rank, {})
        code, pid = codes.get(rank, (None, said.get("pid")))
        if code is None and isinstance(pid, int) and watched.codes.get(pid, 0) > 0:
            # The agent had not yet seen it fail. A signal would tell nothing here: it may have been the agent's own.
            code = watched.codes[pid]
        log = folder.rank_log(rank)
        tail = tail_text(log, num_lines=LOG_TAIL_LINES, since_byte=log_sizes.get(rank, 0))
        if not tail:
            early = sorted(
                folder.early_logs.glob(f"*/attempt_0/{rank}/stderr.log"), key=lambda path: path.stat().st_mtime
            )
            log = early[-1] if early else log
            tail = tail_text(log, num_lines=LOG_TAIL_LINES)
        ends.append(
            RankRecord(
                rank=rank,
                pid=pid,
                host=said.get("host") or socket.gethostname(),
                coordinates=said.get("coordinates"),
                exit_code=code,
                gone_unix=watched.gone_unix.get(rank),
                failure=read_json(folder.failure_file(rank)) or _ring_failure(rings.get(pid or 0), code),
                log=str(log),
                log_tail=tuple(tail),
            )
        )
    return ends


def _ring_failure(ring: Path | None, code: int | None) -> Mapping[str, Any] | None:
    """The exception that a rank's ring saw escape, for one that could write no file, as on a full disk."""
    if ring is None or code is None or code <= 0:
        return None
    facts = read_facts(ring)
    return None if facts is None else facts.failure


def launch_error(code: str, kind: Kind, cause: Cause, message: str, evidence: Sequence[str], next: str) -> Finding:
    """An error that the launcher itself saw, on this host."""
    return Finding(
        code=code,
        severity=Severity.ERROR,
        kind=kind,
        cause=cause,
        certainty=Certainty.OBSERVED,
        message=message,
        hosts=(socket.gethostname(),),
        evidence=tuple(evidence),
        next=next,
    )


def _judge(
    plan: LaunchPlan, watched: Watched, outcome: Outcome, agent_code: int, ends: Sequence[RankRecord]
) -> tuple[list[Finding], str | None]:
    """The findings of an attempt that ended, and the text about a death. None for one that ended well."""
    agent_log = plan.folder.agent_log
    if outcome is Outcome.KILLED:
        saved = newest_save(plan.folder)
        since = "no save exists" if saved is None else f"the last save is of step {saved[0]}"
        message = f"ranks did not stop in time and were killed; {since}"
        how = "second Ctrl-C" if watched.num_interrupts >= 2 else f"{plan.grace_s:.0f} s after the stop was asked"
        next = "the same command resumes; emberward train --grace-s gives ranks more time to save"
        return [launch_error("L104", Kind.HANG, Cause.UNKNOWN, message, [how], next)], None
    if outcome is not Outcome.FAILED:
        return [], None
    first = first_death(ends)
    # When the agent was killed, the ranks that lost it say so: they are not the cause.
    if first is not None and (agent_code >= 0 or first[1] is Certainty.OBSERVED):
        culprit, certainty = first
        others = [end for end in ends if end.rank != culprit.rank]
        finding = death_finding(culprit, certainty, others)
        return [finding], death_text(ends, culprit, finding)
    tail = tail_text(agent_log, num_lines=8)
    code = f"agent exit code {agent_code}"
    if not watched.ranks:
        message = "the ranks did not start"
        return [launch_error("L103", Kind.CRASH, Cause.UNKNOWN, message, [code, *tail], f"read {agent_log}")], None
    message = "the launch ended without a result: " + (
        f"its agent was killed by signal {-agent_code}" if agent_code < 0 else "no rank failed and none wrote a summary"
    )
    cause = Cause.KILLED if agent_code < 0 else Cause.MAIN_EXITED
    return [launch_error("L105", Kind.CRASH, cause, message, [code, *tail], "the same command resumes")], None


def clear_attempt(folder: RunFolder) -> dict[int, int]:
    """Makes the folder ready for a new attempt; returns the sizes of the logs that are there, by rank."""
    for sub in (folder.ranks, folder.failures, folder.logs, folder.early_logs):
        sub.mkdir(parents=True, exist_ok=True)
    for sub in (folder.ranks, folder.failures):
        for path in sub.glob("rank*.json"):
            path.unlink()
    folder.summary.unlink(missing_ok=True)
    folder.progress.unlink(missing_ok=True)
    return {int(path.stem[4:]): path.stat().st_size for path in folder.logs.glob("rank*.log")}


def launch(plan: LaunchPlan, *, on_progress: OnProgress, on_finding: OnFinding = lambda finding: None) -> LaunchResult:
    """How the attempt ended; blocks until it has. Call it from the main thread of the process that a person watches.

    Starts `plan.command` in a session of its own, so that Ctrl-C reaches this process alone; calls `on_progress` five
    times a second with where the run stands and the steps since the last call, and `on_finding` with what the watcher
    finds. Ctrl-C, SIGTERM and SIGHUP ask the ranks to save and stop; see `next_move` for when they are killed. After it
    nothing of the attempt runs any more. Appends to ``attempts.jsonl`` and ``findings.jsonl``. Raises ConfigError C111
    when another launch uses the folder, C108 while its kill switch is set.
    """
    folder = plan.folder
    require_no_kill_switch(plan.kill_switch or folder.kill_switch)
    with hold_lock(folder, launcher_pid=os.getpid()) as lock:
        log_sizes = clear_attempt(folder)
        overseer = Overseer(folder, plan.oversight, environment=plan.environment)
        attempt = open_attempt(folder, overseer.lines, why=plan.why, num_ranks=plan.num_ranks, config=plan.config)
        began = _Began(attempt=attempt, unix=time.time(), s=time.monotonic(), log_sizes=log_sizes)
        watched = Watched()
        state = Outcome.FAILED
        try:
            with stop_signals(watched):
                with ProcessTree(grace_s=plan.grace_s) as tree:
                    agent = _start_agent(plan, tree, overseer.begin(attempt))
                    if agent.identity is not None:
                        lock.name_agent(agent.identity)
                    agent_code = _watch(plan, tree, agent, watched, overseer, on_progress, on_finding)
                    left = tree.processes()
                result = _conclude(plan, watched, overseer, began, agent_code, len(left))
                state = result.outcome
        finally:
            overseer.close(state=state.value)
            for watch in watched.watches.values():
                watch.close()
        return result


def _start_agent(plan: LaunchPlan, tree: ProcessTree, environment: Mapping[str, str]) -> Child:
    if plan.kill_switch is not None:
        environment = {**environment, KILL_SWITCH: str(plan.kill_switch)}
    with plan.folder.agent_log.open("wb") as log:
        return tree.start(
            plan.command,
            environment=agent_environment(environment, is_restart=plan.is_restart),
            stdout=log.fileno(),
            stderr=log.fileno(),
        )


def _found(
    plan: LaunchPlan,
    watched: Watched,
    overseer: Overseer,
    outcome: Outcome,
    agent_code: int,
    log_sizes: Mapping[int, int],
) -> tuple[list[Finding], str | None]:
    """The findings of an attempt that ended, the cause first, and the text about a death."""
    if watched.due is not None:
        return [watched.due, *(each for each in overseer.verdicts if each != watched.due)], None
    ends = _rank_ends(plan, watched, log_sizes, overseer.rings()) if outcome is Outcome.FAILED else []
    findings, death = _judge(plan, watched, outcome, agent_code, ends)
    if outcome is Outcome.FAILED:
        verdicts = [*overseer.verdicts, *overseer.conclude()]
        first = first_death(ends)
        if first is not None and findings:
            findings = [*roots(verdicts, death=findings[0].cause, certainty=first[1]), *findings]
    return findings, death


def why_ended(
    outcome: Outcome, findings: Sequence[Finding], stop_by: StopBy | None, *, is_switched_off: bool = False
) -> str:
    """Why an attempt ended, for the diary."""
    if findings:
        return findings[0].message
    if outcome is Outcome.STOPPED and is_switched_off:
        return "stopped by the kill switch"
    if outcome is Outcome.STOPPED:
        return f"stopped by {'a signal to a rank' if stop_by is None else stop_by.value}"
    return outcome.value


def write_end(
    folder: RunFolder,
    overseer: Overseer,
    outcome: Outcome,
    findings: Sequence[Finding],
    *,
    attempt: int,
    start_unix: float,
    seconds: float,
    num_ended: int,
    why: str,
) -> None:
    """Appends the end line of an attempt to ``attempts.jsonl``."""
    saved = newest_save(folder)
    steps = [line["step"] for line in read_lines(folder.metrics) if isinstance(line.get("step"), int)]
    lost = lost_s(
        outcome=outcome,
        start_unix=start_unix,
        end_unix=start_unix + seconds,
        save_unix=None if saved is None else saved[1],
    )
    overseer.lines.append(
        folder.attempts,
        {
            "event": "end",
            "attempt": attempt,
            "end": now_text(),
            "outcome": outcome.value,
            "why": why,
            "cause": findings[0].cause.value if findings else None,
            "code": findings[0].code if findings else None,
            "hosts": list(findings[0].hosts) if findings else [],
            "last_step": max(steps, default=None),
            "saved_step": None if saved is None else saved[0],
            "hours": seconds / 3600,
            "hours_lost": lost / 3600,
            "num_ended": num_ended,
        },
    )


def _conclude(
    plan: LaunchPlan, watched: Watched, overseer: Overseer, began: _Began, agent_code: int, num_ended: int
) -> LaunchResult:
    """Judges the attempt and writes its end line and its findings."""
    folder = plan.folder
    seconds = time.monotonic() - began.s
    summary = read_json(folder.summary)
    is_switched_off = summary is not None and summary.get("is_switched_off") is True
    outcome = outcome_of(
        summary=summary,
        agent_exit_code=agent_code,
        has_ranks=watched.had_ranks if watched.forced else bool(watched.ranks),
        stop_by=watched.stop_by,
        forced=watched.forced,
    )
    findings, death = _found(plan, watched, overseer, outcome, agent_code, began.log_sizes)
    for finding in findings:
        overseer.report(finding)
    if outcome is Outcome.STOPPED and is_switched_off:
        overseer.report(kill_switch_finding(plan.kill_switch or folder.kill_switch))
    write_end(
        folder,
        overseer,
        outcome,
        findings,
        attempt=began.attempt,
        start_unix=began.unix,
        seconds=seconds,
        num_ended=num_ended,
        why=why_ended(outcome, findings, watched.stop_by, is_switched_off=is_switched_off),
    )
    return LaunchResult(
        outcome=outcome,
        exit_code=exit_code_of_launch(outcome, watched.stop_by, is_switched_off=is_switched_off),
        attempt=began.attempt,
        seconds=seconds,
        findings=tuple(findings),
        death=death,
        num_ended=num_ended,
    )
