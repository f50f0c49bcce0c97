"""Cases of the rank pool on a device that is none: its copies are done when it is synchronised, and not before."""

import torch
import torch.distributed as dist

from emberward.checkpoint import PinnedMemory
from emberward.rank._staged import StagedTransfers
from ranks.cases import engine_run

all_gather_flat = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


class FakeCudart:
    """torch.cuda.cudart()'s two functions, with the answers that a test wants."""

    def __init__(self, code=0):
        self.code = code
        self.registered = {}

    def cudaHostRegister(self, ptr, size, flags):
        assert flags == 0 and ptr not in self.registered
        if not self.code:
            self.registered[ptr] = size
        return self.code

    def cudaHostUnregister(self, ptr):
        return 0 if self.registered.pop(ptr, None) is not None else 1


class LazyDevice:
    """Holds every tensor but those in memory that was given to it to pin. A `StagingDevice`."""

    def __init__(self, cudart):
        self.cudart = cudart
        self.waiting = []
        self.num_copies = 0
        self._host = []

    def holds(self, tensor):
        at = tensor.data_ptr()
        return not any(low <= at < high for low, high in self._host)

    def copy(self, to, values):
        assert not to.numel() or self.holds(to) != self.holds(values), "a copy is between host and device"
        self.waiting.append((to, values))

    def synchronize(self):
        for to, values in self.waiting:
            to.copy_(values)
        self.num_copies += len(self.waiting)
        self.waiting.clear()

    def pin(self, memory):
        self._host.append((memory.data_ptr(), memory.data_ptr() + memory.nbytes))
        return PinnedMemory(memory, self.cudart)


def _calls(rank, size):
    """The results of every kind of call, for types and forms that a training uses."""
    found, generator = [], torch.Generator().manual_seed(rank)
    for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.int64):
        one = torch.randint(-99, 99, (size, 6), generator=generator).to(dtype) / (3 if dtype.is_floating_point else 1)
        one = one.to(dtype)
        dist.all_reduce(total := one.clone())
        dist.broadcast(sent := one.clone(), src=size - 1)
        dist.all_gather(parts := [torch.empty_like(one) for _ in range(size)], one)
        all_gather_flat(whole := torch.empty(size * size, 6, dtype=dtype), one)
        dist.reduce_scatter(mine := torch.empty(6, dtype=dtype), list(one.unbind(0)))
        dist.all_to_all_single(turned := torch.empty_like(one), one)
        dist.gather(one, gathered := [torch.empty_like(one) for _ in range(size)] if rank == 0 else None)
        dist.scatter(given := torch.empty(6, dtype=dtype), list(one.unbind(0)) if rank == 0 else None)
        found += [total, sent, *parts, whole, mine, turned, *(gathered or []), given]
    dist.all_reduce(scalar := torch.tensor(float(rank)))
    dist.all_reduce(columns := torch.arange(12.0).view(3, 4).t().contiguous() + rank)
    dist.broadcast(torch.empty(0), src=0)
    return [*found, scalar, columns]


def _order(rank, size):
    """Messages arrive in the order in which they were sent, however they are waited for; a call sees those before."""
    after, before = (rank + 1) % size, (rank - 1) % size
    sends = [dist.isend(torch.full((5,), float(10 * rank + k)), after) for k in range(4)]
    got = torch.zeros(4, 5)
    receives = [dist.irecv(got[k], before) for k in range(4)]
    for work in reversed(receives):
        work.wait()
    for work in sends:
        work.wait()
    value = torch.ones(3)
    for _ in range(3):
        dist.all_reduce(value)
    one, other = torch.ones(4), torch.ones(4)
    works = [dist.all_reduce(one, async_op=True), dist.all_reduce(other.mul_(2), async_op=True)]
    assert one.tolist() == [1] * 4, "what comes is copied back where somebody waits"
    for work in reversed(works):
        work.wait()
    return [got, value, one, other]


def staged_calls(rank, world_size):
    """Whether all values are bitwise those of gloo alone, the values of `_order`, and what memory was used."""
    plain = _calls(rank, world_size)
    device, said = LazyDevice(FakeCudart()), []
    staged = StagedTransfers(device, say=said.append)
    originals = dict(vars(dist.ProcessGroup))
    staged.install()
    try:
        values = _calls(rank, world_size)
        num_first = staged.buffers.num_made
        again = _calls(rank, world_size)
        num_second = staged.buffers.num_made
        order = _order(rank, world_size)
        registered = len(device.cudart.registered)
    finally:
        num_made = staged.buffers.num_made
        staged.remove()
    return {
        "is_equal": all(
            torch.equal(a.view(torch.uint8) if a.dim() else a, b.view(torch.uint8) if b.dim() else b)
            for a, b in [*zip(plain, values, strict=True), *zip(plain, again, strict=True)]
        ),
        "order": [each.tolist() for each in order],
        "buffers": (num_first, num_second, num_made, registered),
        "left": (len(device.cudart.registered), len(device.waiting)),
        "is_undone": dict(vars(dist.ProcessGroup)) == originals,
        "said": said,
    }


def refused_calls(rank, world_size):
    """The same where CUDA refuses to pin: said once, values as ever, nothing undone that was not done."""
    device, said = LazyDevice(FakeCudart(code=2)), []
    staged = StagedTransfers(device, say=said.append)
    staged.install()
    try:
        dist.all_reduce(small := torch.ones(3))
        dist.all_reduce(large := torch.ones(5000))
    finally:
        staged.remove()
    return {"values": (small.sum().item(), large.sum().item()), "said": said}


def staged_engine(rank, world_size, **layout):
    """`engine_run` with every call of its groups staged; how many copies were made beside it."""
    device = LazyDevice(FakeCudart())
    staged = StagedTransfers(device, say=print)
    staged.install()
    try:
        return {**engine_run(rank, world_size, **layout), "copies": device.num_copies}
    finally:
        staged.remove()
