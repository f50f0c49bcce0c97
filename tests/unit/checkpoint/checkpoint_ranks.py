"""Ranks as threads with a real barrier, and tensors cut into boxes: what the tests of this room share."""

import random
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

from emberward.checkpoint import DISK, Saved, Shard, Storage, save
from emberward.layout import Box
from emberward.recipe import ReadBack

T = TypeVar("T")
AGREE_TIMEOUT_S = 20.0


class Agreement:
    """`agree` for threads: the real thing waits for every rank, so a rank that forgets to call it breaks the test."""

    def __init__(self, world_size: int) -> None:
        self._world_size = world_size
        self._votes: list[bool] = []
        self._barrier = threading.Barrier(world_size, timeout=AGREE_TIMEOUT_S)
        self._lock = threading.Lock()

    def __call__(self, is_well: bool) -> bool:
        with self._lock:
            self._votes.append(is_well)
        self._barrier.wait()
        result = all(self._votes)
        if self._barrier.wait() == 0:
            self._votes.clear()
        self._barrier.wait()
        return result


def run_ranks(world_size: int, work: Callable[[int], T]) -> list[T | BaseException]:
    """What each rank's call gave or raised, in order of rank; each runs in a thread of its own."""
    results: list[Any] = [None] * world_size

    def target(rank: int) -> None:
        try:
            results[rank] = work(rank)
        except BaseException as error:  # noqa: BLE001 - handed to the test, which looks at it
            results[rank] = error

    threads = [threading.Thread(target=target, args=(rank,), daemon=True) for rank in range(world_size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=2 * AGREE_TIMEOUT_S)
        assert not thread.is_alive(), "a rank hangs"
    return results


def save_all(
    root: Path,
    shards_of: Sequence[Sequence[Shard]],
    *,
    step: int = 100,
    meta: dict[str, Any] | None = None,
    keep: int | None = None,
    storage_of: Callable[[int], Storage] = lambda rank: DISK,
    read_back: ReadBack = ReadBack.NONE,
) -> list[Saved | BaseException]:
    """One save by as many ranks as `shards_of` has entries."""
    agree = Agreement(len(shards_of))
    return run_ranks(
        len(shards_of),
        lambda rank: save(
            root,
            step=step,
            shards=shards_of[rank],
            meta=meta or {},
            rank=rank,
            world_size=len(shards_of),
            agree=agree,
            keep=keep,
            storage=storage_of(rank),
            read_back=read_back,
        ),
    )


def require_saved(results: Sequence[Saved | BaseException]) -> Path:
    """The path of a save that succeeded on every rank."""
    for result in results:
        if isinstance(result, BaseException):
            raise result
    assert isinstance(results[0], Saved)
    return results[0].path


def random_tiling(rng: random.Random, shape: Sequence[int], num_cuts: int) -> list[Box]:
    """Disjoint boxes that cover `shape`, by random cuts; some may be empty."""
    boxes: list[Box] = [tuple((0, length) for length in shape)]
    for _ in range(num_cuts if shape else 0):
        box = boxes.pop(rng.randrange(len(boxes)))
        dim = rng.randrange(len(shape))
        at = rng.randint(*box[dim])
        boxes.append((*box[:dim], (box[dim][0], at), *box[dim + 1 :]))
        boxes.append((*box[:dim], (at, box[dim][1]), *box[dim + 1 :]))
    return boxes


def cut(name: str, whole: torch.Tensor, box: Box) -> Shard:
    """The shard that holds `box` of `whole`, in memory of its own."""
    piece = whole[tuple(slice(start, stop) for start, stop in box)].clone(memory_format=torch.contiguous_format)
    return Shard(name=name, global_shape=tuple(whole.shape), box=box, tensor=piece)


def blank(name: str, whole: torch.Tensor, box: Box) -> Shard:
    """A shard like `cut`'s whose memory holds other bits, so that an element that is not filled is seen."""
    shard = cut(name, whole, box)
    shard.tensor.reshape(-1).view(torch.uint8).fill_(0xA5)
    return shard


def spread(
    tensors: dict[str, torch.Tensor], world_size: int, seed: int, num_cuts: int = 4, make: Callable[..., Shard] = cut
) -> list[list[Shard]]:
    """Each tensor cut at random, its boxes dealt to the ranks at random."""
    rng = random.Random(seed)
    shards: list[list[Shard]] = [[] for _ in range(world_size)]
    for name, whole in tensors.items():
        for box in random_tiling(rng, whole.shape, num_cuts):
            shards[rng.randrange(world_size)].append(make(name, whole, box))
    return shards


def random_bits(dtype: torch.dtype, shape: Sequence[int], seed: int) -> torch.Tensor:
    """A tensor of random bits: NaNs with payloads, infinities, negative zeros and all."""
    generator = torch.Generator().manual_seed(seed)
    item_bytes = torch.empty(0, dtype=dtype).element_size()
    num_elements = torch.Size(shape).numel()
    if dtype is torch.bool:
        return torch.randint(0, 2, tuple(shape), generator=generator, dtype=torch.uint8).view(torch.bool)
    raw = torch.randint(0, 256, (num_elements * item_bytes,), generator=generator, dtype=torch.uint8)
    return raw.view(dtype).reshape(tuple(shape))


def is_bit_equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have equal dtype, shape and bits; NaNs compare by their bits."""
    return (
        a.dtype == b.dtype
        and a.shape == b.shape
        and torch.equal(
            a.contiguous().reshape(-1).view(torch.uint8),
            b.contiguous().reshape(-1).view(torch.uint8),
        )
    )
