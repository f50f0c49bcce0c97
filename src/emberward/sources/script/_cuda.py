"""Lets a script that asks for CUDA run on a machine without: every CUDA device is the CPU. Needs torch.

What a script asks of shapes, groups and calls is the same; memory, streams and kernels are not examined.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed import device_mesh
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import TorchFunctionMode

from emberward.sources.script._stand_ins import pass_on


def _is_cuda(value: Any) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))


class CudaIsCpu(TorchFunctionMode):
    """Reads every CUDA device in an argument as the CPU."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        if func is Tensor.cuda or func is Tensor.pin_memory:
            return args[0]
        if func is Tensor.to and len(args) > 1 and isinstance(args[1], int):
            args = (args[0], "cpu", *args[2:])
        if func is not torch.device:
            args = tuple("cpu" if _is_cuda(value) else value for value in args)
        if _is_cuda(named.get("device")) or isinstance(named.get("device"), int):
            named["device"] = "cpu"
        named.pop("pin_memory", None)
        return pass_on(func, args, named)


class _Stream:
    """A stream that does nothing: the CPU has one order."""

    def __init__(self, *args: Any, **named: Any) -> None:
        del args, named

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **named: None

    def __enter__(self) -> "_Stream":
        return self

    def __exit__(self, *error: object) -> None:
        return None


def _nothing(*args: Any, **named: Any) -> None:
    del args, named


def _own_self(value: Any, *args: Any, **named: Any) -> Any:
    del args, named
    return value


def _first_cpu(original: Callable[..., Any]) -> Callable[..., Any]:
    """`original` with the CPU for a device type given first or by name."""

    @functools.wraps(original)
    def wrapper(*args: Any, **named: Any) -> Any:
        args = tuple("cpu" if _is_cuda(value) else value for value in args)
        named = {name: "cpu" if _is_cuda(value) else value for name, value in named.items()}
        return pass_on(original, args, named)

    return wrapper


@contextlib.contextmanager
def cuda_is_cpu(num_devices: int) -> Iterator[None]:
    """Plays a machine of `num_devices` CUDA devices while open, unless there are real ones."""
    if torch.cuda.is_available():
        yield
        return
    cuda: Any = torch.cuda
    played = {
        "is_available": lambda: True,
        "device_count": lambda: num_devices,
        "current_device": lambda: 0,
        "get_device_name": lambda *args: "examined",
        "memory_allocated": lambda *args: 0,
        "max_memory_allocated": lambda *args: 0,
        "mem_get_info": lambda *args: (1 << 36, 1 << 36),
        "get_device_capability": lambda *args: (8, 0),
        "is_bf16_supported": lambda *args: True,
        "set_device": _nothing,
        "synchronize": _nothing,
        "empty_cache": _nothing,
        "init": _nothing,
        "manual_seed": _nothing,
        "manual_seed_all": _nothing,
        "reset_peak_memory_stats": _nothing,
        "get_rng_state": lambda *args: torch.get_rng_state(),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
        "set_rng_state": lambda state, *args: torch.set_rng_state(state),
        "set_rng_state_all": lambda states: torch.set_rng_state(states[0]),
        "initial_seed": torch.initial_seed,
        "seed": _nothing,
        "seed_all": _nothing,
        "memory_reserved": lambda *args: 0,
        "max_memory_reserved": lambda *args: 0,
        "memory_stats": lambda *args: {},
        "ipc_collect": _nothing,
        "is_initialized": lambda: True,
        "Stream": _Stream,
        "Event": _Stream,
        "stream": _Stream,
        "current_stream": _Stream,
        "device": _Stream,
    }
    for name, value in played.items():
        for module in (cuda, cuda.random, cuda.memory):
            if module is cuda or hasattr(module, name):
                setattr(module, name, value)
    # Asked before torch's own packages: what was saved on a CUDA device, or shall be loaded there, stays where it is.
    torch.serialization.register_package(
        0, lambda storage: None, lambda storage, location: storage if location.startswith("cuda") else None
    )
    nn.Module.cuda = _own_self  # type: ignore[method-assign,assignment]
    original_to = nn.Module.to

    @functools.wraps(original_to)
    def to(module: Any, *args: Any, **named: Any) -> Any:
        args = tuple("cpu" if _is_cuda(value) or type(value) is int else value for value in args)
        if _is_cuda(named.get("device")) or type(named.get("device")) is int:
            named["device"] = "cpu"
        return pass_on(original_to, (module, *args), named)

    nn.Module.to = to  # type: ignore[method-assign,assignment]
    original_ddp = DistributedDataParallel.__init__

    @functools.wraps(original_ddp)
    def ddp(
        self: Any, module: Any, device_ids: Any = None, output_device: Any = None, *args: Any, **named: Any
    ) -> None:
        del device_ids, output_device
        pass_on(original_ddp, (self, module, None, None, *args), named)

    DistributedDataParallel.__init__ = ddp  # type: ignore[method-assign]
    device_mesh.init_device_mesh = _first_cpu(device_mesh.init_device_mesh)
    setattr(torch.distributed, "init_device_mesh", device_mesh.init_device_mesh)  # noqa: B010 (not in its stub)
    with CudaIsCpu():
        yield
