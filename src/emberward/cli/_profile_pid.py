"""``emberward profile --pid``: a job that runs already, from outside."""

import math
import statistics
import time
from collections.abc import Mapping
from pathlib import Path

from emberward.cli._console import Screen
from emberward.findings import ConfigError, Finding
from emberward.lens import (
    RankCalls,
    RankSamples,
    Sources,
    line_shares,
    missing_part,
    outside_samples,
    page_text,
    profile_of,
)
from emberward.sources.live import FoundJob, find_job, newest_rings, owner_of_line, record_stacks
from emberward.sources.ring import MarkKind, RingView

UNTOLD_S = 10
"""How long a job without the recorder is sampled: nothing tells its steps."""
MAX_S = 600
SHOWN_LINES = 8


def profile_pid(pid: int, num_steps: int, screen: Screen) -> int:
    """Profiles the ranks at and below a process while they run; 0. Blocks for about `num_steps` of their steps.

    Raises ConfigError C113 for a process that is not there.
    """
    job = find_job([pid])
    if not job.ranks:
        raise ConfigError(
            "no such process",
            code="C113",
            where=f"profile --pid {pid}",
            expected="the number of a Python process that runs on this host: the launcher's, or a rank's",
            found=f"nothing of the kind runs as {pid}",
            next="pgrep -af train.py",
        )
    step_s = [_step_s(view) for view in _rings(job).values()]
    known = [each for each in step_s if each is not None]
    seconds = min(math.ceil(num_steps * max(known)), MAX_S) if known else UNTOLD_S
    screen.say(f"sampling {len(job.ranks)} process{'es' if len(job.ranks) > 1 else ''} for {max(seconds, 1)} s")
    began_s = time.monotonic()
    stacks = record_stacks(job.ranks, max(seconds, 1))
    ended_s = time.monotonic()
    views, sources = _rings(job), Sources()
    samples: list[RankSamples] = []
    problems: list[Finding] = []
    lines: dict[str, dict[str, float]] = {}
    for rank in job.ranks:
        seen = stacks[rank.rank]
        if isinstance(seen, str):
            problems.append(missing_part(f"no stacks of process {rank.pid}: {seen}", ranks=(rank.rank,)))
            continue
        steps = _steps(views.get(rank.rank), began_s, ended_s)
        if len(steps) < 2:
            why = "its steps cannot be told from outside, for the recorder is not in it or it ended none"
            problems.append(missing_part(f"process {rank.pid} has shares of its time alone: {why}", ranks=(rank.rank,)))
        else:
            samples.append(
                outside_samples(
                    seen,
                    rank=rank.rank,
                    pid=rank.pid,
                    world_size=job.world_size,
                    first_step=min(steps) + 1,
                    bounds_s=[steps[each] for each in sorted(steps)],
                    owner=owner_of_line,
                    sources=sources,
                )
            )
        shares = line_shares(seen, owner_of_line)
        lines[str(rank.rank)] = dict(shares)
        for site, share in shares[:SHOWN_LINES]:
            screen.say(f"  rank {rank.rank}  {100 * share:5.1f}%  {site}")
    calls = [RankCalls(rank=rank, events=view.events, sequences=view.sequences) for rank, view in views.items()]
    findings = tuple(problems)
    document = None
    if samples:
        profile = profile_of(samples, sources, asked_warmup=0, calls=calls, others=problems)
        screen.say(page_text(profile))
        findings, document = profile.findings, profile.to_json()
    else:
        for finding in problems:
            screen.say(f"{finding.severity.value} {finding.code}  {finding.message}")
    screen.document(findings, profile=document, lines=lines)
    return 0


def _rings(job: FoundJob) -> Mapping[int, RingView]:
    folders: set[Path] = {found.ring_folder for found in job.ranks if found.ring_folder is not None}
    rings = [newest_rings(folder) for folder in folders if folder.is_dir()]
    pids = {rank.rank: rank.pid for rank in job.ranks}
    return {rank: view for each in rings for rank, view in each.items() if pids.get(rank) == view.pid}


def _step_s(view: RingView) -> float | None:
    """The usual length of a step that the ring keeps; None where it keeps none."""
    ends = [mark.ended_ns for mark in view.marks if mark.kind is MarkKind.STEP and mark.ended_ns is not None]
    lengths = [(b - a) / 1e9 for a, b in zip(sorted(ends), sorted(ends)[1:], strict=False)]
    return statistics.median(lengths) if lengths else None


def _steps(view: RingView | None, began_s: float, ended_s: float) -> dict[int, float]:
    """When each step of the ring ended that did so between two moments of the host's clock."""
    marks = [] if view is None else [mark for mark in view.marks if mark.kind is MarkKind.STEP]
    ends = {mark.step: mark.ended_ns / 1e9 for mark in marks if mark.step is not None and mark.ended_ns is not None}
    return {step: at_s for step, at_s in ends.items() if began_s <= at_s <= ended_s}
