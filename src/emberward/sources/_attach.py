"""Starts the live recorder in this process. Loaded by the start-up file of `attach` when a rank initialises torch."""

import faulthandler
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import torch.distributed as dist

from emberward.sources._facts import facts_here
from emberward.sources._heartbeat import Heart
from emberward.sources._live import CURRENT, LiveRecorder
from emberward.sources._marks import forget_exit, loaded, mark_everything
from emberward.sources._wrap import wrap_everything
from emberward.sources.ring import MarkKind, RingWriter, crash_file, identity_here, ring_name

__all__ = ["attach", "detach", "identify_now", "loaded"]

RANK_NAMES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
WORLD_NAMES = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
LOCAL_NAMES = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
"""What torchrun, srun, Open MPI and MPICH tell a rank."""
MAX_RINGS_OF_A_PROCESS = 100

_WRAPPED: list[int] = []
"""The process in which the wrappers were put on; a forked child inherits them."""

_CRASHES: list[IO[bytes]] = []
"""Open as long as the process lives: Python writes into it while it crashes."""

Around = Callable[[Callable[..., Any], Sequence[Any], Mapping[str, Any]], Any]


def attach(folder: str, environment: Mapping[str, str], args: Sequence[Any], named: Mapping[str, Any]) -> Around:
    """What is to call ``init_process_group(*args, **named)`` for the program, with this process's recorder on.

    Raises what opening a ring raises; the program goes on without a recorder then.
    """
    if CURRENT.live is None:
        rank = _given(named, "rank", args, 4)
        size = _given(named, "world_size", args, 3)
        identity = identity_here(
            rank=_number(environment, RANK_NAMES) if rank is None else rank,
            world_size=_number(environment, WORLD_NAMES) if size is None else size,
            local_rank=_number(environment, LOCAL_NAMES),
        )
        live = LiveRecorder(RingWriter(_free_path(Path(folder), identity.rank), identity))
        if not _WRAPPED:
            _WRAPPED.append(os.getpid())
            wrap_everything(live)
            mark_everything()
        CURRENT.live = live
        live.writer.beat()
        _note_crashes(live)
        heart = Heart(live)
        live.heart = heart
        heart.start()
    return _around


def _note_crashes(live: LiveRecorder) -> None:
    """Has Python write where it was when a signal of a crash ends it; how it ends stays as it was.

    Not where the program has said already that it wants this elsewhere; what it says later counts.
    """
    try:
        if not faulthandler.is_enabled() and not _CRASHES:
            file = crash_file(live.writer.path).open("wb", buffering=0)
            _CRASHES.append(file)
            faulthandler.enable(file)
    except (OSError, ValueError, RuntimeError) as error:
        live.problem("crashes not noted", error)


def _around(original: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    live = CURRENT.live
    if live is None:
        return original(*args, **named)
    forget_exit()
    number = live.writer.begin(MarkKind.SETUP, "init_process_group", site=live.sites.here())
    try:
        return original(*args, **named)
    finally:
        live.writer.end(number)
        _identify(live)


def _identify(live: LiveRecorder) -> None:
    """Tells the ring what the process knows now: torch's word on rank and size is better than the environment's."""
    try:
        if dist.is_initialized():
            identity = replace(live.writer.identity, rank=dist.get_rank(), world_size=dist.get_world_size())
            live.writer.identify(identity, transport=dist.get_backend())
            for name, value in facts_here():
                live.writer.fact(name, value)
    except Exception as error:  # noqa: BLE001 (what init_process_group returned or raised is what counts)
        live.problem("rank not known", error)


def identify_now() -> None:
    """Tells the ring of this process its rank, where the process group was there before the recorder."""
    if CURRENT.live is not None:
        _identify(CURRENT.live)


def detach() -> None:
    """Ends the recording of this process: its wrappers pass every call on and note nothing."""
    live, CURRENT.live = CURRENT.live, None
    if live is not None and live.heart is not None:
        live.heart.stop()


def _given(named: Mapping[str, Any], name: str, args: Sequence[Any], position: int) -> int | None:
    value = named.get(name, args[position] if len(args) > position else None)
    return value if isinstance(value, int) and value >= 0 else None


def _number(environment: Mapping[str, str], names: Sequence[str]) -> int | None:
    for name in names:
        text = environment.get(name, "")
        if text.isdecimal():
            return int(text)
    return None


def _free_path(folder: Path, rank: int | None) -> Path:
    """A path in `folder` that no ring has: a pid may come again."""
    name = ring_name(rank=rank, pid=os.getpid())
    for index in range(MAX_RINGS_OF_A_PROCESS):
        path = folder / (name if index == 0 else name.replace(".ring", f".{index}.ring"))
        if not path.exists():
            return path
    raise OSError(f"{folder} has {MAX_RINGS_OF_A_PROCESS} rings of process {os.getpid()}")
