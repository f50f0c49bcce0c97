"""What stands in for functions of torch and Python in an examined rank. Needs torch.

A stand-in keeps the whole signature of what it replaces, and calls that one; what it calls raises as always
(`pass_on`). An error in the stand-in itself is ours and never the script's.
"""

import functools
import os
import sqlite3
import time
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

import safetensors
import safetensors.numpy
import safetensors.torch
import torch
import torch.distributed as dist
import torch.distributed.rpc
from torch._C._distributed_c10d import FileStore
from torch.distributed import distributed_c10d
from torch.optim.optimizer import register_optimizer_step_post_hook

from emberward.sources._tape import Tape, Transport
from emberward.sources.script._file_layer import FileLayer
from emberward.sources.script._group import BACKEND, LockStepGroup, register_backend
from emberward.sources.script._guard import RefusedError
from emberward.sources.script._job import ScriptFolder, ScriptJob


class StepsDone(BaseException):
    """Ends a rank after its last optimizer step that is examined."""


class Examinee(Protocol):
    """The rank as a stand-in sees it."""

    folder: ScriptFolder
    job: ScriptJob
    rank: int
    tape: Tape

    def slept(self) -> None:
        """Counts a sleep that was skipped."""

    def stepped(self) -> None:
        """Counts an optimizer step."""


def pass_on(original: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Calls what was replaced: what it raises is the script's."""
    return original(*args, **named)


def raise_as_torch(error: Exception) -> NoReturn:
    """Raises what torch itself raises for such a call: the script's error."""
    raise error


def stand_in(examinee: Examinee) -> None:
    """Replaces what an examined rank must not really do."""
    register_backend()
    dist.init_process_group = distributed_c10d.init_process_group = _init(distributed_c10d.init_process_group, examinee)
    distributed_c10d._new_group_with_tag = _new_group(distributed_c10d._new_group_with_tag)
    torch.autograd.backward = _backward(torch.autograd.backward)
    time.sleep = _no_sleep(time.sleep, examinee)  # type: ignore[assignment]
    for module, name in ((dist, "shrink_group"), (dist, "split_group"), (torch.distributed.rpc, "init_rpc")):
        if hasattr(module, name):
            setattr(module, name, not_examined(getattr(module, name), name))
    register_optimizer_step_post_hook(lambda optimizer, args, named: examinee.stepped())


def stand_in_for_native_files(layer: FileLayer) -> None:
    """Redirects functions that open a named file without Python: torch's own, safetensors', sqlite3's."""
    torch.save = _with_file(torch.save, layer.to_write, position=1, name="f")
    torch.load = _with_file(torch.load, layer.to_read, position=0, name="f")
    sqlite3.connect = _with_file(sqlite3.connect, layer.to_write, position=0, name="database")
    for module in (safetensors, safetensors.torch, safetensors.numpy):
        for function, find, position in (("safe_open", layer.to_read, 0), ("serialize_file", layer.to_write, 1)):
            if hasattr(module, function):
                setattr(
                    module, function, _with_file(getattr(module, function), find, position=position, name="filename")
                )


def _with_file(
    original: Callable[..., Any], find: Callable[[Any], str], *, position: int, name: str
) -> Callable[..., Any]:
    """`original` with the file that `find` gives for the path at `position`, or given by `name`."""

    @functools.wraps(original)
    def redirected(*args: Any, **named: Any) -> Any:
        values = list(args)
        place: Any = values if len(values) > position else named
        key: Any = position if len(values) > position else name
        value = place[key] if place is values else named.get(name)
        if isinstance(value, str | bytes | os.PathLike) and os.fspath(value) not in ("", b"", ":memory:"):
            place[key] = find(value)
        return pass_on(original, tuple(values), named)

    return redirected


def not_examined(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`original` refused: the rank goes no further."""

    @functools.wraps(original)
    def refuse(*args: Any, **named: Any) -> Any:
        del args, named
        raise RefusedError(f"refused while the script is examined: {name} is not examined (docs/operations.md)")

    return refuse


def _no_sleep(original: Callable[[float], None], examinee: Examinee) -> Callable[[float], None]:
    @functools.wraps(original)
    def sleep(seconds: float, /) -> None:
        if not seconds >= 0:
            pass_on(original, (seconds,), {})
        examinee.slept()
        pass_on(original, (0,), {})  # lets other threads run, as a sleep does

    return sleep


def _init(original: Callable[..., Any], examinee: Examinee) -> Callable[..., Any]:
    @functools.wraps(original)
    def init_process_group(backend: str | None = None, init_method: Any = None, *args: Any, **named: Any) -> Any:
        if backend is not None and "nccl" in str(backend):
            examinee.tape.transport = Transport.NCCL
        kept: dict[str, Any] = {name: named[name] for name in ("timeout", "group_name") if name in named}
        if args:
            kept["timeout"] = args[0]
        size = examinee.job.num_ranks
        kept["store"] = FileStore(str(examinee.folder.path / "store"), size)
        return pass_on(original, (BACKEND,), {**kept, "rank": examinee.rank, "world_size": size})

    return init_process_group


def _new_group(original: Callable[..., Any]) -> Callable[..., Any]:
    """Sub-groups go through the lock-step server too, whatever backend the script names for them."""

    @functools.wraps(original)
    def new_group(ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any, **named: Any) -> Any:
        del backend
        named.pop("device_id", None)
        named.pop("backend_options", None)
        return pass_on(original, (ranks, timeout, None, *args), named)

    return new_group


def _backward(original: Callable[..., Any]) -> Callable[..., Any]:
    """The backward, and after it the waits that DDP's reducer makes at its end."""

    @functools.wraps(original)
    def backward(*args: Any, **named: Any) -> Any:
        answer = pass_on(original, args, named)
        for work in LockStepGroup.waited_by_backward:
            LockStepGroup.recorder.waited(work)
        LockStepGroup.waited_by_backward.clear()
        return answer

    return backward
