"""The probes that need torch: compute, memory, transfer, collective, soak. All members of a set call the same one."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import torch
import torch.distributed as dist

from emberward.doctor._load import Load
from emberward.doctor.probe._device import Member
from emberward.draws import Draws
from emberward.families import find_family, model_of
from emberward.findings import ConfigError
from emberward.layout import Constant

TRIES = 20
SOAK_S = 4.0
SIDE = {"cuda": 4096, "cpu": 384}
MEMORY_BYTES = {"cuda": 1 << 30, "cpu": 64 << 20}
MESSAGE = {"cuda": 16 << 20, "cpu": 256 << 10}
"""Elements of float32 in a message."""
Answer = dict[str, object]


def compute(place: Member) -> Answer:
    """Products of matrices with a known answer in each type, bit for bit the same each time; TFLOP/s of float32.

    The entries are small whole numbers, so that every type's sums are exact: side x 1 x 1 with entries -1, 0, 1 stays
    below 2^8, which bfloat16 holds.
    """
    side = SIDE[place.kind]
    generator = torch.Generator().manual_seed(1)
    inner = 64
    a = torch.randint(-1, 2, (side, inner), generator=generator)
    b = torch.randint(-1, 2, (inner, side), generator=generator)
    expected = (a @ b).double()
    for name in place.types:
        dtype = getattr(torch, name)
        left, right = a.to(place.device, dtype), b.to(place.device, dtype)
        for number in range(TRIES):
            found = (left @ right).cpu().double()
            if not torch.equal(found, expected):
                wrong = int((found != expected).sum())
                return _no(f"{name}: {wrong} of {expected.numel()} values are wrong at try {number + 1}")
    x = torch.randn(side, side, device=place.device)
    seconds = place.seconds(lambda: x @ x, repeats=10)
    return _yes(2 * side**3 / seconds / 1e12, "TFLOP/s", tries=TRIES, detail=", ".join(place.types))


def memory(place: Member) -> Answer:
    """Device memory: walking bits and their complements hold, a pattern xored twice is itself; GB/s of a copy."""
    count = MEMORY_BYTES[place.kind] // 8
    data = torch.empty(count, dtype=torch.int64, device=place.device)
    for bit in range(0, 64, 8):
        for value in (1 << bit, ~(1 << bit)):
            data.fill_(value)
            if not bool((data == value).all()):
                return _no(f"device memory does not hold bit {bit}")
    pattern = torch.arange(count, device=place.device)
    mixed = pattern ^ 0x5DEECE66D
    mixed ^= 0x5DEECE66D
    if not torch.equal(mixed, pattern):
        return _no("a pattern xored twice is not itself")
    if place.kind == "cuda":
        host = pattern[: count // 8].cpu().pin_memory()
        if not torch.equal(host.to(place.device).cpu(), host):
            return _no("a copy to the device and back is not itself")
    seconds = place.seconds(lambda: data.copy_(pattern), repeats=10)
    return _yes(2 * 8 * count / seconds / 1e9, "GB/s", tries=16)


def transfer(place: Member) -> Answer:
    """Every pair of the set exchanges a message with a known answer, pair after pair; GB/s of the slowest pair."""
    place.join()
    count = MESSAGE[place.kind]
    rate = float("inf")
    got = torch.empty(count, device=place.device)
    for shift in range(1, place.world_size):
        to, source = (place.rank + shift) % place.world_size, (place.rank - shift) % place.world_size
        sent = _message(place.rank, count, place)
        for number in range(4):
            dist.barrier()
            began_s = time.perf_counter()
            for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, to), dist.P2POp(dist.irecv, got, source)]):
                work.wait()
            place.synchronise()
            seconds = time.perf_counter() - began_s
            if not torch.equal(got, _message(source, count, place)):
                return _no(f"what came from rank {source} is not what it sent")
            if number:
                rate = min(rate, 4 * count / seconds / 1e9)
    return {**_yes(rate, "GB/s", tries=4), "exercised": "all"}


def collective(place: Member) -> Answer:
    """All-reduce, all-gather and reduce-scatter with known answers; GB/s of the all-reduce, as nccl-tests counts it.

    Bus bandwidth is 2 (n - 1) / n of the message over the time. Source: nccl-tests, PERFORMANCE.md.
    """
    place.join()
    n, count = place.world_size, MESSAGE[place.kind] // place.world_size * place.world_size
    total = sum(_message(rank, count, place) for rank in range(n))
    assert isinstance(total, torch.Tensor)
    best = float("inf")
    for _ in range(TRIES):
        data = _message(place.rank, count, place)
        dist.barrier()
        place.synchronise()
        began_s = time.perf_counter()
        dist.all_reduce(data)
        place.synchronise()
        best = min(best, time.perf_counter() - began_s)
        if not torch.equal(data, total):
            return _no("an all-reduce gave a wrong sum")
    parts = [torch.empty(count, device=place.device) for _ in range(n)]
    dist.all_gather(parts, _message(place.rank, count, place))
    if any(not torch.equal(part, _message(rank, count, place)) for rank, part in enumerate(parts)):
        return _no("an all-gather gave wrong values")
    piece = torch.empty(count // n, device=place.device)
    dist.reduce_scatter_tensor(piece, _message(place.rank, count, place))
    if not torch.equal(piece, total[place.rank * (count // n) :][: count // n]):
        return _no("a reduce-scatter gave a wrong sum")
    return {**_yes(2 * (n - 1) / n * 4 * count / best / 1e9, "GB/s", tries=TRIES), "exercised": "ring"}


def soak(place: Member, load: Load | None = None) -> Answer:
    """A layer, forward and backward, again and again, gradients summed over the set; every step bit for bit.

    The load of a job, where a probe of one operation is too light: BLOOM's slow GPU lost 2.5% in a benchmark and 5% in
    the job. `load`: whose layer; None: a decoder block of our own. Steps a second. Where the recipe's layer cannot be
    built, or has no room beside what others hold of the device, it is busy: nothing was tested, and nobody failed.
    """
    torch.manual_seed(1)
    layer, lacks = None, "another member of the set is busy"
    try:
        layer = _block(place) if load is None else _layer_of(load, place)
        _step(layer)
    except (ConfigError, ImportError, torch.OutOfMemoryError) as error:
        lacks = f"{type(error).__name__}: {' '.join(str(error).split())[:180]}"
    ready = torch.ones(1, device=place.device) if layer is not None else torch.zeros(1, device=place.device)
    if place.world_size > 1:
        place.join()
        dist.all_reduce(ready, op=dist.ReduceOp.MIN)
    if layer is None or not ready.item():
        return {"busy": True, "detail": lacks}
    first: torch.Tensor | None = None
    steps = 0
    rates: list[float] = []
    end_s = time.perf_counter() + SOAK_S
    # All members make the same number of steps: rank 0 says when it is over.
    go_on = torch.ones(1, device=place.device)
    while True:
        began_s = time.perf_counter()
        gradients = _step(layer)
        if place.world_size > 1:
            dist.all_reduce(gradients)
        place.synchronise()
        rates.append(1 / (time.perf_counter() - began_s))
        total = gradients.double().sum()
        if first is None:
            first = total
        elif place.kind == "cpu" and not torch.equal(total, first):
            return _no(f"step {steps + 1} gives other gradients than the first")
        if not bool(torch.isfinite(total)):
            return _no(f"step {steps + 1} gives gradients that are not finite")
        steps += 1
        if place.rank == 0 and time.perf_counter() > end_s:
            go_on.zero_()
        if place.world_size > 1:
            dist.broadcast(go_on, 0)
        if not go_on.item():
            break
    rates.sort()
    return {**_yes(rates[len(rates) // 2], "steps/s", tries=steps, detail=layer.what), "exercised": "ring"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """What one step of the soak computes: `module` of `x`, whose further arguments are `others`."""

    module: torch.nn.Module
    x: torch.Tensor
    others: tuple[object, ...] = ()
    what: str


def _step(layer: _Layer) -> torch.Tensor:
    """All gradients of a forward and a backward, one after the other."""
    layer.module.zero_grad()
    layer.module(layer.x, *layer.others).float().square().mean().backward()
    return torch.cat([p.grad.flatten() for p in layer.module.parameters() if p.grad is not None])


def _block(place: Member) -> _Layer:
    """A decoder block that is no recipe's."""
    width, length, batch = (2048, 1024, 4) if place.kind == "cuda" else (256, 128, 2)
    module = torch.nn.TransformerEncoderLayer(
        width, width // 64, 4 * width, dropout=0.0, batch_first=True, norm_first=True, device=place.device
    )
    x = torch.randn(batch, length, width, device=place.device)
    return _Layer(module=module, x=x, what=f"a block of width {width}")


def _layer_of(load: Load, place: Member) -> _Layer:
    """The costliest layer of the recipe's model, whole, with first weights, and a micro-batch of what it takes.

    Raises ConfigError or ImportError where the family or its modules are not there.
    """
    blocks = model_of(load.model).blocks
    number = max(range(1, len(blocks) - 1), key=lambda n: blocks[n].cost)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[load.compute]
    build = import_module(find_family(load.model.family).modules).build
    with torch.device(place.device):
        module: torch.nn.Module = build(load.model, number, None)
    inits = {spec.name.removeprefix(blocks[number].prefix): spec.init for spec in blocks[number].tensors}
    with torch.no_grad():
        for name, param in module.named_parameters():
            init = inits[name]
            param.fill_(init.value) if isinstance(init, Constant) else param.normal_(std=init.std)
    x = torch.randn(load.rows, *blocks[number - 1].output.shape, device=place.device, dtype=dtype)
    draws = Draws(seed=1, step=0, samples=tuple(range(load.rows)))
    what = f"{blocks[number].name} of {load.model.family}, {' x '.join(map(str, x.shape))}, {load.compute}"
    return _Layer(module=module.to(dtype), x=x, others=(draws,), what=what)


def _message(rank: int, count: int, place: Member) -> torch.Tensor:
    """Whole numbers below 1024 that depend on the rank: sums over a few thousand ranks are exact in float32."""
    return (torch.arange(count, device=place.device) * (2 * rank + 1) % 1021).float()


def _yes(value: float, unit: str, *, tries: int, detail: str = "") -> Answer:
    return {
        "ok": True,
        "value": round(value, 4),
        "unit": unit,
        "higher_is_better": True,
        "detail": detail,
        "tries": tries,
    }


def _no(detail: str) -> Answer:
    return {"ok": False, "detail": detail}


PROBES: dict[str, Callable[[Member], Answer]] = {
    "compute": compute,
    "memory": memory,
    "transfer": transfer,
    "collective": collective,
    "soak": soak,
}
