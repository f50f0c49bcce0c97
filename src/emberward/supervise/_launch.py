"""Starts the ranks of one attempt of a recipe, asks them to save and stop, and leaves no process behind."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from emberward.findings import Cause, Finding
from emberward.processes import Child, end, send
from emberward.report import Progress, ProgressReader, RunFolder, read_json, tail_text
from emberward.runs import require_no_kill_switch
from emberward.supervise._attempt import Attempt, LaunchResult, OnFinding, kill_switch_finding
from emberward.supervise._command import KILL_SWITCH, agent_environment
from emberward.supervise._death import RankRecord, parse_agent_report
from emberward.supervise._diary import costs_of, newest_save
from emberward.supervise._exits import Ended as SeenEnd
from emberward.supervise._host import seen_here
from emberward.supervise._lock import LaunchLock, hold_lock
from emberward.supervise._overseer import Overseer, Oversight
from emberward.supervise._policy import AttemptOutcome, Move, Seen, exit_code_of_launch, next_move, outcome_of
from emberward.supervise._signals import StopAsked, stop_signals
from emberward.supervise._verdict import Conclusion, RingFacts, judge_end, read_last_facts

POLL_S = 0.2
LOG_TAIL_LINES = 20

NO_OVERSIGHT = Oversight(is_watched=False)
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


class RecipeAttempt(Attempt):
    """An attempt of our own ranks, which say in the run's folder who they are, how far they are and how they failed."""

    def __init__(
        self,
        plan: LaunchPlan,
        overseer: Overseer,
        asked: StopAsked,
        *,
        on_progress: OnProgress,
        on_finding: OnFinding,
    ) -> None:
        super().__init__(plan.folder, overseer, on_finding, grace_s=plan.grace_s)
        self.plan = plan
        self.asked = asked
        self.ranks: dict[int, dict[str, Any]] = {}
        """What each rank wrote of itself when it was up."""
        self.is_forced = self.is_switched_off = False
        self.failed_s: float | None = None
        self._on_progress = on_progress
        self.log_sizes = clear_attempt(plan.folder)
        save = newest_save(plan.folder)
        self._progress = ProgressReader(plan.folder, from_end=True, after_step=None if save is None else save[0])

    def launch(self) -> LaunchResult:
        """The attempt, and its exit code for whoever started us."""
        plan = self.plan
        ended = self.make(plan.why, num_ranks=plan.num_ranks, config=plan.config)
        if ended.outcome is AttemptOutcome.STOPPED and self.is_switched_off:
            self.overseer.report(kill_switch_finding(self.kill_switch))
        code = exit_code_of_launch(ended.outcome, self.asked.by, is_switched_off=self.is_switched_off)
        return replace(ended, exit_code=code)

    @property
    def kill_switch(self) -> Path:
        """The file that stops the run."""
        return self.plan.kill_switch or self.folder.kill_switch

    @property
    def has_ranks(self) -> bool:
        """Whether a rank came up that could have saved."""
        return bool(self.ranks)

    @property
    def is_failing(self) -> bool:
        """Whether a rank wrote that it failed."""
        return self.failed_s is not None

    def refresh(self, *, now_s: float, now_unix: float) -> None:
        """Learns of ranks that came up, failed or ended; says how far the run is."""
        self.hear_ranks()
        if self.failed_s is None and next(self.folder.failures.glob("rank*.json"), None) is not None:
            self.failed_s = now_s
        self._on_progress(*self._progress.poll(now_unix=now_unix))

    def hear_ranks(self) -> None:
        """Reads what ranks that came up since the last call wrote of themselves."""
        for path in self.folder.ranks.glob("rank*.json"):
            said = read_json(path)
            if said is not None and isinstance(said.get("rank"), int):
                self.ranks.setdefault(said["rank"], said)

    def outcome_of_end(self, code: int) -> AttemptOutcome:
        """How it ended, by rank 0's summary and the agent's code."""
        self.refresh(now_s=time.monotonic(), now_unix=time.time())
        summary = read_json(self.folder.summary)
        self.is_switched_off |= summary is not None and summary.get("is_switched_off") is True
        return outcome_of(
            summary=summary,
            agent_exit_code=code,
            has_ranks=self.has_ranks,
            stop_by=self.asked.by,
            forced=self.is_forced,
        )

    def records(self, codes: Mapping[int, tuple[int, int]], facts: Mapping[int, RingFacts]) -> list[RankRecord]:
        """What is known of each rank after its end. `codes`: rank -> exit code and pid, of the agents' own reports."""
        members = {member.rank: member for member in self.members.latest()}
        return [
            self._record(rank, codes.get(rank), None if (m := members.get(rank)) is None else m.ended, facts)
            for rank in range(self.plan.num_ranks)
        ]

    def _record(
        self, rank: int, told: tuple[int, int] | None, seen: SeenEnd | None, facts: Mapping[int, RingFacts]
    ) -> RankRecord:
        folder = self.folder
        # A rank writes its file twice: when it is up, and again when it knows its coordinates.
        said = read_json(folder.rank_file(rank)) or self.ranks.get(rank, {})
        code, pid = told or (None, said.get("pid"))
        if code is None and seen is not None and (seen.exit_code or 0) > 0:
            # The agent had not yet seen it fail. A signal would tell nothing here: it may have been the agent's own.
            code = seen.exit_code
        log = folder.rank_log(rank)
        tail = tail_text(log, num_lines=LOG_TAIL_LINES, since_byte=self.log_sizes.get(rank, 0))
        if not tail:
            early = sorted(
                folder.early_logs.glob(f"*/attempt_0/{rank}/stderr.log"), key=lambda path: path.stat().st_mtime
            )
            log = early[-1] if early else log
            tail = tail_text(log, num_lines=LOG_TAIL_LINES)
        failure: Mapping[str, Any] | None = read_json(folder.failure_file(rank))
        if failure is None and code is not None and code > 0 and (ring := facts.get(pid or 0)) is not None:
            # The exception that its ring saw escape: on a full disk a rank can write no file.
            failure = ring.failure
        return RankRecord(
            rank=rank,
            pid=pid,
            host=said.get("host") or self.host_of(rank),
            coordinates=said.get("coordinates"),
            exit_code=code,
            gone_unix=None if seen is None else seen.seen_unix,
            failure=failure,
            log=str(log),
            log_tail=tuple(tail),
        )

    def host_of(self, rank: int) -> str:
        """The host of a rank that said nothing."""
        return socket.gethostname()

    @property
    def has_save(self) -> bool:
        """Whether there is a save to resume from. Reads the run's folder."""
        return newest_save(self.folder) is not None

    def killed_finding(self) -> Finding:
        """L104: the ranks did not stop in time."""
        saved = newest_save(self.folder)
        since = "no save exists" if saved is None else f"the last save is of step {saved[0]}"
        message = f"ranks did not stop in time and were killed; {since}"
        how = "second Ctrl-C" if self.asked.num_interrupts >= 2 else f"{self.grace_s:.0f} s after the stop was asked"
        next = "emberward train --grace-s gives ranks more time to save"
        return seen_here("L104", message, evidence=(how,), next=next)

    def why(self, outcome: AttemptOutcome) -> str:
        """Who stopped it."""
        if outcome is not AttemptOutcome.STOPPED:
            return super().why(outcome)
        if self.is_switched_off:
            return "stopped by the kill switch"
        return f"stopped by {'a signal to a rank' if self.asked.by is None else self.asked.by.value}"

    def costs(self, outcome: AttemptOutcome, seconds: float) -> dict[str, Any]:
        """Steps, the newest save, and the time that the next attempt must do again."""
        return costs_of(self.folder, outcome, start_unix=self.began_unix, end_unix=self.began_unix + seconds)


class LocalAttempt(RecipeAttempt):
    """The same on this host alone, below torch's elastic agent."""

    def __init__(self, plan: LaunchPlan, overseer: Overseer, asked: StopAsked, lock: LaunchLock, **told: Any) -> None:
        super().__init__(plan, overseer, asked, **told)
        self._lock = lock
        self._agent: Child
        self._told: set[int] = set()
        self._had_ranks = False

    def start(self, environment: Mapping[str, str]) -> None:
        """Starts the agent in a session of its own, so that Ctrl-C reaches us alone."""
        plan = self.plan
        if plan.kill_switch is not None:
            environment = {**environment, KILL_SWITCH: str(plan.kill_switch)}
        with plan.folder.agent_log.open("wb") as log:
            self._agent = self.tree.start(
                plan.command,
                environment=agent_environment(environment, is_restart=plan.is_restart),
                stdout=log.fileno(),
                stderr=log.fileno(),
            )
        if self._agent.identity is not None:
            self._lock.name_agent(self._agent.identity)

    def ended(self) -> int | None:
        """The agent's exit code; waits POLL_S."""
        try:
            return self._agent.wait(POLL_S)
        except subprocess.TimeoutExpired:
            return None

    def refresh(self, *, now_s: float, now_unix: float) -> None:
        """The same, and the ends of the ranks' processes, which get SIGTERM first should we die."""
        super().refresh(now_s=now_s, now_unix=now_unix)
        pids = {said["pid"]: rank for rank, said in self.ranks.items() if isinstance(said.get("pid"), int)}
        self.members.add(pids, rings=self.overseer.rings())
        self.see_ends(now_unix=now_unix)
        self.tree.ask_first(list(self.members.by_pid))

    def move(self, *, now_s: float) -> None:
        """Tells the ranks to save and stop, or kills what is there. See `next_move`."""
        seen = Seen(
            now_s=now_s,
            stop_at_s=self.asked.at_s,
            stop_by=self.asked.by,
            num_interrupts=self.asked.num_interrupts,
            has_ranks=bool(self.members.by_pid),
            failed_at_s=self.failed_s,
            is_due=self.due is not None,
        )
        match next_move(seen, grace_s=self.grace_s):
            case Move.TELL:
                for pid, member in self.members.by_pid.items():
                    if pid not in self._told:
                        self._told.add(pid)
                        send(member.process, signal.SIGTERM)
            case Move.KILL:
                self.overseer.mute()
                if not self.is_forced:
                    self.is_forced, self._had_ranks = True, bool(self.members.by_pid)
                end(self.tree.processes())
            case Move.WAIT:
                pass

    @property
    def has_ranks(self) -> bool:
        """Whether one had come up when they were killed; else whether one did at all."""
        return self._had_ranks if self.is_forced else super().has_ranks

    def conclude(self, code: int, outcome: AttemptOutcome) -> Conclusion:
        """The findings of an attempt that did not end well."""
        if outcome is AttemptOutcome.KILLED:
            return Conclusion(findings=(self.killed_finding(),))
        if outcome is not AttemptOutcome.FAILED:
            return Conclusion()
        rings = self.overseer.rings().items()
        facts = {pid: known for pid, ring in rings if (known := read_last_facts(ring)) is not None}
        report = "\n".join(tail_text(self.folder.agent_log, num_lines=10_000, max_bytes=2**20))
        return judge_end(
            code=code,
            records=self.records(parse_agent_report(report), facts),
            facts=facts,
            verdicts=[*self.overseer.verdicts, *self.overseer.conclude()],
            otherwise=lambda: self._agent_failed(code),
            due=self.due,
            standing=self.overseer.standing(now_s=time.monotonic()),
            can_resume=self.has_save,
        )

    def _agent_failed(self, code: int) -> Finding:
        """The finding where no rank's end is known."""
        log = self.folder.agent_log
        evidence = (f"agent exit code {code}", *tail_text(log, num_lines=8))
        if not self.ranks:
            return seen_here("L103", "the ranks did not start", evidence=evidence, next=f"read {log}")
        message = "the launch ended without a result: " + (
            f"its agent was killed by signal {-code}" if code < 0 else "no rank failed and none wrote a summary"
        )
        cause = Cause.KILLED if code < 0 else Cause.MAIN_EXITED
        return seen_here("L105", message, cause=cause, evidence=evidence, next=f"read {log}")


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
    with hold_lock(folder, launcher_pid=os.getpid(), job=plan.environment.get("SLURM_JOB_ID")) as lock:
        overseer = Overseer(folder, plan.oversight, environment=plan.environment)
        state = AttemptOutcome.FAILED
        try:
            with stop_signals() as asked:
                result = LocalAttempt(
                    plan, overseer, asked, lock, on_progress=on_progress, on_finding=on_finding
                ).launch()
            state = result.outcome
        finally:
            overseer.close(state=state.value)
        return result
