"""A backend of torch.distributed with NCCL's meaning on CPU tensors, around gloo: ``init_process_group("cpu_nccl")``.

[Note: NCCL's meaning on a CPU]
* A wait returns at once: it orders what follows on the device. A barrier's wait, and one with a time-out, block the
  host (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, WorkNCCL::wait, torch 2.13).
* Collectives of one group complete one after the other, in the order in which they were launched, on gloo's one thread
  of that group, whatever the host does. Transfers are posted when they are made and complete with their partner.
* A value may be read only after `synchronize`, or by what blocks on a GPU too: `Tensor.item`, `tolist`, `cpu`, and the
  calls of torch.distributed that give objects. A reader that does not ask gets whatever is there.
* The device has one stream, a thread: it waits where the program waited, and computes what `launch` gives it. A
  collective behind a kernel begins when the stream comes to it. What the program computes itself is done by the host.
* torch drops the work as soon as the program does; the device goes on.

Not so: what waits below Python (DDP's reducer, functional collectives) blocks as gloo does, for it needs the values.
"""

import functools
import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Work
from torch.distributed import distributed_c10d

from emberward.sources._calls import METHODS
from emberward.sources._cpu_stream import CpuClock, CpuStream
from emberward.sources._device_clock import register_clock

NAME = "cpu_nccl"
_READS = ("item", "tolist", "cpu")
_OBJECTS = (
    "all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list", "send_object_list",
    "recv_object_list",
)  # fmt: skip

_stream = CpuStream(Work.wait)
_BARRIER = 15
"""torch/csrc/distributed/c10d/Work.hpp, OpType, torch 2.11 to 2.13."""
_ON_HOST = ("barrier", "monitored_barrier", "send", "recv")
"""Methods before which the host waits for the kernels: a barrier does so anyway, a transfer is posted by the host."""
_late: Counter[int] = Counter()
"""Calls of a group that stand behind a kernel, by the address of its handle: gloo has not counted them yet."""
_local = threading.local()


def synchronize() -> None:
    """Returns when everything that was launched and waited for is complete. Raises what a call raised. Blocks."""
    _stream.synchronize()


def launch(kernel: Callable[[], Any]) -> None:
    """Has the device compute `kernel` after all that it was given; `synchronize` raises what that raises."""
    _stream.launch(kernel)


def register() -> None:
    """Makes the backend known and gives waits its meaning, for the life of this process and for every group in it.

    Before the first group is made, and before a recorder comes.
    """
    if NAME in dist.Backend.backend_list:
        return
    dist.Backend.register_backend(NAME, _create, devices="cpu")
    distributed_c10d._new_process_group_helper = _counting(distributed_c10d._new_process_group_helper)
    register_clock(NAME, lambda: CpuClock(_stream))
    group: Any = dist.ProcessGroup
    for name in METHODS:
        if hasattr(group, name):
            setattr(group, name, _in_order(getattr(group, name), is_on_host=name in _ON_HOST))
    group._get_sequence_number_for_group = _with_late(group._get_sequence_number_for_group)
    work: Any = Work
    work.wait = _returns_at_once(Work.wait)
    tensor: Any = torch.Tensor
    for name in _READS:
        setattr(tensor, name, _synchronized(getattr(torch.Tensor, name)))
    for name in _OBJECTS:
        original = _blocking(getattr(distributed_c10d, name))
        setattr(distributed_c10d, name, original)
        setattr(dist, name, original)


def _create(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    gloo: Any = dist.ProcessGroupGloo
    options = gloo._Options()
    options._devices = [gloo.create_default_device()]
    options._timeout = timeout
    options._threads = 1
    made = gloo(store, rank, size, options)
    made._set_sequence_number_for_group()
    return made


def _counting(original: Any) -> Any:
    """`original`, which makes groups, with a group of this backend numbering its calls as NCCL's does.

    torch counts for the backends that it knows by name (ProcessGroup.hpp, getSequenceNumberForGroup).
    """

    @functools.wraps(original)
    def helper(*args: Any, **named: Any) -> Any:
        made = original(*args, **named)
        group, cpu = made[0], torch.device("cpu")
        if isinstance(group, dist.ProcessGroup) and dist.get_backend(group) == NAME:
            kind = dist.ProcessGroup.BackendType.GLOO
            group._register_backend(cpu, kind, group._get_backend(cpu))
            group._set_default_backend(kind)
        return made

    return helper


def _returns_at_once(original: Any) -> Any:
    @functools.wraps(original)
    def wait(work: Any, *args: Any, **named: Any) -> Any:
        if args or named or work._get_op_type() == _BARRIER or getattr(_local, "is_blocking", False):
            synchronize()
            return original(work, *args, **named)
        _stream.wait(work)
        return True

    return wait


def _in_order(original: Any, *, is_on_host: bool) -> Any:
    """`original`, a method of ProcessGroup, which a group of this backend makes behind the kernels before it."""

    @functools.wraps(original)
    def call(group: Any, *args: Any, **named: Any) -> Any:
        if not _stream.is_computing or dist.get_backend(group) != NAME:
            return original(group, *args, **named)
        if is_on_host or getattr(_local, "is_blocking", False):
            synchronize()
            return original(group, *args, **named)
        key = id(group)

        def make() -> Any:
            _late[key] -= 1
            return original(group, *args, **named)

        _late[key] += 1
        return _stream.call(make)

    return call


def _with_late(original: Any) -> Any:
    @functools.wraps(original)
    def number(group: Any) -> Any:
        return original(group) + _late[id(group)]

    return number


def _synchronized(original: Any) -> Any:
    @functools.wraps(original)
    def read(tensor: Any, *args: Any, **named: Any) -> Any:
        synchronize()
        return original(tensor, *args, **named)

    return read


def _blocking(original: Any) -> Any:
    """`original`, whose own waits block: on a GPU the sizes that it reads make it wait."""

    @functools.wraps(original)
    def call(*args: Any, **named: Any) -> Any:
        was, _local.is_blocking = getattr(_local, "is_blocking", False), True
        try:
            return original(*args, **named)
        finally:
            _local.is_blocking = was

    return call
