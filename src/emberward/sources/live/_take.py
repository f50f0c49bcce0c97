"""Takes a snapshot: reads rings, /proc and stacks. Everything behind a snapshot is pure."""

import socket
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from emberward.checkpoint import SAVE_WRITER
from emberward.diagnose.live import ProcessFacts, ProcessState, RankSnapshot, RingFacts, Snapshot
from emberward.sources.dumps import crash_frames, num_moves, ring_facts
from emberward.sources.live._find import FoundJob, find_job
from emberward.sources.live._process import (
    descendants,
    environment_of,
    parents,
    read_process_facts,
    settled_switches,
)
from emberward.sources.live._spy import SpyResult, find_spy, spy_all
from emberward.sources.ring import RingView, crash_file, find_rings, read_ring

_JOB_NAMES = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_STEP_ID")
"""What the ranks of one job have in common in their environments."""
MAX_SPIED_CHILDREN = 8
"""Most children of a rank whose stacks are taken."""


def newest_rings(folder: Path, *, num_events: int | None = None) -> dict[int, RingView]:
    """The ring of each rank in a folder; of a rank that was started again, that of its newest process."""
    found: dict[int, RingView] = {}
    for path in find_rings(folder):
        view = read_ring(path, num_events=num_events)
        if not view.is_readable or view.rank is None or view.pid is None:
            continue
        other = found.get(view.rank)
        if other is None or (view.began_ns or 0) >= (other.began_ns or 0):
            found[view.rank] = view
    return dict(sorted(found.items()))


def facts_of(view: RingView) -> ProcessFacts:
    """The process that wrote a ring, as it is now; GONE when another one has its number."""
    assert view.pid is not None, "only rings with a process are looked at"
    facts = read_process_facts(view.pid)
    if view.start_ticks is not None and facts.start_ticks is not None and facts.start_ticks != view.start_ticks:
        return ProcessFacts(pid=view.pid, state=ProcessState.GONE)
    return facts


def snapshot_of_rings(views: Mapping[int, RingView], *, with_stacks: bool = True) -> Snapshot:
    """A snapshot at the ranks that wrote these rings, on this host. Holds each process for some milliseconds."""
    processes = {rank: facts_of(view) for rank, view in views.items()}
    sizes = [view.world_size for view in views.values() if view.world_size is not None]
    if processes and len(processes) < max(sizes, default=0):
        processes |= siblings(processes, max(sizes))
    return _snapshot(processes, dict(views), world_size=max(sizes, default=None), with_stacks=with_stacks)


def siblings(processes: Mapping[int, ProcessFacts], world_size: int) -> dict[int, ProcessFacts]:
    """Processes of this host that are ranks of the same launcher and have not begun to record: they may never come."""
    launchers = sorted({p.parent_pid for p in processes.values() if p.is_alive and p.parent_pid not in (None, 0, 1)})
    if not launchers:
        return {}
    job = find_job([pid for pid in launchers if pid is not None])
    known = {facts.pid for facts in processes.values()}
    jobs = [environment_of(pid, _JOB_NAMES) for pid in known]
    return {
        found.rank: read_process_facts(found.pid)
        for found in job.ranks
        if found.is_numbered
        and found.rank not in processes
        and found.pid not in known
        and found.rank < world_size
        # A shell may have started two jobs.
        and environment_of(found.pid, _JOB_NAMES) in jobs
    }


def snapshot_of_job(job: FoundJob, *, with_stacks: bool = True) -> Snapshot:
    """A snapshot at the ranks of a job that was found by its processes, with their rings where there are any."""
    views: dict[int, RingView] = {}
    for folder in {found.ring_folder for found in job.ranks if found.ring_folder is not None}:
        rings = newest_rings(folder)
        views |= {found.rank: rings[found.rank] for found in job.ranks if _is_its(rings.get(found.rank), found.pid)}
    processes = {found.rank: read_process_facts(found.pid) for found in job.ranks}
    return _snapshot(processes, views, world_size=job.world_size, with_stacks=with_stacks)


def _is_its(view: RingView | None, pid: int) -> bool:
    return view is not None and view.pid == pid


def _snapshot(
    processes: Mapping[int, ProcessFacts],
    views: Mapping[int, RingView],
    *,
    world_size: int | None,
    with_stacks: bool,
) -> Snapshot:
    taken_s, taken_unix = time.monotonic(), time.time()
    host = socket.gethostname()
    parent_of = parents()
    pids = [facts.pid for facts in processes.values()]
    children = {
        rank: tuple(
            read_process_facts(child)
            for child in descendants(facts.pid, parent_of, stop=[pid for pid in pids if pid != facts.pid])
        )
        for rank, facts in processes.items()
        if facts.is_alive
    }
    spied: dict[int, SpyResult] = {}
    if with_stacks:
        targets: dict[int, bool] = {}
        for rank, facts in processes.items():
            # The writer of saves is known: its stack can say nothing of why its rank stands.
            shown = [
                child
                for child in children.get(rank, ())
                if "python" in (child.command or "") and SAVE_WRITER not in (child.command or "")
            ][:MAX_SPIED_CHILDREN]
            for process in (facts, *shown):
                if process.is_alive:
                    targets[process.pid] = process.state is ProcessState.STOPPED
        spied = spy_all(targets, spy_path=find_spy())
    after = {rank: settled_switches(facts.pid) for rank, facts in processes.items() if facts.is_alive}
    again = _moved_meanwhile(views) if with_stacks else {}
    ranks = {}
    for rank, facts in processes.items():
        own = [facts.pid, *(child.pid for child in children.get(rank, ()))]
        results = [spied[pid] for pid in own if pid in spied]
        told = results if rank not in again else [result for result in results if result.pid != facts.pid]
        view = again.get(rank, views.get(rank))
        ranks[rank] = RankSnapshot(
            rank=rank,
            host=host if view is None or view.host is None else view.host,
            process=facts,
            children=children.get(rank, ()),
            stacks=tuple(result.stacks for result in told if result.stacks is not None),
            ring=None if view is None else _facts_of(view, facts),
            has_moved=rank in again,
            switches_after=after.get(rank, {}),
            problems=tuple(
                f"no stack of process {r.pid}: {r.problem}" for r in results if r.stacks is None and r.pid == facts.pid
            ),
        )
    return Snapshot(taken_s=taken_s, taken_unix=taken_unix, ranks=ranks, world_size=world_size)


def _moved_meanwhile(views: Mapping[int, RingView]) -> dict[int, RingView]:
    """The rings of ranks whose calls began or ended since `views` were read, read again.

    The stacks of 8 ranks take a second on a busy machine: the first to be read may wait in a call by then which its
    ring did not hold.
    """
    found = {}
    for rank, view in views.items():
        now = read_ring(view.path, num_events=0)
        if now.pid == view.pid and num_moves(now) != num_moves(view):
            found[rank] = read_ring(view.path)
    return found


def _facts_of(view: RingView, process: ProcessFacts) -> RingFacts:
    """The ring's facts; of a process that is gone, where it crashed too."""
    facts = ring_facts(view)
    return facts if process.is_alive else replace(facts, crashed=crash_frames(crash_file(view.path)))
