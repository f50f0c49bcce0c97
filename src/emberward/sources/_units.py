"""Which lines of the program made its units of sharding, FSDP2's and FSDP1's, and its DDP. Needs torch.

Each unit is an object that torch makes when the program shards a module, be it in a loop, a hook of `Module.apply` or a
policy. Its bytes are those of the whole unit.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch

from emberward.sources._live import CURRENT
from emberward.sources._site import SiteFinder

MADE_IN = {
    "torch.distributed.fsdp._fully_shard._fsdp_param_group": "FSDPParamGroup",
    "torch.distributed.fsdp._flat_param": "FlatParamHandle",
    "torch.nn.parallel.distributed": "DistributedDataParallel",
}
"""Modules and their classes of which each object is a unit, or replicates a module (torch 2.13)."""
MAX_UNITS = 10_000
UNITS: list[tuple[str, int]] = []
"""File:line and bytes of the units of this process."""
REPLICATED: list[str] = []
"""File:line of each DDP."""
_FINDER = SiteFinder()


def watch_units() -> None:
    """Watches the classes of modules that are there already."""
    for name in MADE_IN:
        if name in sys.modules:
            watch_module(name, sys.modules[name])


def watch_module(name: str, module: Any) -> None:
    """Watches the class of a module that was just loaded."""
    made = getattr(module, MADE_IN[name], None)
    if made is not None:
        made.__init__ = _wrapped(made.__init__)


def _wrapped(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def __init__(unit: Any, *args: Any, **named: Any) -> None:
        live = CURRENT.live
        if live is not None and len(UNITS) + len(REPLICATED) < MAX_UNITS:
            try:
                _note(args[0] if args else next(iter(named.values())))
            except Exception as error:  # noqa: BLE001 (a line is not worth the program)
                live.problem("a unit not noted", error)
        original(unit, *args, **named)

    return __init__


def _note(held: Any) -> None:
    """A unit with its parameters, before torch cuts them, or DDP with its module."""
    found = _FINDER.here()
    site = "" if found is None else f"{found.file}:{found.line}"
    if isinstance(held, torch.nn.Module):
        REPLICATED.append(site)
    else:
        UNITS.append((site, sum(each.numel() * each.element_size() for each in held)))
