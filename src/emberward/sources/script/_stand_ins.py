"""What stands in for functions of torch and Python in an examined rank. Needs torch.

A stand-in keeps the whole signature of what it replaces, and calls that one; what it calls raises as always
(`pass_on`). An error in the stand-in itself is ours and never the script's.
"""

import functools
import os
import time
from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.distributed as dist
import torch.distributed.rpc
from torch._C._distributed_c10d import FileStore
from torch.distributed import distributed_c10d
from torch.optim.optimizer import register_optimizer_step_post_hook

from emberward.sources._tape import Tape, Transport
from emberward.sources.script._group import BACKEND, CrewGroup, register_backend
from emberward.sources.script._guard import Guard, RefusedError
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


def stand_in(examinee: Examinee) -> None:
    """Replaces what an examined rank must not really do."""
    register_backend()
    dist.init_process_group = distributed_c10d.init_process_group = _init(distributed_c10d.init_process_group, examinee)
    distributed_c10d._new_group_with_tag = _new_group(distributed_c10d._new_group_with_tag)
    torch.autograd.backward = _backward(torch.autograd.backward)
    time.sleep = _no_sleep(time.sleep, examinee)  # type: ignore[assignment]
    for module, name in ((dist, "shrink_group"), (dist, "split_group"), (torch.distributed.rpc, "init_rpc")):
        if hasattr(module, name):
            setattr(module, name, _not_examined(getattr(module, name), name))
    register_optimizer_step_post_hook(lambda optimizer, args, named: examinee.stepped())


def guarded_save(original: Callable[..., Any], guard: Guard) -> Callable[..., Any]:
    """``torch.save``, whose C++ opens files unseen."""

    @functools.wraps(original)
    def save(obj: Any, f: Any, *args: Any, **named: Any) -> Any:
        if isinstance(f, str | os.PathLike):
            guard.require_inside(f)
        return pass_on(original, (obj, f, *args), named)

    return save


def _not_examined(original: Callable[..., Any], name: str) -> Callable[..., Any]:
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
    """Sub-groups go through the crew too, whatever backend the script names for them."""

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
        for work in CrewGroup.waited_by_backward:
            CrewGroup.recorder.waited(work)
        CrewGroup.waited_by_backward.clear()
        return answer

    return backward
