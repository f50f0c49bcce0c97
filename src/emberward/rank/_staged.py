"""gloo between ranks whose tensors are a device's: every call goes through host memory. Needs torch.

[Note: staged transfers]
With ``device=cuda backend=gloo`` several ranks may share one GPU, which NCCL refuses (two ranks of one communicator on
one device). A call of torch.distributed takes the device's tensors; here their values are copied into pinned host
memory, gloo works on that, and behind the wait for the work what came is copied back in the waiting thread's current
stream. So a wait returns when the values are on the device, and calls keep the order in which they were made. Both
copies hold the host. Memory is taken by powers of two, used again when its call was waited for, and released at the
end; there is as much as calls were ever under way at once.

Never ran on a GPU: the tests have a device that copies only when it is synchronised.
"""

import functools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import Work

from emberward.checkpoint import PinnedMemory

SMALLEST_BYTES = 4096
METHODS = (
    "allreduce", "allreduce_coalesced", "broadcast", "reduce", "allgather", "allgather_coalesced", "_allgather_base",
    "allgather_into_tensor_coalesced", "all_gather_single", "all_gather_single_coalesced", "reduce_scatter",
    "_reduce_scatter_base", "reduce_scatter_tensor_coalesced", "reduce_scatter_single",
    "reduce_scatter_single_coalesced", "gather", "scatter", "alltoall", "alltoall_base", "all_to_all_single", "send",
    "recv",
)  # fmt: skip
"""Methods of ProcessGroup in torch 2.11 to 2.13 that take tensors. The first argument is what the rank gets; what it
puts in is the second where that has tensors, else the first."""


class StagingDevice(Protocol):
    """The device whose tensors gloo cannot take."""

    def holds(self, tensor: Tensor) -> bool:
        """Whether the tensor is the device's."""

    def copy(self, to: Tensor, values: Tensor) -> None:
        """Copies between host and device in the current stream. Need not wait."""

    def synchronize(self) -> None:
        """Returns when the copies of this thread's current stream are done."""

    def pin(self, memory: Tensor) -> PinnedMemory:
        """Has the device copy straight into host memory."""


class CudaDevice:
    """CUDA as a `StagingDevice`."""

    def holds(self, tensor: Tensor) -> bool:
        """See `StagingDevice`."""
        return tensor.is_cuda

    def copy(self, to: Tensor, values: Tensor) -> None:
        """See `StagingDevice`."""
        to.copy_(values, non_blocking=True)

    def synchronize(self) -> None:
        """See `StagingDevice`."""
        torch.cuda.current_stream().synchronize()

    def pin(self, memory: Tensor) -> PinnedMemory:
        """See `StagingDevice`."""
        return PinnedMemory(memory)


class HostBuffers:
    """Pinned host memory for tensors, by powers of two. Threads may share it."""

    def __init__(self, device: StagingDevice, say: Callable[[str], object]) -> None:
        self._device = device
        self._say = say
        self._free: dict[int, deque[Tensor]] = {}
        self._pinned: list[PinnedMemory] = []

    @property
    def num_made(self) -> int:
        """How many buffers were ever needed at once."""
        return len(self._pinned)

    def take(self, tensor: Tensor) -> tuple[Tensor, Tensor]:
        """A buffer, and the part of it that has the tensor's shape and type; values are whatever was there."""
        size = max(SMALLEST_BYTES, 1 << (tensor.nbytes - 1).bit_length() if tensor.nbytes else 0)
        try:
            buffer = self._free.setdefault(size, deque()).pop()
        except IndexError:
            buffer = torch.empty(size, dtype=torch.uint8)
            pinned = self._device.pin(buffer)
            if not pinned.is_pinned and all(each.is_pinned for each in self._pinned):
                self._say(f"host memory is not pinned (CUDA error {pinned.code} for {size} bytes): copies are slower\n")
            self._pinned.append(pinned)
        return buffer, buffer[: tensor.nbytes].view(tensor.dtype).view(tensor.shape)

    def give(self, buffer: Tensor) -> None:
        """Takes a buffer back that nobody uses any more."""
        self._free[buffer.nbytes].append(buffer)

    def release(self) -> None:
        """Undoes all registrations. Nothing may be under way."""
        self._free.clear()
        for pinned in self._pinned:
            pinned.release()
        self._pinned.clear()


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A call whose work nobody has waited for: the work, its buffers, and what is to be copied back."""

    work: Work
    buffers: Sequence[Tensor]
    results: Sequence[tuple[Tensor, Tensor]]


class StagedTransfers:
    """Puts host memory between torch.distributed's calls and gloo for the tensors of `device`.

    See [Note: staged transfers]. `install` before the first group is made, and before a recorder comes.
    """

    def __init__(self, device: StagingDevice, *, say: Callable[[str], object]) -> None:
        self._device = device
        self.buffers = HostBuffers(device, say)
        self._under_way: dict[int, _UnderWay] = {}
        self._replaced: list[tuple[type, str, Any, Any]] = []
        """Owner, name, what was there, and what stands in its place."""

    def install(self) -> None:
        """Wraps the methods of ProcessGroup and the wait of works, until `remove`."""
        for name in METHODS:
            if hasattr(dist.ProcessGroup, name):
                self._replace(dist.ProcessGroup, name, functools.partial(self._staged, name))
        self._replace(Work, "wait", self._copying_back)

    def remove(self) -> None:
        """Undoes `install`, where nobody has wrapped it since, and releases the memory. Nothing may be under way."""
        for owner, name, original, own in self._replaced:
            if getattr(owner, name) is own:
                setattr(owner, name, original)
        self._replaced.clear()
        self._under_way.clear()
        self.buffers.release()

    def _replace(self, owner: type, name: str, wrap: Callable[[Any], Any]) -> None:
        # The class's own entry is put back: pybind11 binds a method by a descriptor that `getattr` unwraps.
        original, own = vars(owner)[name], wrap(getattr(owner, name))
        self._replaced.append((owner, name, original, own))
        setattr(owner, name, own)

    def _staged(self, name: str, original: Any) -> Any:
        @functools.wraps(original)
        def call(group: Any, *args: Any, **named: Any) -> Any:
            tensors = [each for each in _tensors(args) if self._device.holds(each)]
            if not tensors:
                return original(group, *args, **named)
            given = [*_tensors(args[1:])] or ([] if name == "recv" else [*_tensors(args[:1])])
            taken = [] if name == "send" else [*_tensors(args[:1])]
            hosts, buffers = {}, []
            for tensor in tensors:
                if id(tensor) not in hosts:
                    buffer, hosts[id(tensor)] = self.buffers.take(tensor)
                    buffers.append(buffer)
            for tensor in given:
                if id(tensor) in hosts:
                    self._device.copy(hosts[id(tensor)], tensor.detach())
            self._device.synchronize()
            work = original(group, *(_replaced(each, hosts) for each in args), **named)
            results = [(tensor, hosts[id(tensor)]) for tensor in taken if id(tensor) in hosts]
            under_way = _UnderWay(work, buffers, results)
            if work is None:
                self._end(under_way)
            else:
                self._under_way[id(work)] = under_way
            return work

        return call

    def _copying_back(self, original: Any) -> Any:
        @functools.wraps(original)
        def wait(work: Any, *args: Any, **named: Any) -> Any:
            # Of a call that failed gloo may still write into the memory: it is not used again.
            under_way = self._under_way.pop(id(work), None)
            result = original(work, *args, **named)
            if under_way is not None:
                self._end(under_way)
            return result

        return wait

    @torch.no_grad()
    def _end(self, done: _UnderWay) -> None:
        for tensor, host in done.results:
            self._device.copy(tensor.detach(), host)
        self._device.synchronize()
        for buffer in done.buffers:
            self.buffers.give(buffer)


def _tensors(value: Any) -> Iterator[Tensor]:
    """The tensors of an argument that may be one, a list, a list of lists, or none."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)


def _replaced(value: Any, hosts: dict[int, Tensor]) -> Any:
    if isinstance(value, Tensor):
        return hosts.get(id(value), value)
    if isinstance(value, list | tuple):
        return type(value)(_replaced(each, hosts) for each in value)
    return value
