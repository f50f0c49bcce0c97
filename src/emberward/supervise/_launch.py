"""Starts the ranks of one attempt, watches them, stops them in order, and leaves no process behind."""

import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.report import Progress, ProgressReader, RunFolder, append_line, read_json, read_lines, tail_text
from emberward.supervise._attempts import (
    changes,
    commit_of,
    last_good_start,
    lost_s,
    newest_save,
    orphan_end,
    past_attempts,
    versions,
)
from emberward.supervise._command import agent_environment
from emberward.supervise._death import RankEnd, death_finding, death_text, first_death, parse_agent_report
from emberward.supervise._lock import hold_lock
from emberward.supervise._policy import Move, Outcome, Seen, StopBy, exit_code_of_launch, next_move, outcome_of
from emberward.supervise._processes import ProcessId, descendants, end, identify, is_alive, marked, send

POLL_S = 0.2
TREE_POLL_S = 2.0
LOG_TAIL_LINES = 20

OnProgress = Callable[[Progress, Sequence[Mapping[str, Any]]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """One attempt to be made.

    `command` is the agent's argv; `environment` what it starts from; `why` a few words for the diary (new, resume);
    `config` a digest of the resolved recipe. `grace_s` bounds the time that ranks have to save after a stop was asked.
    """

    folder: RunFolder
    num_ranks: int
    command: tuple[str, ...]
    environment: Mapping[str, str]
    why: str
    config: str | None = None
    grace_s: float = 120.0


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


@dataclass(slots=True, kw_only=True)
class _Watched:
    """What the launcher has seen so far of the attempt that runs."""

    ranks: dict[int, dict[str, Any]] = field(default_factory=dict)
    processes: dict[int, ProcessId] = field(default_factory=dict)
    gone_unix: dict[int, float] = field(default_factory=dict)
    tree: set[ProcessId] = field(default_factory=set)
    told: set[int] = field(default_factory=set)
    stop_at_s: float | None = None
    stop_by: StopBy | None = None
    num_interrupts: int = 0
    failed_at_s: float | None = None
    forced: bool = False
    had_ranks: bool = False


@contextmanager
def _stop_signals(watched: _Watched) -> Iterator[None]:
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


def _look(folder: RunFolder, watched: _Watched) -> None:
    """Learns of ranks that came up, failed or went since the last look."""
    for path in folder.ranks.glob("rank*.json"):
        said = read_json(path)
        if said is None or not isinstance(said.get("rank"), int) or said["rank"] in watched.ranks:
            continue
        watched.ranks[said["rank"]] = said
        if (process := identify(said["pid"])) is not None:
            watched.processes[said["rank"]] = process
            watched.tree.add(process)
    for rank, process in watched.processes.items():
        if rank not in watched.gone_unix and not is_alive(process):
            watched.gone_unix[rank] = time.time()
    if watched.failed_at_s is None and next(folder.failures.glob("rank*.json"), None) is not None:
        watched.failed_at_s = time.monotonic()


def _tell(watched: _Watched) -> None:
    """Sends SIGTERM once to each rank that is up: save at the end of the step, then exit 0."""
    for rank, process in watched.processes.items():
        if rank not in watched.told:
            watched.told.add(rank)
            send(process, signal.SIGTERM)


def _watch(plan: LaunchPlan, agent: "subprocess.Popen[bytes]", watched: _Watched, on_progress: OnProgress) -> int:
    """Waits until the agent has ended, and returns its exit code. Makes the moves that the policy asks for."""
    root = identify(agent.pid)
    save = newest_save(plan.folder)
    reader = ProgressReader(plan.folder, from_end=True, after_step=None if save is None else save[0])
    tree_at_s = time.monotonic()
    while True:
        try:
            code: int | None = agent.wait(POLL_S)
        except subprocess.TimeoutExpired:
            code = None
        _look(plan.folder, watched)
        on_progress(*reader.poll(now_unix=time.time()))
        if code is not None:
            return code
        now_s = time.monotonic()
        if root is not None and now_s - tree_at_s >= TREE_POLL_S:
            watched.tree |= descendants(root)
            tree_at_s = now_s
        seen = Seen(
            now_s=now_s,
            stop_at_s=watched.stop_at_s,
            stop_by=watched.stop_by,
            num_interrupts=watched.num_interrupts,
            has_ranks=bool(watched.processes),
            failed_at_s=watched.failed_at_s,
        )
        match next_move(seen, grace_s=plan.grace_s):
            case Move.TELL:
                _tell(watched)
            case Move.KILL:
                if not watched.forced:
                    watched.forced, watched.had_ranks = True, bool(watched.processes)
                if root is not None:
                    watched.tree |= descendants(root) | {root}
                end(watched.tree)
            case Move.WAIT:
                pass


def _rank_ends(plan: LaunchPlan, watched: _Watched, log_sizes: Mapping[int, int]) -> list[RankEnd]:
    """What is known of each rank, after the agent has ended."""
    folder = plan.folder
    codes = parse_agent_report("\n".join(tail_text(folder.agent_log, num_lines=10_000, max_bytes=2**20)))
    ends = []
    for rank in range(plan.num_ranks):
        # A rank writes its file twice: when it is up, and again when it knows its coordinates.
        said = read_json(folder.rank_file(rank)) or watched.ranks.get(rank, {})
        code, pid = codes.get(rank, (None, said.get("pid")))
        log = folder.rank_log(rank)
        tail = tail_text(log, num_lines=LOG_TAIL_LINES, since_byte=log_sizes.get(rank, 0))
        if not tail:
            early = sorted(
                folder.early_logs.glob(f"*/attempt_0/{rank}/stderr.log"), key=lambda path: path.stat().st_mtime
            )
            log = early[-1] if early else log
            tail = tail_text(log, num_lines=LOG_TAIL_LINES)
        ends.append(
            RankEnd(
                rank=rank,
                pid=pid,
                host=said.get("host") or socket.gethostname(),
                coordinates=said.get("coordinates"),
                exit_code=code,
                gone_unix=watched.gone_unix.get(rank),
                failure=read_json(folder.failure_file(rank)),
                log=str(log),
                log_tail=tuple(tail),
            )
        )
    return ends


def _error(code: str, kind: Kind, cause: Cause, message: str, evidence: Sequence[str], next: str) -> Finding:
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
    plan: LaunchPlan, watched: _Watched, outcome: Outcome, agent_code: int, ends: Sequence[RankEnd]
) -> tuple[list[Finding], str | None]:
    """The findings of an attempt that ended, and the text about a death. None for one that ended well."""
    agent_log = plan.folder.agent_log
    if outcome is Outcome.KILLED:
        saved = newest_save(plan.folder)
        since = "no save exists" if saved is None else f"the last save is of step {saved[0]}"
        message = f"ranks did not stop in time and were killed; {since}"
        how = "second Ctrl-C" if watched.num_interrupts >= 2 else f"{plan.grace_s:.0f} s after the stop was asked"
        next = "the same command resumes; emberward train --grace-s gives ranks more time to save"
        return [_error("L104", Kind.HANG, Cause.UNKNOWN, message, [how], next)], None
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
        return [_error("L103", Kind.CRASH, Cause.UNKNOWN, message, [code, *tail], f"read {agent_log}")], None
    message = "the launch ended without a result: " + (
        f"its agent was killed by signal {-agent_code}" if agent_code < 0 else "no rank failed and none wrote a summary"
    )
    cause = Cause.KILLED if agent_code < 0 else Cause.MAIN_EXITED
    return [_error("L105", Kind.CRASH, cause, message, [code, *tail], "the same command resumes")], None


def _clear(folder: RunFolder) -> dict[int, int]:
    """Makes the folder ready for a new attempt; returns the sizes of the logs that are there, by rank."""
    for sub in (folder.ranks, folder.failures, folder.logs, folder.early_logs):
        sub.mkdir(parents=True, exist_ok=True)
    for sub in (folder.ranks, folder.failures):
        for path in sub.glob("rank*.json"):
            path.unlink()
    folder.summary.unlink(missing_ok=True)
    folder.progress.unlink(missing_ok=True)
    return {int(path.stem[4:]): path.stat().st_size for path in folder.logs.glob("rank*.log")}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def launch(plan: LaunchPlan, *, on_progress: OnProgress) -> LaunchResult:
    """How the attempt ended; blocks until it has. Call it from the main thread of the process that a person watches.

    Starts `plan.command` in a session of its own, so that Ctrl-C reaches this process alone; calls `on_progress` five
    times a second with where the run stands and the steps since the last call. Ctrl-C, SIGTERM and SIGHUP ask the
    ranks to save and stop; see `next_move` for when they are killed. After it nothing of the attempt runs any more.
    Appends to ``attempts.jsonl`` and ``findings.jsonl``. Raises ConfigError C111 when another launch uses the folder.
    """
    folder = plan.folder
    with hold_lock(folder, launcher_pid=os.getpid()) as lock:
        log_sizes = _clear(folder)
        starts, ends = past_attempts(folder)
        if (orphan := orphan_end(starts, ends)) is not None:
            append_line(folder.attempts, orphan)
        attempt = max((start.get("attempt", 0) for start in starts), default=0) + 1
        saved = newest_save(folder)
        start = {
            "event": "start",
            "attempt": attempt,
            "start": _now(),
            "why": plan.why,
            "num_ranks": plan.num_ranks,
            "host": socket.gethostname(),
            "commit": commit_of(Path.cwd()),
            "config": plan.config,
            "versions": versions(),
            "saved_step": None if saved is None else saved[0],
        }
        start["changed"] = changes(last_good_start(starts, ends), start)
        append_line(folder.attempts, start)
        start_unix, began_s = time.time(), time.monotonic()
        watched = _Watched()
        marker = uuid.uuid4().hex
        agent_code: int | None = None
        with _stop_signals(watched):
            try:
                with folder.agent_log.open("wb") as log:
                    agent = subprocess.Popen(
                        plan.command,
                        env=agent_environment(plan.environment, marker=marker),
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                if (root := identify(agent.pid)) is not None:
                    lock.name_agent(root)
                agent_code = _watch(plan, agent, watched, on_progress)
            finally:
                left = {process for process in watched.tree | marked(marker) if is_alive(process)}
                end(left)
        return _conclude(plan, watched, attempt, agent_code, log_sizes, start_unix, began_s, len(left))


def _why(outcome: Outcome, findings: Sequence[Finding], stop_by: StopBy | None) -> str:
    """Why an attempt ended, for the diary."""
    if findings:
        return findings[0].message
    if outcome is Outcome.STOPPED:
        return f"stopped by {'a signal to a rank' if stop_by is None else stop_by.value}"
    return outcome.value


def _conclude(
    plan: LaunchPlan,
    watched: _Watched,
    attempt: int,
    agent_code: int,
    log_sizes: Mapping[int, int],
    start_unix: float,
    began_s: float,
    num_ended: int,
) -> LaunchResult:
    """Judges the attempt and writes its end line and its findings."""
    folder = plan.folder
    seconds = time.monotonic() - began_s
    outcome = outcome_of(
        summary=read_json(folder.summary),
        agent_exit_code=agent_code,
        has_ranks=watched.had_ranks if watched.forced else bool(watched.ranks),
        stop_by=watched.stop_by,
        forced=watched.forced,
    )
    ends = _rank_ends(plan, watched, log_sizes) if outcome is Outcome.FAILED else []
    findings, death = _judge(plan, watched, outcome, agent_code, ends)
    for finding in findings:
        append_line(folder.findings, finding.to_json())
    saved = newest_save(folder)
    steps = [line["step"] for line in read_lines(folder.metrics) if isinstance(line.get("step"), int)]
    lost = lost_s(
        outcome=outcome,
        start_unix=start_unix,
        end_unix=start_unix + seconds,
        save_unix=None if saved is None else saved[1],
    )
    append_line(
        folder.attempts,
        {
            "event": "end",
            "attempt": attempt,
            "end": _now(),
            "outcome": outcome.value,
            "why": _why(outcome, findings, watched.stop_by),
            "last_step": max(steps, default=None),
            "saved_step": None if saved is None else saved[0],
            "hours": seconds / 3600,
            "hours_lost": lost / 3600,
            "num_ended": num_ended,
        },
    )
    return LaunchResult(
        outcome=outcome,
        exit_code=exit_code_of_launch(outcome, watched.stop_by),
        attempt=attempt,
        seconds=seconds,
        findings=tuple(findings),
        death=death,
        num_ended=num_ended,
    )
