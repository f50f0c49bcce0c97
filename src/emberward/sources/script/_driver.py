"""A CUDA driver that does nothing, below torch's own Python code: its classes, names and signatures stay. Needs torch.

Sources: torch 2.13, torch/cuda/__init__.py, streams.py, memory.py, random.py, nvtx.py; what its C++ answers there, in
torch/csrc/cuda/Stream.cpp, Event.cpp and ATen/cuda/CUDAEvent.h. The device is one of compute capability 8.0 as the CUDA
C++ Programming Guide has it (Compute Capabilities, table of technical specifications).
"""

import functools
import importlib
import inspect
import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.cuda.memory
import torch.cuda.nvtx
import torch.cuda.profiler
import torch.cuda.random
import torch.cuda.streams

from emberward.sources.script._stand_ins import not_examined, pass_on, raise_as_torch

NAME = "examined"
MEMORY_BYTES = 1 << 36
_CUDA = 1  # c10::DeviceType::CUDA
_numbers = itertools.count(1)


class _Host(threading.local):
    """What CUDA keeps for each host thread: the current device, and the current stream of each."""

    def __init__(self) -> None:
        self.device = 0
        self.streams: dict[int, int] = {}


_host = _Host()


class StreamBase(torch.Stream):
    """What torch.cuda.Stream derives from: a stream in which all is done already."""

    priority = 0

    def __new__(
        cls, priority: int = 0, stream_id: int | None = None, device_index: int | None = None,
        device_type: int = _CUDA, stream_ptr: int | None = None,
    ) -> Any:  # fmt: skip
        """A new stream, or the one of that number."""
        del priority, device_type
        number = stream_id if stream_id is not None else stream_ptr if stream_ptr is not None else next(_numbers)
        index = _host.device if device_index is None else device_index
        made: Any = super().__new__
        return made(cls, stream_id=number, device_index=index, device_type=_CUDA)

    def __init__(self, *args: Any, **named: Any) -> None:
        """Nothing is left to do."""

    @property
    def cuda_stream(self) -> int:
        """A handle."""
        return self.stream_id

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Least and greatest."""
        return (0, -5)

    def query(self) -> bool:
        """All is done."""
        return True

    def synchronize(self) -> None:
        """All is done."""

    def __enter__(self) -> Any:
        """Makes it the current one."""
        self._before = torch.cuda.current_stream()
        select: Any = torch.cuda.set_stream
        select(self)
        return self

    def __exit__(self, *error: object) -> None:
        torch.cuda.set_stream(self._before)


class EventBase(torch.Event):
    """What torch.cuda.Event derives from: it knows when the host recorded it."""

    _recorded_s: float | None
    _has_time: bool

    def __new__(
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ) -> Any:
        """A new event."""
        del blocking, interprocess, external
        made: Any = super().__new__(cls, "cpu")
        made._recorded_s, made._has_time = None, enable_timing
        return made

    def __init__(self, *args: Any, **named: Any) -> None:
        """Nothing is left to do."""

    @property
    def cuda_event(self) -> int:
        """A handle, 0 before it is recorded."""
        return 0 if self._recorded_s is None else id(self)

    @property
    def device(self) -> torch.device:  # type: ignore[override]  # its stub says that it can be set
        """Where it is recorded."""
        return torch.device("cuda", _host.device)

    def record(self, stream: Any = None) -> None:
        """Notes the time."""
        del stream
        self._recorded_s = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        """All is done."""

    def query(self) -> bool:
        """All is done."""
        return True

    def synchronize(self) -> None:
        """All is done."""

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds of the host between the two."""
        if not (self._has_time and end_event._has_time):
            raise_as_torch(ValueError("Both events must be created with argument 'enable_timing=True'."))
        if self._recorded_s is None or end_event._recorded_s is None:
            raise_as_torch(ValueError("Both events must be recorded before calculating elapsed time."))
        return float(end_event._recorded_s - self._recorded_s) * 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProperties:
    """What torch.cuda.get_device_properties tells."""

    name: str = NAME
    major: int = 8
    minor: int = 0
    total_memory: int = MEMORY_BYTES
    multi_processor_count: int = 108
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    max_threads_per_multi_processor: int = 2048
    max_threads_per_block: int = 1024
    warp_size: int = 32
    regs_per_multiprocessor: int = 65536
    shared_memory_per_block: int = 49152
    shared_memory_per_block_optin: int = 166912
    shared_memory_per_multiprocessor: int = 167936
    L2_cache_size: int = 40 << 20
    clock_rate: int = 1410000
    memory_clock_rate: int = 1215000
    memory_bus_width: int = 5120
    pci_bus_id: int = 0
    pci_device_id: int = 0
    pci_domain_id: int = 0
    gcnArchName: str = NAME
    uuid: str = "00000000-0000-0000-0000-000000000000"


def _stats() -> dict[str, int]:
    """The counters that torch.cuda.memory_stats documents, all 0."""
    pooled = (
        "allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes", "active_bytes",
        "inactive_split_bytes", "requested_bytes",
    )  # fmt: skip
    values = ("current", "peak", "allocated", "freed")
    found: dict[str, int] = defaultdict(int)
    found |= {f"{n}.{pool}.{v}": 0 for n in pooled for pool in ("all", "large_pool", "small_pool") for v in values}
    found |= {f"{name}.{value}": 0 for name in ("oversize_allocations", "oversize_segments") for value in values}
    return found | dict.fromkeys(("num_alloc_retries", "num_ooms", "num_sync_all_streams"), 0)


class _Ranges:
    """NVTX: depth of a range, or its handle."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        del name
        return lambda *args: 0


def _index(device: Any) -> int:
    """The index of a device as torch reads it; the current one for None."""
    return int(pass_on(torch.cuda._utils._get_device_index, (device,), {"optional": True}))


def _exchange(asked: dict[str, Any]) -> int:
    before = _host.device
    if asked["device"] >= 0:
        _host.device = asked["device"]
    return before


def _set_stream(asked: dict[str, Any]) -> None:
    stream = asked["stream"]
    if stream is not None:
        _host.device = stream.device_index
        _host.streams[stream.device_index] = stream.stream_id


def _stream(device: Any, *, is_default: bool) -> Any:
    index = _index(device)
    number = 0 if is_default else _host.streams.get(index, 0)
    made: Any = torch.cuda.Stream
    return made(stream_id=number, device_index=index, device_type=_CUDA)


def _answers(num_devices: int) -> dict[Any, dict[str, Callable[[dict[str, Any]], Any]]]:
    """For functions of each module what is answered; it takes the arguments by name, defaults among them."""
    cuda: Any = torch.cuda
    names = (
        "synchronize", "init", "_lazy_init", "ipc_collect", "set_sync_debug_mode",
    )  # fmt: skip
    of_memory = (
        "empty_cache", "reset_peak_memory_stats", "reset_accumulated_memory_stats", "reset_peak_host_memory_stats",
        "reset_accumulated_host_memory_stats", "set_per_process_memory_fraction", "_record_memory_history",
    )  # fmt: skip
    numbers = (
        "device_memory_used", "memory_usage", "utilization", "temperature", "power_draw", "clock_rate",
        "get_sync_debug_mode", "current_blas_handle",
    )  # fmt: skip
    return {
        cuda: {
            **dict.fromkeys(names, lambda asked: None),
            **dict.fromkeys(numbers, lambda asked: 0),
            **dict.fromkeys(
                ("is_available", "is_initialized", "is_bf16_supported", "is_tf32_supported", "can_device_access_peer"),
                lambda asked: True,
            ),
            "device_count": lambda asked: num_devices,
            "current_device": lambda asked: _host.device,
            "set_device": lambda asked: _exchange({"device": _index(asked["device"])}) and None,
            "_exchange_device": _exchange,
            "_maybe_exchange_device": _exchange,
            "get_device_name": lambda asked: NAME,
            "get_device_capability": lambda asked: (DeviceProperties().major, DeviceProperties().minor),
            "get_device_properties": lambda asked: DeviceProperties(),
            "current_stream": lambda asked: _stream(asked["device"], is_default=False),
            "default_stream": lambda asked: _stream(asked["device"], is_default=True),
            "set_stream": _set_stream,
        },
        torch.cuda.memory: {
            **dict.fromkeys(of_memory, lambda asked: None),
            **dict.fromkeys(("memory_stats", "host_memory_stats"), lambda asked: _stats()),
            **dict.fromkeys(
                ("memory_stats_as_nested_dict", "host_memory_stats_as_nested_dict", "_snapshot"), lambda asked: {}
            ),
            "memory_snapshot": lambda asked: [],
            "mem_get_info": lambda asked: (MEMORY_BYTES, MEMORY_BYTES),
            "get_per_process_memory_fraction": lambda asked: 1.0,
            "get_allocator_backend": lambda asked: "native",
            "list_gpu_processes": lambda asked: f"GPU:{_index(asked['device'])}\nno processes are running",
        },
        torch.cuda.random: {
            **dict.fromkeys(("manual_seed", "manual_seed_all", "seed", "seed_all"), lambda asked: None),
            "initial_seed": lambda asked: torch.initial_seed(),
            "get_rng_state": lambda asked: torch.get_rng_state(),
            "get_rng_state_all": lambda asked: [torch.get_rng_state() for _ in range(num_devices)],
            "set_rng_state": lambda asked: pass_on(torch.set_rng_state, (asked["new_state"],), {}),
            "set_rng_state_all": lambda asked: (
                [pass_on(torch.set_rng_state, (state,), {}) for state in list(asked["new_states"])[:1]] and None
            ),
        },
        torch.cuda.profiler: dict.fromkeys(("start", "stop"), lambda asked: None),
        torch.backends.cuda: {"is_built": lambda asked: True},
    }


def _played(original: Callable[..., Any], answer: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
    """`answer` behind the name and the signature of `original`."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def played(*args: Any, **named: Any) -> Any:
        bound = pass_on(signature.bind, args, named)
        bound.apply_defaults()
        return answer(bound.arguments)

    return played


def play_driver(num_devices: int) -> None:
    """Puts the driver below torch.cuda for the rest of this process."""
    for module, answers in _answers(num_devices).items():
        for name, answer in answers.items():
            original = getattr(module, name, None)
            if original is not None:
                stand_in = _played(original, answer)
                for place in (module, torch.cuda, torch.cuda.memory, torch.cuda.random):
                    if getattr(place, name, None) is original:
                        setattr(place, name, stand_in)
    below: Any = torch._C
    ranges: Any = torch.cuda.nvtx
    ranges._nvtx = _Ranges()
    below._CudaStreamBase, below._CudaEventBase = StreamBase, EventBase
    streams: Any = importlib.reload(torch.cuda.streams)
    for name in ("Stream", "ExternalStream", "Event"):
        setattr(torch.cuda, name, getattr(streams, name))
    streams.Event.ipc_handle = not_examined(streams.Event.ipc_handle, "Event.ipc_handle")
    streams.Event.from_ipc_handle = classmethod(
        not_examined(streams.Event.from_ipc_handle.__func__, "Event.from_ipc_handle")
    )
