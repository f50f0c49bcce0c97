"""What the ranks give to the collectives that their program asks for, so that ranks can be compared. Needs torch.

[Note: held by all]
What a sum or a broadcast is given is read in a few steps of the warm-up, every n-th number of it, and kept as one
checksum. Where all ranks of a group give the same to each of its calls at a line, every rank holds already what the
call brings: gradients that DDP has averaged, weights that are alike. A few numbers, or one number many times, are alike
by chance: a flag, a count, zeros. Tensors of a device are not read.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.distributed import ProcessGroup

from emberward.sources._site import SiteFinder

METHODS = ("allreduce", "broadcast")
MIN_NUMBERS = 256
"""Of a tensor: fewer say nothing."""
MAX_READ = 4096
MAX_CALLS = 20_000
"""Of all compared steps. Of longer ones nothing is said."""


class HeldWatch:
    """Reads what collectives are given between `start` and `stop`, both called by the training thread."""

    def __init__(self) -> None:
        self._sites = SiteFinder()
        self._calls: list[list[Any]] = []
        self._is_cut = False
        self._plain: dict[str, Any] = {}

    def start(self) -> None:
        """Reads from now on."""
        for name in METHODS:
            # What the class holds, which it binds to an instance: what `getattr` gives of it does not bind.
            self._plain[name] = vars(ProcessGroup)[name]
            setattr(ProcessGroup, name, self._reading(name, getattr(ProcessGroup, name)))

    def stop(self) -> None:
        """Ends it."""
        while self._plain:
            setattr(ProcessGroup, *self._plain.popitem())

    def lines(self) -> Iterator[dict[str, Any]]:
        """Lines of a file of operations, one for each call in its order: file and line of the program, operation, name
        and size of the group, checksum or None."""
        if not self._is_cut:
            yield from ({"held": call} for call in self._calls)

    def _reading(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def reading(handle: Any, *args: Any, **named: Any) -> Any:
            try:
                self._note(name, handle, args[0] if args else next(iter(named.values())))
            except Exception:  # noqa: BLE001 (a program is not ended because it is profiled)
                self._is_cut = True
            return original(handle, *args, **named)

        return reading

    def _note(self, name: str, handle: Any, given: torch.Tensor | Sequence[torch.Tensor]) -> None:
        site = self._sites.here()
        self._is_cut |= len(self._calls) == MAX_CALLS
        if site is None or self._is_cut:
            return
        sums = [sum_of(each) for each in ([given] if isinstance(given, torch.Tensor) else given)]
        known = None if None in sums else zlib.crc32(repr(sums).encode())
        self._calls.append([site.file, site.line, name, handle.group_name, handle.size(), known])


def sum_of(tensor: torch.Tensor) -> int | None:
    """A checksum of a tensor's numbers; None where they say nothing, or are not read."""
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided or tensor.numel() < MIN_NUMBERS:
        return None
    # Without the mode that compares the program's own calls, and without a gradient.
    with torch._C.DisableTorchFunction(), torch.no_grad():
        # A copy: memory that numpy has seen cannot be resized any more, which FSDP does.
        read = tensor.detach().reshape(-1)[:: -(-tensor.numel() // MAX_READ)].clone()
        if bool((read == read[0]).all()):
            return None
        return zlib.crc32(read.view(torch.uint8).numpy().data)
