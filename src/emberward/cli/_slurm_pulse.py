"""``emberward slurm status|pulse``: what SLURM and the run say of a chain, and lost nodes left out of it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from emberward.cli._console import Screen
from emberward.findings import ConfigError, Finding, exit_code_of
from emberward.processes import ProcessTree
from emberward.report import read_json, read_lines, write_json
from emberward.runs import left_out, strike
from emberward.slurm import (
    Chain,
    Job,
    Memory,
    Pulse,
    RunFacts,
    Slurm,
    State,
    chain_of,
    lost_nodes,
    node_names,
    read_boots,
    read_facts,
    read_nodes,
    read_queue,
    take_pulse,
)
from emberward.supervise import Notifier, absolute

POLL_S = 30.0
"""Between two questions to SLURM's controller, which asks not to be polled in a tight loop. squeue(1), PERFORMANCE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PulseOptions:
    """What the person asked for."""

    name: str | None
    runs: Path
    every_s: float
    is_once: bool
    leaves_out: bool
    to: Path | None
    notify: tuple[str, ...]


def chains_in(runs: Path, name: str | None) -> list[Chain]:
    """The chains that were submitted under `runs`; one of a name that is given."""
    places = sorted(path.parent.parent for path in absolute(runs).glob("*/slurm/jobs.jsonl"))
    return [chain_of(place) for place in places if name is None or place.name == name]


def require_chains(runs: Path, name: str | None) -> list[Chain]:
    """As `chains_in`. Raises ConfigError C107 when there are none."""
    found = chains_in(runs, name)
    if not found:
        names = [chain.name for chain in chains_in(runs, None)]
        raise ConfigError(
            "no job was submitted for these runs",
            code="C107",
            where=str(absolute(runs) / (name or "*")),
            expected=" or ".join(names) or "a chain that emberward slurm submit made",
            found="none",
            next="emberward slurm submit RECIPE --nodes 2 --time 20:00:00",
        )
    return found


def show_status(runs: Path, name: str | None, slurm: Slurm, screen: Screen, *, now_unix: float) -> int:
    """Shows each chain's jobs and run; 0, as limbo is a warning. Changes nothing."""
    findings: list[Finding] = []
    documents = []
    for chain in require_chains(runs, name):
        jobs, facts = read_queue(slurm, chain.jobs), read_facts(chain.place)
        memory = Memory.from_json(read_json(chain.memory))
        pulse = take_pulse(chain.name, jobs, facts, memory, now_unix=now_unix, every_s=0.0)
        findings += pulse.findings
        screen.say(pulse.line)
        out = left_out(chain.place.parent)
        for host, struck in out.items():
            screen.say(f"  left out {host}: {struck.why}")
        for finding in pulse.findings:
            screen.say(f"  {finding.code} {finding.message}\n  next {finding.next}")
        documents.append(_document(chain, jobs, facts, pulse, sorted(out)))
    screen.document(findings, chains=documents)
    return exit_code_of(findings)


def _document(chain: Chain, jobs: Sequence[Job], facts: RunFacts, pulse: Pulse, out: list[str]) -> dict[str, Any]:
    return {
        "name": chain.name,
        "line": pulse.line,
        "is_over": pulse.is_over,
        "left_out": out,
        "run": {
            "id": facts.id,
            "step": facts.step,
            "steps": facts.steps,
            "phase": facts.phase,
            "outcome": facts.outcome,
        },
        "jobs": [
            {
                "id": job.id,
                "number": job.number,
                "state": job.word,
                "partition": job.partition,
                "nodes": job.nodes,
                "start": job.start,
                "used_s": job.used_s,
                "reason": job.reason,
            }
            for job in jobs
        ],
    }


def follow(options: PulseOptions, slurm: Slurm, screen: Screen) -> int:
    """Says the PULSE lines until no job is left, or once; the exit code. Blocks."""
    require_chains(options.runs, options.name)
    said: list[Finding] = []
    lines: list[str] = []
    with ProcessTree() as tree:
        notifiers = [Notifier(target, tree=tree) for target in options.notify]
        while True:
            chains = require_chains(options.runs, options.name)
            beats = [_beat(chain, options, slurm) for chain in chains]
            for chain, beat in zip(chains, beats, strict=True):
                if beat.is_new or options.is_once:
                    line = f"[{datetime.now().astimezone():%Y-%m-%d %H:%M:%S}] PULSE: {beat.line}"
                    _say(line, beat.findings, chain, options, notifiers, screen)
                    lines.append(line)
                said += [finding for finding in beat.findings if finding not in said]
            if options.is_once or all(beat.is_over for beat in beats):
                break
            time.sleep(min(POLL_S, options.every_s))
        for notifier in notifiers:
            notifier.close()
        failures = [failure for notifier in notifiers for failure in notifier.failures]
    for failure in failures:
        screen.complain(f"notification failed: {failure}")
    screen.document(said, lines=lines, notification_failures=failures)
    return 0


def _say(
    line: str,
    findings: Sequence[Finding],
    chain: Chain,
    options: PulseOptions,
    notifiers: Sequence[Notifier],
    screen: Screen,
) -> None:
    screen.say(line)
    path = options.to or chain.pulse
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
    except OSError as error:
        # Who reads the screen or is notified still learns of it.
        screen.complain(f"{path} cannot be written: {error.strerror}")
    for notifier in notifiers:
        notifier.send({"schema": 1, "text": line, "findings": [finding.to_json() for finding in findings]})


def _beat(chain: Chain, options: PulseOptions, slurm: Slurm) -> Pulse:
    """One look at a chain, written down. A controller that is away for a while is a line; with --once it is raised."""
    memory = Memory.from_json(read_json(chain.memory))
    now_unix = time.time()
    try:
        jobs = read_queue(slurm, chain.jobs)
        lost, boots = _lost(chain, jobs, memory, slurm) if options.leaves_out else ((), memory.boots)
    except ConfigError as error:
        if options.is_once or error.code not in ("L120", "L121"):
            raise
        return _away(chain, memory, error, now_unix=now_unix, every_s=options.every_s)
    pulse = take_pulse(chain.name, jobs, read_facts(chain.place), memory, now_unix=now_unix, every_s=options.every_s)
    if lost:
        names = ", ".join(finding.hosts[0] for finding in lost)
        line = f"{pulse.line}; left out: {names}"
        pulse = replace(pulse, line=line, findings=(*lost, *pulse.findings), is_new=True)
    write_json(chain.memory, replace(pulse.memory, boots=boots).to_json())
    return pulse


def _away(chain: Chain, memory: Memory, error: ConfigError, *, now_unix: float, every_s: float) -> Pulse:
    key = f"away {error.code}"
    is_due = memory.line_unix is None or now_unix - memory.line_unix >= every_s
    is_new = memory.key != key or is_due
    kept = replace(memory, key=key, line_unix=now_unix if is_new else memory.line_unix)
    write_json(chain.memory, kept.to_json())
    line = f"{chain.name}: {error.what}: {error.found}"
    return Pulse(line=line, findings=(error.to_finding(),), memory=kept, is_new=is_new, is_over=False)


def _lost(
    chain: Chain, jobs: Sequence[Job], memory: Memory, slurm: Slurm
) -> tuple[tuple[Finding, ...], dict[str, str]]:
    """The nodes that went down under the job that ran last, newly left out; and the boot times of those that run now.

    Writes the finding of each into the ledger and takes them out of the jobs that wait.
    """
    before = dict(memory.boots)
    now = {
        node
        for job in jobs
        if job.state is State.RUNS and job.nodes is not None
        for node in node_names(slurm, job.nodes)
    }
    boots = read_boots(slurm, sorted({*before, *now}))
    nodes = read_nodes(slurm, sorted(before))
    runs = chain.place.parent
    out = left_out(runs)
    lost = [finding for finding in lost_nodes(before, nodes, boots) if finding.hosts[0] not in out]
    excluded = sorted({*out, *(finding.hosts[0] for finding in lost)})
    if lost:
        by_person = {
            str(host)
            for line in read_lines(chain.folder / "jobs.jsonl")
            if line.get("job") in chain.jobs
            for host in line.get("excluded") or ()
        }
        for job in jobs:
            if job.state is State.WAITS:
                _exclude(slurm, job, sorted({*excluded, *by_person}))
    # The ledger last: a node that is in it is not excluded again, and SLURM's controller may go away in between.
    for finding in lost:
        strike(runs, finding, by=f"the pulse of {chain.name}")
    kept = now or {host for host in before if host not in excluded}
    return tuple(lost), {node: boots.get(node, before.get(node, "unknown")) for node in sorted(kept)}


def _exclude(slurm: Slurm, job: Job, hosts: Sequence[str]) -> None:
    """Takes the hosts out of a job that waits. One that begins meanwhile keeps the nodes that SLURM gave it."""
    id = job.id.partition("%")[0] + ("]" if "%" in job.id else "")
    try:
        slurm.ask("scontrol", "update", f"JobId={id}", f"ExcNodeList={','.join(hosts)}")
    except ConfigError as error:
        if error.code != "L121":
            raise
