"""Which processes are the ranks of a job, by what their environment says."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from emberward.checkpoint import SAVE_WRITER
from emberward.sources.live._process import PROC, descendants, environment_of, parents, read_process_facts

RANK_NAMES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")
"""Variables that give a process its rank, the first that is there counts: torchrun's, SLURM's, MPI's."""
SIZE_NAMES = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
MEETING_NAMES = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")
"""Variables that the ranks of one job have alike."""
RING_NAME = "EMBERWARD_RING"
_HELPER = re.compile(
    r"resource_tracker|forkserver|semaphore_tracker|torch/distributed/run|torchrun|pt_main_thread_none"
    rf"|{SAVE_WRITER}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRank:
    """One rank's process. `is_numbered` False: nothing gave it a rank, and it got the next number by its start."""

    rank: int
    pid: int
    is_numbered: bool
    ring_folder: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundJob:
    """The ranks below some processes. `world_size` is what their environment says."""

    ranks: tuple[FoundRank, ...]
    world_size: int | None
    gone: tuple[int, ...] = ()


def _is_python(pid: int, proc: Path) -> bool:
    try:
        name = (proc / str(pid) / "exe").readlink().name
    except OSError:
        name = Path((read_process_facts(pid, proc=proc).command or "").partition(" ")[0]).name
    return "python" in name or name.startswith("pt_main")


def _meeting(values: Mapping[str, str]) -> tuple[str, ...]:
    """Where ranks meet, in how many; empty where the environment does not say."""
    found = tuple(values[name] for name in MEETING_NAMES if values.get(name))
    return found if len(found) == len(MEETING_NAMES) else ()


def _number(values: Mapping[str, str], names: Sequence[str]) -> int | None:
    return next((int(values[name]) for name in names if values.get(name, "").isdecimal()), None)


def rank_in(environment: Mapping[str, str]) -> int | None:
    """The rank that a launcher gave this environment; None when there is none."""
    return _number(environment, RANK_NAMES)


def find_job(pids: Sequence[int], *, proc: Path = PROC) -> FoundJob:
    """The ranks that are, or are below, the given processes: a launcher's pid, or those of the ranks themselves.

    Of one rank alone its peers are found too: what its parent started that meets at the same place. A rank's children
    inherit its variables: the outermost Python process with a rank is the rank. The process that asks and those above
    it are none. Reads /proc only.
    """
    parent_of = parents(proc=proc)
    own = {os.getpid(), *_above(os.getpid(), parent_of)}
    names = (*RANK_NAMES, *SIZE_NAMES, *MEETING_NAMES, RING_NAME)
    gone = tuple(pid for pid in pids if pid not in parent_of)
    order = [p for pid in pids if pid in parent_of for p in (pid, *descendants(pid, parent_of))]
    order = list(dict.fromkeys(order))
    values = {pid: environment_of(pid, names, proc=proc) for pid in order}
    if len(pids) == 1 and pids[0] in values and rank_in(values[pids[0]]) is not None:
        beside = descendants(parent_of[pids[0]], parent_of)
        all_values = {pid: environment_of(pid, names, proc=proc) for pid in beside}
        meets = _meeting(values[pids[0]])
        values |= {pid: found for pid, found in all_values.items() if meets and _meeting(found) == meets}
        order = list(values)
    python = [pid for pid in order if pid not in own and _is_python(pid, proc)]
    ranks: dict[int, FoundRank] = {}
    size = None
    for pid in python:
        rank = rank_in(values[pid])
        if rank is None or any(found.pid in _above(pid, parent_of) for found in ranks.values()):
            continue
        if rank not in ranks:
            ranks[rank] = _found(rank, pid, values[pid], is_numbered=True)
            size = size or _number(values[pid], SIZE_NAMES)
    if not ranks:
        ranks = _by_start(python, pids, parent_of, values, proc)
    return FoundJob(ranks=tuple(ranks[rank] for rank in sorted(ranks)), world_size=size, gone=gone)


def _found(rank: int, pid: int, values: Mapping[str, str], *, is_numbered: bool) -> FoundRank:
    folder = values.get(RING_NAME)
    return FoundRank(rank=rank, pid=pid, is_numbered=is_numbered, ring_folder=None if not folder else Path(folder))


def _above(pid: int, parent_of: Mapping[int, int]) -> set[int]:
    found: set[int] = set()
    while pid in parent_of and parent_of[pid] not in found and len(found) < 64:
        pid = parent_of[pid]
        found.add(pid)
    return found


def _by_start(
    python: Sequence[int],
    asked: Sequence[int],
    parent_of: Mapping[int, int],
    values: Mapping[int, Mapping[str, str]],
    proc: Path,
) -> dict[int, FoundRank]:
    """Processes without a rank in their environment: one parent's children that do the same, or those asked for."""
    kept = [p for p in python if not _HELPER.search(read_process_facts(p, proc=proc).command or "")]
    if len(asked) == 1:
        children = [p for p in kept if parent_of.get(p) == asked[0]]
        kept = children or kept[:1]
    else:
        kept = [p for p in kept if p in asked]
    started = sorted(kept, key=lambda p: (read_process_facts(p, proc=proc).start_ticks or 0, p))
    return {n: _found(n, pid, values[pid], is_numbered=False) for n, pid in enumerate(started)}
