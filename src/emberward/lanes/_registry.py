"""The lanes of this process: made once a name, at most sixteen on a device; closed at exit, anew in a forked child."""

import atexit
import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from emberward.lanes._errors import other_settings, too_many
from emberward.lanes._lane import CLOSE_TIMEOUT_S, DEFAULT_DEPTH, Lane, WhenFull
from emberward.lanes._streams import Streams, cuda_door

MAX_LANES = 16
"""Lanes on one device: OneFlow's bound for its threads (core/framework/instructions_builder.cpp). CUDA has 32 pooled
streams a priority, and the 33rd is the first again (torch 2.13, c10/cuda/CUDAStream.cpp)."""
DROP_TIMEOUT_S = 1.0


_LOG = logging.getLogger("emberward.lanes")


class _Lanes:
    """What stands open, by device and name."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.open: dict[tuple[str, str], Lane] = {}


_ALL = _Lanes()


def lane(
    name: str,
    *,
    device: torch.device | str = "cpu",
    depth: int = DEFAULT_DEPTH,
    when_full: WhenFull = WhenFull.WAIT,
    group_ranks: Sequence[int] | None = None,
    finishes_at_exit: bool = True,
) -> Lane:
    """The lane of `device` that has this name; made at the first call, the same one at each later one.

    `depth`: tasks that may be not done; `when_full` says whether `submit` then waits or raises W102. `group_ranks`:
    the lane has a communicator of its own among these ranks, `lane.group`; then every rank of the world must make its
    lanes in one order, and the first call communicates. `finishes_at_exit`: what waits when the program ends is done
    first, for at most 10 s; else it is dropped. Raises W101 for a 17th lane on the device, W106 when the name stands
    for other settings. Does not block else.
    """
    where = torch.device(device)
    if where.type == "cuda" and where.index is None:
        where = torch.device("cuda", torch.cuda.current_device())
    with _ALL.lock:
        found = _ALL.open.get((str(where), name))
        if found is None:
            taken = [each.name for each in _ALL.open.values() if each.device == where]
            if len(taken) >= MAX_LANES:
                raise too_many(str(where), MAX_LANES, taken)
            found = Lane(
                name,
                device=where,
                depth=depth,
                when_full=when_full,
                finishes_at_exit=finishes_at_exit,
                streams=Streams(cuda_door(where)) if where.type == "cuda" else None,
                group=_own_group(name, group_ranks),
                on_close=_forget,
            )
            _ALL.open[str(where), name] = found
    asked = _settings(depth, when_full, finishes_at_exit, None if group_ranks is None else tuple(group_ranks))
    has = _settings(found.depth, found.when_full, found.finishes_at_exit, _ranks_of(found.group))
    if asked != has:
        raise other_settings(name, asked, has)
    return found


def open_lanes() -> tuple[Lane, ...]:
    """The lanes of this process that are not closed."""
    with _ALL.lock:
        return tuple(_ALL.open.values())


def close_all(timeout_s: float = CLOSE_TIMEOUT_S) -> bool:
    """Whether every lane's thread has ended, after what was given was done; at most `timeout_s` in all. Blocks."""
    end_s = time.monotonic() + timeout_s
    found = [each.close(max(0.0, end_s - time.monotonic())) for each in open_lanes()]
    return all(found)


def _forget(which: Lane) -> None:
    """The name is free again."""
    with _ALL.lock:
        if _ALL.open.get((str(which.device), which.name)) is which:
            del _ALL.open[str(which.device), which.name]


def _own_group(name: str, ranks: Sequence[int] | None) -> Any:
    return None if ranks is None else dist.new_group(list(ranks), group_desc=f"lane {name}")


def _ranks_of(group: Any) -> tuple[int, ...] | None:
    return None if group is None else tuple(dist.get_process_group_ranks(group))


def _settings(depth: int, when_full: WhenFull, finishes_at_exit: bool, ranks: tuple[int, ...] | None) -> str:
    own = "none of its own" if ranks is None else f"of ranks {list(ranks)}"
    end = "finishes" if finishes_at_exit else "drops what waits"
    return f"depth {depth}, when full {when_full.value}, communicator {own}, at exit {end}"


@atexit.register
def _at_exit() -> None:
    """Daemon threads would be cut off in the middle of a task. An error that nobody took goes to the program's log."""
    end_s = time.monotonic() + CLOSE_TIMEOUT_S
    for each in sorted(open_lanes(), key=lambda one: one.finishes_at_exit):
        left_s = max(0.0, end_s - time.monotonic())
        limit_s = left_s if each.finishes_at_exit else min(left_s, DROP_TIMEOUT_S)
        has_ended = each.end(limit_s, is_dropping=not each.finishes_at_exit)
        error = each._unclaimed
        if error is None and not has_ended and each.finishes_at_exit:
            error = TimeoutError(f"lane {each.name} did not finish within {CLOSE_TIMEOUT_S:g} s of the program's end")
        if error is not None:
            _LOG.error("Nobody took the error of a task of lane %s", each.name, exc_info=error)


def _after_fork() -> None:
    _ALL.lock = threading.RLock()
    for each in _ALL.open.values():
        each.forked()


os.register_at_fork(after_in_child=_after_fork)
