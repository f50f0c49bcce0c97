"""What each rank computes of rows that it has gathered of all ranks, so that ranks can be compared. Needs torch.

[Note: computed by all ranks]
Where every rank gathers the rows of all ranks and computes with all of them, all compute the same: the scores of all
pairs, the loss of all rows. Each could compute with its own rows alone, or with its own against all. In the compared
steps the results of calls that read such rows are read, every n-th number, and kept as checksums. Gathers are followed
through calls and through joins along the first dimension, which alone compute nothing. A join along another one puts
parts of rows together, as tensor parallel layers do, and is followed no further, nor are gathers of what is sharded.
"""

import sys
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.distributed import ProcessGroup

from emberward.sources._held import MIN_NUMBERS, sum_of
from emberward.sources._picks import storage_of
from emberward.sources._values import tensors_in

Where = tuple[tuple[str, int], ...]
METHODS = ("allgather", "_allgather_base", "all_gather_single")
"""The last took the place of the second (torch 2.13)."""
_JOINS = frozenset({"cat", "concat", "concatenate", "hstack", "dstack", "stack"})
_SHARDING = ("/torch/distributed/fsdp/", "/torch/distributed/_composable/", "/torch/optim/", "/deepspeed/")
MAX_FRAMES = 40
MAX_CALLS = 20_000
"""Of all compared steps. Of longer ones nothing is said."""


class OfAllWatch:
    """Follows what the ranks gather. All but `lines` is for the training thread."""

    def __init__(self) -> None:
        self._gathered: set[int] = set()
        """Storages with rows of all ranks, or with what was computed of such rows."""
        self._calls: dict[Where, list[list[Any]]] = defaultdict(list)
        """Of each place its calls on such rows: checksum or None, nanoseconds, whether a backward may go through."""
        self._all_ns: dict[Where, int] = defaultdict(int)
        self._roots: list[int | None] = []
        """Checksums of single numbers that such calls gave, of which a backward may begin."""
        self._num_calls = 0

    def start(self) -> list[Callable[[], None]]:
        """Sees what is gathered from now on. Returns what ends that."""
        known = [name for name in METHODS if name in vars(ProcessGroup)]
        return [self._watch(name, vars(ProcessGroup)[name], getattr(ProcessGroup, name)) for name in known]

    def _watch(self, name: str, own: Any, original: Callable[..., Any]) -> Callable[[], None]:
        def gathering(handle: Any, *args: Any, **named: Any) -> Any:
            try:
                self._note_gather(handle, args[0] if args else next(iter(named.values())))
            except Exception:  # noqa: BLE001 (a program is not ended because it is profiled)
                self._num_calls = MAX_CALLS + 1
            return original(handle, *args, **named)

        setattr(ProcessGroup, name, gathering)
        return lambda: setattr(ProcessGroup, name, own)

    def _note_gather(self, handle: ProcessGroup, into: Any) -> None:
        if handle.size() == torch.distributed.get_world_size() > 1 and not _is_of_shards():
            self._gathered |= {storage_of(each) for each in tensors_in(into)}

    def note(
        self,
        name: str,
        args: Any,
        named: Any,
        given: Sequence[torch.Tensor],
        gotten: Sequence[torch.Tensor],
        where: Where,
        took_ns: int,
    ) -> None:
        """A call within these lines of the program."""
        self._all_ns[where] += took_ns
        held = {storage_of(each) for each in given}
        new = [each for each in gotten if storage_of(each) not in held]
        storages = {storage_of(each) for each in new}
        is_of_rows = bool(held & self._gathered) and not (name in _JOINS and _dim_of(name, args, named))
        if not is_of_rows or self._num_calls > MAX_CALLS:
            self._gathered -= storages  # Memory that was another tensor's before.
            return
        self._gathered |= storages
        if not new or name in _JOINS:
            return
        self._num_calls += 1
        sums = [_sum_of(each) for each in new]
        known = None if None in sums else zlib.crc32(repr(sums).encode())
        has_graph = any(each.requires_grad for each in new)
        self._calls[where].append([known, took_ns, has_graph])
        if has_graph and all(each.numel() == 1 for each in new):
            self._roots.append(known)

    def stepped(self) -> None:
        """A step has ended."""
        self._gathered.clear()

    def forget(self) -> None:
        """What was seen so far counts no more."""
        for each in (self._calls, self._all_ns, self._roots):
            each.clear()

    def lines(self, graph_ns: int) -> Iterator[dict[str, Any]]:
        """Lines of a file of operations: of each place with such calls these, the nanoseconds of all its calls, of all
        calls that have a backward (`graph_ns`), and the single numbers of which a backward may begin."""
        if self._num_calls <= MAX_CALLS:
            for where, calls in self._calls.items():
                yield {"of_all": [where, calls, self._all_ns[where], graph_ns, self._roots]}


def _is_of_shards() -> bool:
    """Whether a library gathers what it has sharded."""
    frame = sys._getframe(2)
    for _ in range(MAX_FRAMES):
        if any(part in frame.f_code.co_filename for part in _SHARDING):
            return True
        if frame.f_back is None:
            break
        frame = frame.f_back
    return False


def _dim_of(name: str, args: Any, named: Any) -> int:
    """The dimension along which a call joins; 0 for the first."""
    if name in ("hstack", "dstack"):
        return 1
    dim = named.get("dim", named.get("axis", args[1] if len(args) > 1 else 0))
    return dim if isinstance(dim, int) else 0


def _sum_of(tensor: torch.Tensor) -> int | None:
    """A checksum of what a call gave; None where it may be alike by chance."""
    if tensor.numel() >= MIN_NUMBERS or not tensor.is_floating_point() or tensor.device.type != "cpu":
        return sum_of(tensor)
    with torch._C.DisableTorchFunction(), torch.no_grad():
        read = tensor.detach().reshape(-1).clone()
        if bool((read == read.round()).all()):
            return None
        return zlib.crc32(read.view(torch.uint8).numpy().data)
