"""Lets a script that asks for CUDA run on a machine without: every CUDA device is the CPU. Needs torch.

What a script asks of shapes, groups and calls is the same; memory, streams and kernels are not examined. What is played
stands below torch's own classes and functions, which keep their names, signatures and Python code (`_driver.py`).
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp import autocast_mode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import TorchFunctionMode

from emberward.sources.script._driver import play_driver
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
        if func is Tensor.record_stream:
            return None
        if func is Tensor.to and len(args) > 1 and isinstance(args[1], int):
            args = (args[0], "cpu", *args[2:])
        if func is not torch.device:
            args = tuple("cpu" if _is_cuda(value) else value for value in args)
        if _is_cuda(named.get("device")) or isinstance(named.get("device"), int):
            named["device"] = "cpu"
        named.pop("pin_memory", None)
        return pass_on(func, args, named)


def _own_self(value: Any, device: Any = None) -> Any:
    del device
    return value


def _on_cpu(original: Callable[..., Any]) -> Callable[..., Any]:
    """`original` with the CPU for each CUDA device among its arguments."""

    @functools.wraps(original)
    def wrapper(*args: Any, **named: Any) -> Any:
        args = tuple("cpu" if _is_cuda(value) else value for value in args)
        named = {name: "cpu" if _is_cuda(value) else value for name, value in named.items()}
        return pass_on(original, args, named)

    return wrapper


def _to(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def to(self: Any, *args: Any, **named: Any) -> Any:
        args = tuple("cpu" if _is_cuda(value) or type(value) is int else value for value in args)
        if _is_cuda(named.get("device")) or type(named.get("device")) is int:
            named["device"] = "cpu"
        return pass_on(original, (self, *args), named)

    return to


def _ddp(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def ddp(
        self: Any, module: Any, device_ids: Any = None, output_device: Any = None, *args: Any, **named: Any
    ) -> None:
        del device_ids, output_device
        pass_on(original, (self, module, None, None, *args), named)

    return ddp


def _fsdp(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def fsdp(self: Any, *args: Any, **named: Any) -> None:
        if named.get("device_id") is not None:
            named["device_id"] = torch.device("cpu")
        pass_on(original, (self, *args), named)

    return fsdp


def _autocast(original: Callable[..., Any]) -> Callable[..., Any]:
    """Autocast of the CPU with the type that CUDA's would have, so that what is sent has that type."""

    @functools.wraps(original)
    def autocast(self: Any, device_type: Any, dtype: Any = None, *args: Any, **named: Any) -> None:
        if _is_cuda(device_type):
            device_type, dtype = "cpu", dtype or torch.get_autocast_dtype("cuda")
        pass_on(original, (self, device_type, dtype, *args), named)

    return autocast


@contextlib.contextmanager
def cuda_is_cpu(num_devices: int) -> Iterator[bool]:
    """Plays a machine of `num_devices` CUDA devices while open, unless there are real ones; gives whether it does."""
    if torch.cuda.is_available():
        yield False
        return
    play_driver(num_devices)
    # Asked before torch's own packages: what was saved on a CUDA device, or shall be loaded there, stays where it is.
    torch.serialization.register_package(
        0, lambda storage: None, lambda storage, location: storage if location.startswith("cuda") else None
    )
    module: Any = nn.Module
    module.cuda, module.to = functools.wraps(module.cuda)(_own_self), _to(module.to)
    classes: dict[Any, Callable[..., Any]] = {
        DistributedDataParallel: _ddp,
        FullyShardedDataParallel: _fsdp,
        DeviceMesh: _on_cpu,
        autocast_mode.autocast: _autocast,
    }
    for kind, stand_in in classes.items():
        kind.__init__ = stand_in(kind.__init__)
    torch.set_default_device = _on_cpu(torch.set_default_device)
    with CudaIsCpu():
        yield True
