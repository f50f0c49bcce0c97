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
from dataclasses import dataclass, field, replace
from pathlib import Path

from emberward.findings import Cause, Finding, Kind, Severity
from emberward.processes import Child, ProcessTree
from emberward.report import LineTail, ProgressReader, RunFolder, read_json, tail_text
from emberward.runs import require_no_kill_switch, strike
from emberward.supervise._attempts import newest_save, open_attempt
from emberward.supervise._command import KILL_SWITCH, agent_environment
from emberward.supervise._death import RankRecord, death_finding, death_text, first_death, parse_agent_report
from emberward.supervise._hosts import Team, ask_hosts, lost_hosts, script_for
from emberward.supervise._launch import (
    LOG_TAIL_LINES,
    POLL_S,
    LaunchPlan,
    LaunchResult,
    OnFinding,
    OnProgress,
    Watched,
    clear_attempt,
    launch_error,
    stop_signals,
    why_ended,
    write_end,
)
from emberward.supervise._left_out import NAMING, named_host, slow_host
from emberward.supervise._lock import hold_lock
from emberward.supervise._overseer import Overseer, key_of
from emberward.supervise._policy import Outcome, StopBy, exit_code_of_launch, outcome_of
from emberward.supervise._run_attempt import kill_switch_finding

FIRST_PORT, NUM_PORTS = 20000, 12768
"""As in `rank/_place.py`, a stranger of this room."""
END_MARGIN_S = 15.0
"""What a supervisor takes to end beyond the grace of what it supervises."""
OTHERS_LIMIT_S = 30.0
"""From the first host's failure to the end of the others, beyond the time from an announcement to an end."""
STOP_FILE = "stop-asked"
WANTED_FILE = "stop-wanted"
"""A host was signalled, as by SLURM before a time limit or to make room: the leash there made this file."""
_OF_A_COMMAND = frozenset({"L102", "L106", "L115"})
"""What a host's supervisor says of the command it supervised; here the ranks' own words are judged instead."""


@dataclass(slots=True, kw_only=True)
class _Going:
    """What has been seen of the attempt that runs."""

    children: dict[str, Child]
    pipes: dict[str, int]
    codes: dict[str, int] = field(default_factory=dict)
    tails: dict[Path, LineTail] = field(default_factory=dict)
    found: list[Finding] = field(default_factory=list)
    said: set[tuple[object, ...]] = field(default_factory=set)
    failed_at_s: float | None = None
    ended_at_s: float | None = None
    is_switched_off: bool = False
    is_signalled: bool = False
    """Whether every process of a host got a signal, as SLURM sends it: what torchrun ends with tells nothing then."""
    slow_s: dict[tuple[object, ...], float] = field(default_factory=dict)
    """Since when each slow host is known to be."""
    leaving: Finding | None = None
    """The slow host for which the ranks were asked to save."""


def launch_on_hosts(plan: LaunchPlan, team: Team, *, on_progress: OnProgress, on_finding: OnFinding) -> LaunchResult:
    """How the attempt ended; blocks until it has. See [Note: one supervisor a host] and `launch`, which this follows.

    Hosts that the attempt lost are in the result's `lost`; the ledger has those that their hardware lost.
    """
    folder = plan.folder
    switch = plan.kill_switch or folder.kill_switch
    require_no_kill_switch(switch)
    with hold_lock(folder, launcher_pid=os.getpid()):
        log_sizes = clear_attempt(folder)
        for name in (STOP_FILE, WANTED_FILE):
            (folder.path / name).unlink(missing_ok=True)
        overseer = Overseer(folder, replace(plan.oversight, is_watched=False, node=None), environment=plan.environment)
        number = open_attempt(folder, overseer.lines, why=plan.why, num_ranks=plan.num_ranks, config=plan.config)
        overseer.begin(number)
        start_unix, start_s = time.time(), time.monotonic()
        watched = Watched()
        state = Outcome.FAILED
        old = set((folder.path / "hosts").glob("*/*/findings.jsonl"))
        try:
            with stop_signals(watched), ProcessTree(grace_s=plan.grace_s) as tree:
                going = _start(plan, team, tree, number)
                try:
                    _follow(plan, team, going, watched, overseer, switch, old, on_progress, on_finding)
                finally:
                    for pipe in going.pipes.values():
                        os.close(pipe)
                left = tree.processes()
            outcome = outcome_of(
                summary=read_json(folder.summary),
                agent_exit_code=_agents_code(folder, going),
                has_ranks=bool(watched.ranks),
                stop_by=watched.stop_by,
                forced=watched.forced,
            )
            findings: list[Finding] = []
            death = None
            if outcome is Outcome.FAILED:
                findings, death = _judge(plan, team, going, log_sizes, number)
            for finding in findings:
                if key_of(finding) not in going.said:
                    overseer.report(finding)
            if outcome is Outcome.STOPPED and going.is_switched_off:
                overseer.report(kill_switch_finding(switch))
            lost = tuple(finding for finding in findings if named_host([finding]) is not None)
            if outcome is Outcome.STOPPED and watched.stop_at_s is None and going.leaving is not None:
                findings, lost = [going.leaving], (going.leaving,)
            for finding in lost:
                strike(folder.runs, finding, by=f"attempt {number} of {folder.name}/{folder.id}")
            seconds = time.monotonic() - start_s
            write_end(
                folder,
                overseer,
                outcome,
                findings,
                attempt=number,
                start_unix=start_unix,
                seconds=seconds,
                num_ended=len(left),
                why=why_ended(outcome, findings, watched.stop_by, is_switched_off=going.is_switched_off),
            )
            state = outcome
        finally:
            overseer.close(state=state.value)
    return LaunchResult(
        outcome=outcome,
        exit_code=exit_code_of_launch(outcome, watched.stop_by, is_switched_off=going.is_switched_off),
        attempt=number,
        seconds=seconds,
        findings=tuple(findings),
        death=death,
        num_ended=len(left),
        lost=lost,
    )


# -- starting ----------------------------------------------------------------------------------------------------------


def _start(plan: LaunchPlan, team: Team, tree: ProcessTree, attempt: int) -> _Going:
    going = _Going(children={}, pipes={})
    environment = agent_environment(plan.environment, is_restart=plan.is_restart)
    environment[KILL_SWITCH] = str(plan.folder.path / STOP_FILE)
    environment["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = str(int(plan.grace_s))
    for number, host in enumerate(team.hosts):
        words = host_command(plan, team, number, attempt)
        script = script_for(words, folder=Path.cwd(), environment={**environment, "EMBERWARD_HOST": host.name})
        reading, going.pipes[host.name] = os.pipe()
        with _host_log(plan.folder, host.name).open("wb") as log:
            going.children[host.name] = tree.start(
                team.launcher.command(host.name, script),
                environment=environment,
                stdin=reading,
                stdout=log.fileno(),
                stderr=log.fileno(),
            )
        os.close(reading)
    return going


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


# -- while it runs -----------------------------------------------------------------------------------------------------


def _follow(
    plan: LaunchPlan,
    team: Team,
    going: _Going,
    watched: Watched,
    overseer: Overseer,
    switch: Path,
    old: set[Path],
    on_progress: OnProgress,
    on_finding: OnFinding,
) -> None:
    """Waits until every host's supervisor has ended; asks for stops, and ends what does not end by itself."""
    save = newest_save(plan.folder)
    reader = ProgressReader(plan.folder, from_end=True, after_step=None if save is None else save[0])
    while len(going.codes) < len(going.children):
        for name, child in going.children.items():
            if name not in going.codes and (code := child.poll()) is not None:
                going.codes[name] = code
        for path in plan.folder.ranks.glob("rank*.json"):
            if (said := read_json(path)) is not None and isinstance(said.get("rank"), int):
                watched.ranks.setdefault(said["rank"], said)
        on_progress(*reader.poll(now_unix=time.time()))
        now_s = time.monotonic()
        news = overseer.poll(now_s=now_s, now_unix=time.time(), num_ranks=len(watched.ranks))
        for finding in [*news, *_found_on_hosts(plan.folder, going, old, overseer)]:
            on_finding(finding)
        if team.spares and watched.ranks and watched.stop_at_s is None and going.failed_at_s is None:
            _leave_slow_host(plan, team, going, overseer, now_s=now_s)
        _stop_or_end(plan, going, watched, switch, now_s=now_s)
        if len(going.codes) < len(going.children):
            time.sleep(POLL_S)
    on_progress(*reader.poll(now_unix=time.time()))
    _found_on_hosts(plan.folder, going, old, overseer)


def _found_on_hosts(folder: RunFolder, going: _Going, old: set[Path], overseer: Overseer) -> list[Finding]:
    """What the supervisors found since the last call, each once, written down here too."""
    new = []
    for path in sorted(set((folder.path / "hosts").glob("*/*/findings.jsonl")) - old):
        for line in going.tails.setdefault(path, LineTail(path)).poll():
            try:
                finding = Finding.from_json(line)
            except (KeyError, TypeError, ValueError):
                continue
            if finding.code in _OF_A_COMMAND:
                continue
            going.found.append(finding)
            if key_of(finding) not in going.said:
                going.said.add(key_of(finding))
                overseer.report(finding)
                new.append(finding)
    return new


def _leave_slow_host(plan: LaunchPlan, team: Team, going: _Going, overseer: Overseer, *, now_s: float) -> None:
    """Asks the ranks to save when a host has been slow for long enough. See `_left_out.py` [Note: a slow host]."""
    names = {host.name for host in team.hosts}
    for finding in going.found:
        if slow_host([finding]) is None or finding.hosts[0] not in names or finding.culprit_ranks in plan.known_slow:
            continue
        since_s = going.slow_s.setdefault(key_of(finding), now_s)
        limit_s = plan.replace_slow_s
        if going.leaving is None and limit_s is not None and now_s - since_s >= limit_s and _is_held(plan, finding):
            going.leaving = finding
            overseer.report(leaving_finding(finding, limit_s))
    if going.leaving is not None:
        with contextlib.suppress(OSError):
            (plan.folder.path / STOP_FILE).touch()


def _is_held(plan: LaunchPlan, finding: Finding) -> bool:
    """Whether a host's supervisor still holds what was found."""
    told = [read_json(path) or {} for path in (plan.folder.path / "hosts").glob("*/*/supervisor.json")]
    return any(said.get("state") == "runs" and finding.code in (said.get("holds") or ()) for said in told)


def leaving_finding(finding: Finding, seconds: float) -> Finding:
    """The notice that a spare takes the place of a slow host."""
    return replace(
        finding,
        code="L124",
        severity=Severity.NOTICE,
        message=f"a spare takes the place of {finding.hosts[0]}, slow for {seconds:.0f} s: {finding.message[:200]}",
        next=f"emberward doctor --hosts {finding.hosts[0]}; it takes no part in this launch any more",
    )


def _stop_or_end(plan: LaunchPlan, going: _Going, watched: Watched, switch: Path, *, now_s: float) -> None:
    """Asks the ranks to stop, or ends the supervisors that are left, when it is time."""
    with contextlib.suppress(OSError):
        going.is_switched_off |= switch.exists()
        if watched.stop_at_s is None and (plan.folder.path / WANTED_FILE).exists():
            watched.stop_at_s, watched.stop_by, going.is_signalled = now_s, StopBy.TERMINATE, True
    if going.is_switched_off and watched.stop_at_s is None:
        watched.stop_at_s = now_s
    if watched.stop_at_s is not None and watched.ranks:
        with contextlib.suppress(OSError):
            (plan.folder.path / STOP_FILE).touch()
    if going.failed_at_s is None and any(going.codes.values()):
        going.failed_at_s = now_s
    is_late = False
    if watched.stop_at_s is not None:
        is_late = watched.num_interrupts >= 2 or not watched.ranks or now_s - watched.stop_at_s > plan.grace_s
    left = set(going.children) - set(going.codes)
    if going.failed_at_s is not None and left:
        wait_s = OTHERS_LIMIT_S + plan.oversight.patience.act_after_s
        named = {finding.hosts[0] for finding in going.found if named_host([finding]) is not None}
        is_late |= now_s - going.failed_at_s > (0.0 if left <= named else wait_s)
    if not is_late:
        return
    if going.ended_at_s is None:
        going.ended_at_s = now_s
        watched.forced = watched.stop_at_s is not None
        for name in set(going.children) - set(going.codes):
            # The end of the pipe ends its supervisor, which ends the ranks.
            os.close(going.pipes.pop(name))
    named_only = {finding.hosts[0] for finding in going.found if named_host([finding]) is not None}
    for name in set(going.children) - set(going.codes):
        limit_s = 0.0 if name in named_only else plan.grace_s + END_MARGIN_S
        if now_s - going.ended_at_s > limit_s:
            # A host that is gone cannot end; what is left of it here is its launcher.
            going.codes[name] = -9


# -- judging -----------------------------------------------------------------------------------------------------------


def _agents_code(folder: RunFolder, going: _Going) -> int:
    """The first exit code of a host that is not 0. Of hosts that were signalled what their ranks say counts instead."""
    has_failed = next(folder.failures.glob("rank*.json"), None) is not None
    if going.is_signalled and not has_failed and -9 not in going.codes.values():
        return 0
    return next((code for code in going.codes.values() if code), 0)


def _judge(
    plan: LaunchPlan, team: Team, going: _Going, log_sizes: Mapping[int, int], attempt: int
) -> tuple[list[Finding], str | None]:
    """The findings of a failed attempt, the cause first, and the text about a death."""
    errors = _unique([each for each in going.found if each.severity is Severity.ERROR])
    named = [each for each in errors if each.code in NAMING]
    answers = ask_hosts(team.launcher, team.hosts, python=sys.executable, folder=Path.cwd())
    silent = [
        each for each in lost_hosts(team.hosts, answers) if each.hosts[0] not in {h for n in named for h in n.hosts}
    ]
    if named or silent:
        return [*silent, *named, *(each for each in errors if each not in named)], None
    ends = _rank_records(plan, team, log_sizes)
    first = first_death(ends)
    if errors:
        return errors, None
    if first is not None:
        culprit, certainty = first
        finding = death_finding(culprit, certainty, [end for end in ends if end.rank != culprit.rank])
        return [finding], death_text(ends, culprit, finding)
    codes = ", ".join(f"{name} {code}" for name, code in sorted(going.codes.items()))
    bad = next((name for name, code in going.codes.items() if code), team.hosts[0].name)
    tail = tail_text(_host_log(plan.folder, bad), num_lines=8)
    what = "the launch ended without a result" if ends and any(end.pid for end in ends) else "the ranks did not start"
    code = "L105" if what.startswith("the launch") else "L103"
    evidence = [f"exit codes of the hosts' supervisors: {codes}", *tail]
    return [launch_error(code, Kind.CRASH, Cause.UNKNOWN, what, evidence, f"read {_host_log(plan.folder, bad)}")], None


def _unique(findings: Sequence[Finding]) -> list[Finding]:
    return list({key_of(finding): finding for finding in findings}.values())


def _rank_records(plan: LaunchPlan, team: Team, log_sizes: Mapping[int, int]) -> list[RankRecord]:
    """What is known of each rank, from its own files and its host's agent."""
    folder = plan.folder
    codes: dict[int, tuple[int, int]] = {}
    for host in team.hosts:
        codes |= parse_agent_report(
            "\n".join(tail_text(_host_log(folder, host.name), num_lines=10_000, max_bytes=2**20))
        )
    ends = []
    for rank in range(plan.num_ranks):
        said = read_json(folder.rank_file(rank)) or {}
        code, pid = codes.get(rank, (None, said.get("pid")))
        log = folder.rank_log(rank)
        ends.append(
            RankRecord(
                rank=rank,
                pid=pid,
                host=said.get("host") or team.hosts[rank // team.ranks_per_host].name,
                coordinates=said.get("coordinates"),
                exit_code=code,
                failure=read_json(folder.failure_file(rank)),
                log=str(log),
                log_tail=tuple(tail_text(log, num_lines=LOG_TAIL_LINES, since_byte=log_sizes.get(rank, 0))),
            )
        )
    return ends
