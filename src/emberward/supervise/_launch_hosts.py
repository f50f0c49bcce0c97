"""Starts the ranks of one attempt on several hosts, follows them through the run's folder, and ends them in order.

[Note: one supervisor a host]
On each host ``emberward run`` supervises torchrun: it records, watches, posts what it sees into a folder of this
attempt, and judges everybody's posts by the same rules. We, the launcher, start these supervisors and hold a pipe to
each: when it ends, for whatever reason, the supervisor gets SIGTERM (`leash`). A signal that reaches a host alone, as
SLURM's do, comes to us as a file that the leash makes. What the ranks do, save and fail by, we
read in the run's folder, which all hosts share. A stop is asked through a file there: ranks look for it four times a
second, agree at the end of a step, and save. So nothing of the order depends on a signal that reaches another host.
"""

import contextlib
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from emberward.findings import Finding, Severity
from emberward.processes import Child
from emberward.report import LineTail, RunFolder, read_json, tail_text
from emberward.runs import require_no_kill_switch, strike
from emberward.supervise._attempt import LaunchResult, OnFinding
from emberward.supervise._clocks import HostClocks
from emberward.supervise._command import KILL_SWITCH, agent_environment
from emberward.supervise._death import RankRecord, parse_agent_report
from emberward.supervise._host import seen_here
from emberward.supervise._hosts import Team, ask_until_answered, lost_hosts, script_for
from emberward.supervise._launch import POLL_S, LaunchPlan, OnProgress, RecipeAttempt
from emberward.supervise._left_out import NAMING, named_host, slow_host
from emberward.supervise._lock import hold_lock
from emberward.supervise._node_agent import findings_of
from emberward.supervise._overseer import Overseer, key_of
from emberward.supervise._policy import AttemptOutcome, StopBy
from emberward.supervise._signals import StopAsked, stop_signals
from emberward.supervise._verdict import Conclusion, RingFacts, judge_end

FIRST_PORT, NUM_PORTS = 20000, 12768
"""As in `rank/_place.py`, which this room may not import."""
MAX_HEARD = 8
"""Hosts whose heartbeats are read at one snapshot."""
END_MARGIN_S = 15.0
"""What a supervisor takes to end beyond the grace of what it supervises."""
OTHERS_LIMIT_S = 30.0
"""From the first host's failure to the end of the others, beyond the time from an announcement to an end."""
STOP_FILE = "stop-asked"
WANTED_FILE = "stop-wanted"
"""A host was signalled, as by SLURM before a time limit or to make room: the leash there made this file."""
_OF_A_COMMAND = frozenset({"L102", "L106", "L115"})
"""What a host's supervisor says of the command it supervised; here the ranks' own words are judged instead."""


def launch_on_hosts(plan: LaunchPlan, team: Team, *, on_progress: OnProgress, on_finding: OnFinding) -> LaunchResult:
    """How the attempt ended; blocks until it has. See [Note: one supervisor a host] and `launch`, which this follows.

    Hosts that the attempt lost are in the result's `lost`; the ledger has those that their hardware lost.
    """
    folder = plan.folder
    require_no_kill_switch(plan.kill_switch or folder.kill_switch)
    with hold_lock(folder, launcher_pid=os.getpid(), job=plan.environment.get("SLURM_JOB_ID")):
        overseer = Overseer(folder, replace(plan.oversight, is_watched=False, node=None), environment=plan.environment)
        state = AttemptOutcome.FAILED
        try:
            with stop_signals() as asked:
                attempt = HostsAttempt(plan, team, overseer, asked, on_progress=on_progress, on_finding=on_finding)
                result = attempt.launch()
            state = result.outcome
            for finding in attempt.lost:
                strike(folder.runs, finding, by=f"attempt {result.attempt} of {folder.name}/{folder.id}")
        finally:
            overseer.close(state=state.value)
    return replace(result, lost=attempt.lost)


class HostsAttempt(RecipeAttempt):
    """The same on several hosts, each below a supervisor of its own. See [Note: one supervisor a host]."""

    def __init__(self, plan: LaunchPlan, team: Team, overseer: Overseer, asked: StopAsked, **told: Any) -> None:
        super().__init__(plan, overseer, asked, **told)
        self._team = team
        for name in (STOP_FILE, WANTED_FILE):
            (self.folder.path / name).unlink(missing_ok=True)
        self._old = set((self.folder.path / "hosts").glob("*/*/findings.jsonl"))
        self._children: dict[str, Child] = {}
        self._pipes: dict[str, int] = {}
        self._codes: dict[str, int] = {}
        self._tails: dict[Path, LineTail] = {}
        self.found: list[Finding] = []
        """What the hosts' supervisors found."""
        self._said: set[tuple[object, ...]] = set()
        self._failed_at_s: float | None = None
        self._ended_at_s: float | None = None
        self._is_signalled = False
        """Whether every process of a host got a signal, as SLURM sends it: what torchrun ends with tells nothing."""
        self._slow_s: dict[tuple[object, ...], float] = {}
        """Since when each slow host is known to be."""
        self._leaving: Finding | None = None
        """The slow host for which the ranks were asked to save."""
        self.lost: tuple[Finding, ...] = ()
        self._clocks = HostClocks()
        self._to_hear: list[str] = []
        self._heard: dict[Path, float] = {}

    # -- starting ------------------------------------------------------------------------------------------------------

    def start(self, environment: Mapping[str, str]) -> None:
        """Starts each host's supervisor, with a pipe to it."""
        plan, team = self.plan, self._team
        environment = agent_environment(environment, is_restart=plan.is_restart)
        environment[KILL_SWITCH] = str(self.folder.path / STOP_FILE)
        environment["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = str(int(plan.grace_s))
        for number, host in enumerate(team.hosts):
            words = host_command(plan, team, number, self.number)
            script = script_for(words, folder=Path.cwd(), environment={**environment, "EMBERWARD_HOST": host.name})
            reading, self._pipes[host.name] = os.pipe()
            with _host_log(self.folder, host.name).open("wb") as log:
                self._children[host.name] = self.tree.start(
                    team.launcher.command(host.name, script),
                    environment=environment,
                    stdin=reading,
                    stdout=log.fileno(),
                    stderr=log.fileno(),
                )
            os.close(reading)

    # -- while it runs -------------------------------------------------------------------------------------------------

    def ended(self) -> int | None:
        """The first exit code of a host that is not 0, once every host's supervisor has ended; waits POLL_S.

        Of hosts that were signalled what their ranks say counts instead; so it does once they have saved to leave a
        slow host: whoever is slow is slow to end too, and may fall silent meanwhile.
        """
        for name, child in self._children.items():
            if name not in self._codes and (code := child.poll()) is not None:
                self._codes[name] = code
        if len(self._codes) < len(self._children):
            time.sleep(POLL_S)
            return None
        return self.code_of(self._codes)

    def code_of(self, codes: Mapping[str, int]) -> int:
        """The same of all hosts' exit codes; reads what the ranks wrote. -9: a host that was given up."""
        if next(self.folder.failures.glob("rank*.json"), None) is None:
            given_up = {name for name, code in codes.items() if code == -9}
            has_left = self._leaving is not None and given_up <= set(self._leaving.hosts)
            if (self._is_signalled and not given_up) or (has_left and self.folder.summary.exists()):
                return 0
        return next((code for code in codes.values() if code), 0)

    @property
    def num_living(self) -> int:
        """How many ranks came up on all hosts."""
        return len(self.ranks)

    def refresh(self, *, now_s: float, now_unix: float) -> None:
        """The same, and what the hosts' supervisors found."""
        super().refresh(now_s=now_s, now_unix=now_unix)
        self.hear_clocks(now_unix=now_unix)
        for finding in self._found_on_hosts():
            self.on_finding(finding)

    def hear_clocks(self, *, now_unix: float) -> None:
        """Reads the heartbeats of some hosts, in turn. See `_clocks.py` [Note: clocks of hosts]."""
        self._to_hear = self._to_hear or [host.name for host in self._team.hosts]
        for _ in range(min(MAX_HEARD, len(self._to_hear))):
            name = self._to_hear.pop()
            for path in (self.folder.path / "hosts" / name).glob("*/supervisor.json"):
                said_unix = (read_json(path) or {}).get("time_unix")
                if isinstance(said_unix, int | float):
                    # One that is not renewed may be of an earlier attempt, and tells nothing.
                    if said_unix != self._heard.setdefault(path, said_unix):
                        self._clocks.take(name, said_unix, now_unix=now_unix)
                    self._heard[path] = said_unix

    def records(self, codes: Mapping[int, tuple[int, int]], facts: Mapping[int, RingFacts]) -> list[RankRecord]:
        """The same, with all times by our clock."""
        return [self._by_our_clock(record) for record in super().records(codes, facts)]

    def _by_our_clock(self, record: RankRecord) -> RankRecord:
        at_unix = None if record.failure is None else record.failure.get("time_unix")
        if record.failure is None or not isinstance(at_unix, int | float):
            return record
        here = self._clocks.here(self.host_of(record.rank), at_unix)
        return replace(record, failure={**record.failure, "time_unix": here})

    def _found_on_hosts(self) -> list[Finding]:
        """What the supervisors found since the last call, each once, written down here too."""
        new = []
        for path in sorted(set((self.folder.path / "hosts").glob("*/*/findings.jsonl")) - self._old):
            for line in self._tails.setdefault(path, LineTail(path)).poll():
                for finding in findings_of([line]):
                    if finding.code in _OF_A_COMMAND:
                        continue
                    self.found.append(finding)
                    if key_of(finding) not in self._said:
                        self._said.add(key_of(finding))
                        self.overseer.report(finding)
                        new.append(finding)
        return new

    def leave_slow_host(self, *, now_s: float) -> None:
        """Asks the ranks to save when a host was slow for long enough. See `_left_out.py` [Note: a slow host]."""
        names = {host.name for host in self._team.hosts}
        plan = self.plan
        for finding in self.found:
            is_ours = slow_host([finding]) is not None and finding.hosts[0] in names
            if not is_ours or finding.culprit_ranks in plan.known_slow:
                continue
            since_s = self._slow_s.setdefault(key_of(finding), now_s)
            limit_s = plan.replace_slow_s
            is_long = limit_s is not None and now_s - since_s >= limit_s
            if self._leaving is None and limit_s is not None and is_long and _is_held(plan, finding):
                self._leaving = finding
                self.overseer.report(leaving_finding(finding, limit_s))
        if self._leaving is not None:
            with contextlib.suppress(OSError):
                (self.folder.path / STOP_FILE).touch()

    def move(self, *, now_s: float) -> None:
        """Asks the ranks to stop, or ends the supervisors that are left, when it is time."""
        plan, asked = self.plan, self.asked
        if self._team.spares and self.ranks and asked.at_s is None and self._failed_at_s is None:
            self.leave_slow_host(now_s=now_s)
        with contextlib.suppress(OSError):
            self.is_switched_off |= self.kill_switch.exists()
            if asked.at_s is None and (self.folder.path / WANTED_FILE).exists():
                self._is_signalled = True
                asked.ask(StopBy.TERMINATE)
        if self.is_switched_off:
            asked.ask(None)
        if asked.at_s is not None and self.ranks:
            with contextlib.suppress(OSError):
                (self.folder.path / STOP_FILE).touch()
        if self._failed_at_s is None and any(self._codes.values()):
            self._failed_at_s = now_s
        is_late = False
        if asked.at_s is not None:
            is_late = asked.num_interrupts >= 2 or not self.ranks or now_s - asked.at_s > plan.grace_s
        left = set(self._children) - set(self._codes)
        named = {finding.hosts[0] for finding in self.found if named_host([finding]) is not None}
        if self._failed_at_s is not None and left:
            wait_s = OTHERS_LIMIT_S + plan.oversight.patience.act_after_s
            is_late |= now_s - self._failed_at_s > (0.0 if left <= named else wait_s)
        if not is_late:
            return
        if self._ended_at_s is None:
            self._ended_at_s = now_s
            self.is_forced = asked.at_s is not None
            for name in left:
                # The end of the pipe ends its supervisor, which ends the ranks.
                os.close(self._pipes.pop(name))
        for name in left:
            limit_s = 0.0 if name in named else plan.grace_s + END_MARGIN_S
            if now_s - self._ended_at_s > limit_s:
                # A host that is gone cannot end; what is left of it here is its launcher.
                self._codes[name] = -9

    def close_pipes(self) -> None:
        """Ends the supervisors that still have theirs."""
        while self._pipes:
            os.close(self._pipes.popitem()[1])

    # -- after its end -------------------------------------------------------------------------------------------------

    def outcome_of_end(self, code: int) -> AttemptOutcome:
        """The same; the pipes to the supervisors are closed.

        Ranks know a stop by its file, whoever asked for it: whether it was the kill switch only the launcher can tell.
        """
        self.close_pipes()
        is_switched_off = self.is_switched_off
        outcome = super().outcome_of_end(code)
        self.is_switched_off = is_switched_off or self.kill_switch.exists()
        return outcome

    def conclude(self, code: int, outcome: AttemptOutcome) -> Conclusion:
        """The findings of an attempt that did not end well, and the hosts that it lost."""
        found = self._judged(code) if outcome is AttemptOutcome.FAILED else Conclusion()
        self.lost = tuple(finding for finding in found.findings if named_host([finding]) is not None)
        if outcome is AttemptOutcome.STOPPED and self.asked.at_s is None and self._leaving is not None:
            self.lost = (self._leaving,)
            return Conclusion(findings=self.lost)
        return found

    def _judged(self, code: int) -> Conclusion:
        """What is known of a failed attempt, the cause first: who lost its link or its host, then as on one host."""
        errors = list({key_of(each): each for each in self.found if each.severity is Severity.ERROR}.values())
        named = [each for each in errors if each.code in NAMING]
        answers = ask_until_answered(
            self._team.launcher,
            (*self._team.hosts, *self._team.spares),
            python=sys.executable,
            folder=Path.cwd(),
            is_stopped=lambda: self.asked.at_s is not None,
        )
        asked = [_with_ranks(each, named) for each in lost_hosts(self._team.hosts, answers)]
        for each in asked:
            self.overseer.correct(each)
        # What a host itself answers, that it booted, or not at all, says more than what its peers saw of it.
        told = {host for each in asked for host in each.hosts}
        seen = [each for each in named if told.isdisjoint(each.hosts)]
        if asked or seen:
            return Conclusion(findings=(*asked, *seen, *(each for each in errors if each not in named)))
        if errors:
            return Conclusion(findings=tuple(errors))
        codes: dict[int, tuple[int, int]] = {}
        for host in self._team.hosts:
            log = _host_log(self.folder, host.name)
            codes |= parse_agent_report("\n".join(tail_text(log, num_lines=10_000, max_bytes=2**20)))
        return judge_end(
            code=max(code, 0),
            records=self.records(codes, {}),
            facts={},
            verdicts=(),
            otherwise=self._supervisors_failed,
            can_resume=self.has_save,
        )

    def host_of(self, rank: int) -> str:
        """The host on which the rank was to run."""
        return self._team.hosts[rank // self._team.ranks_per_host].name

    def _supervisors_failed(self) -> Finding:
        codes = ", ".join(f"{name} {code}" for name, code in sorted(self._codes.items()))
        bad = next((name for name, code in self._codes.items() if code), self._team.hosts[0].name)
        log = _host_log(self.folder, bad)
        evidence = (f"exit codes of the hosts' supervisors: {codes}", *tail_text(log, num_lines=8))
        code, what = (
            ("L105", "the launch ended without a result") if self.ranks else ("L103", "the ranks did not start")
        )
        return seen_here(code, what, evidence=evidence, next=f"read {log}")


def _host_log(folder: RunFolder, host: str) -> Path:
    """What the supervisor and the agent of a host write."""
    return folder.logs / f"host-{re.sub(r'[^A-Za-z0-9._-]', '_', host)}.log"


def host_command(
    plan: LaunchPlan, team: Team, number: int, attempt: int, *, python: str = sys.executable
) -> tuple[str, ...]:
    """The argv on host `number` of the team: its supervisor, on a leash, with torchrun's static rendezvous below it."""
    host, folder, patience = team.hosts[number], plan.folder, plan.oversight.patience
    port = FIRST_PORT + (sum(map(ord, folder.id)) * 31 + attempt) % NUM_PORTS
    silence = () if patience.max_silence_s is None else ("--max-silence", str(patience.max_silence_s))
    return (
        python, "-m", "emberward.supervise.leash", str(folder.path / WANTED_FILE),
        python, "-m", "emberward", "run",
        "--runs", str(folder.path / "hosts"), "--name", host.name, "--host", host.name,
        "--collector", str(folder.path / "posts" / f"attempt-{attempt}"), "--address", host.address,
        "--act-after", str(patience.act_after_s), *silence, "--grace-s", str(plan.grace_s),
        *(() if plan.oversight.is_watched else ("--no-record",)), "--",
        python, "-m", "torch.distributed.run",
        f"--nnodes={len(team.hosts)}", f"--node-rank={number}", f"--nproc-per-node={team.ranks_per_host}",
        f"--master-addr={team.hosts[0].address}", f"--master-port={port}", "--max-restarts=0",
        "--monitor-interval=0.2", "--redirects=3", f"--log-dir={folder.early_logs / host.name}",
        "-m", "emberward.rank", "--folder", str(folder.path),
    )  # fmt: skip


def _is_held(plan: LaunchPlan, finding: Finding) -> bool:
    """Whether a host's supervisor still holds what was found."""
    told = [read_json(path) or {} for path in (plan.folder.path / "hosts").glob("*/*/supervisor.json")]
    return any(said.get("state") == "runs" and finding.code in (said.get("holds") or ()) for said in told)


def _with_ranks(asked: Finding, seen: Sequence[Finding]) -> Finding:
    """What asking a host told, with the ranks and the words of what its peers saw of it."""
    same = next((each for each in seen if (each.code, each.hosts) == (asked.code, asked.hosts)), None)
    if same is None:
        return asked
    evidence = (*asked.evidence, f"its peers: {same.message}", *same.evidence)
    return replace(same, message=asked.message, evidence=evidence, next=asked.next)


def leaving_finding(finding: Finding, seconds: float) -> Finding:
    """The notice that a spare takes the place of a slow host."""
    return replace(
        finding,
        code="L124",
        severity=Severity.NOTICE,
        message=f"a spare takes the place of {finding.hosts[0]}, slow for {seconds:.0f} s: {finding.message[:200]}",
        next=f"emberward doctor --hosts {finding.hosts[0]}; it takes no part in this launch any more",
    )
