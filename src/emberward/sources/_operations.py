"""The operations of a few steps, as torch's own profiler records them: what ran, when, on which shapes. Needs torch.

[Note: observed operations]
Between the warm-up and the sampled steps, `NUM_STEPS` steps run with torch's profiler on, operations of the host alone.
It sees what no Python call shows: collectives that C++ issues (DDP's, FSDP's) with their begin and end on gloo, and the
shapes of each matrix product. Spans of our own say in which module an operation runs, and which line of the program
called the outermost module or the backward. Of tensor operations only the copies to a device are wrapped, to ask
whether what they copy is pinned. The results are read by the sampling thread after the last sampled step, so that this
disturbs none.

A program that starts a profiler of its own ends ours first; one that has one running is not observed. Where a graph was
compiled modules are not told apart: a hook of ours would have it compiled again.
"""

import contextlib
import functools
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.autograd import profiler
from torch.nn.modules import module as modules

from emberward.events import Owner, main_package, owner_of
from emberward.sources._accesses import GIVEN, accesses_of
from emberward.sources._alike import MAX_CALLS, AlikeWatch
from emberward.sources._gradients import GradientWatch
from emberward.sources._held import HeldWatch
from emberward.sources._looks import Looks
from emberward.sources._parts import PartsWatch
from emberward.sources._quiet import quiet
from emberward.sources._results import ResultsWatch
from emberward.sources._returns import ReturnsWatch
from emberward.sources._units import REPLICATED, UNITS
from emberward.sources._values import has_compiled

NUM_STEPS = 5
MAX_OPERATIONS = 200_000
"""Of a rank; of longer steps the first operations are kept, and the file says that it is cut."""
MAX_FRAMES = 200
MAX_HASHED = 4096
"""Elements of a parameter by which replicas of it are told from shards."""
OPERATIONS_SUFFIX = ".ops"
FORM = 1
CREATE_GRAPH_AT = 3
"""Argument of torch's own function that runs a backward (torch/autograd/graph.py, `_engine_run_backward`)."""
COUNTED = re.compile(
    r"^aten::(mm|addmm|_addmm_activation|_scaled_mm|bmm|baddbmm|conv[123]d|convolution_backward|"
    r"_(scaled_dot_product_\w*attention\w*))$"
)
"""Operations within others that are kept: those whose floating-point operations are counted."""
_KERNEL = re.compile(r"^(?!torch::autograd|autograd::|FSDP|c10d::|emberward::)\w+::\w")
_MEMORY = "[memory]"
_WRAPPERS = re.compile(r"(^|\.)(module|_fsdp_wrapped_module|_checkpoint_wrapped_module|_orig_mod)(?=\.|$)")
MODULE, AT, BACKWARD = "emberward::module ", "emberward::at ", "emberward::backward "
_CPU = torch._C._profiler.ProfilerActivity.CPU


class OperationProbe:
    """Observes the steps between `start` and `stop`, both called by the training thread; `write` is for another."""

    def __init__(self, path: Path, *, head: Callable[[], dict[str, Any]]) -> None:
        self._path = path
        self._head = head
        self._result: Any = None
        self._bounds: list[int] = []
        self._offset_ns = 0
        self._open: list[Any] = []
        """Spans of modules whose forward has not ended, the outermost first."""
        self._names: dict[int, str] = {}
        self._roots: list[torch.nn.Module] = []
        self._undo: list[Callable[[], None]] = []
        self._parameters: list[list[Any]] = []
        self._why: str | None = None
        self._free_bytes: int | None = None
        self._looks = Looks()
        self._results = ResultsWatch(lambda: self._alike.is_reading)
        self._alike = AlikeWatch(self._results.read)
        self._gradients = GradientWatch(self._alike.inputs)
        self._returns = ReturnsWatch(lambda: self._alike.num_calls)
        self._held, self._parts = HeldWatch(), PartsWatch(lambda: self._alike.is_reading)
        self._graphs: list[tuple[int, int]] = []
        """Backwards that make a graph of their own, as a penalty on gradients does: none computes a forward again."""
        self._pageable: set[str] = set()
        """Lines that copy from memory which is not pinned to a device."""
        self.is_on = False

    # -- the training thread -----------------------------------------------------------------------------------------

    def compare(self) -> None:
        """The steps before those to observe are compared from now on."""
        self._alike.start()
        if self._alike.is_on:
            self._returns.start()
        self._held.start()
        self._parts.start()
        if self._alike.is_on:
            self._results.start()

    def start(self) -> None:
        """The steps to observe begin now. Where the program has a profiler running, none is."""
        self._returns.stop()
        self._alike.stepped()
        self._parts.stepped()
        for each in (self._results, self._alike, self._held, self._parts):
            each.stop()
        if torch._C._autograd._profiler_enabled():
            self._why = "the program runs a profiler of its own"
            return
        self._watch_others()
        self._watch_sites()
        self._gradients.start()
        settings: Any = profiler.profile(record_shapes=True, with_flops=True, profile_memory=True, use_kineto=True)
        config = settings.config(create_trace_id=True)
        torch._C._autograd._prepare_profiler(config, {_CPU})
        torch._C._autograd._enable_profiler(config, {_CPU})
        self._offset_ns = time.time_ns() - time.monotonic_ns()
        self._looks.start()
        self.is_on = True
        # The first span says which of the profiler's threads is this one.
        with profiler.record_function(f"{AT}start"):
            self._bounds.append(time.monotonic_ns())

    def stepped(self) -> bool:
        """A step has ended; whether more are to be observed."""
        self._alike.stepped()
        self._returns.stepped()
        self._results.stepped()
        self._parts.stepped()
        if self.is_on:
            self._bounds.append(time.monotonic_ns())
            if len(self._bounds) <= NUM_STEPS:
                return True
            self.stop()
        return False

    def stop(self) -> None:
        """Ends the observation; what was seen is kept for `write`."""
        if not self.is_on:
            return
        self.is_on = False
        self._looks.stop()
        while self._undo:
            self._undo.pop()()
        self._gradients.stop()
        while self._open:
            self._leave()
        with contextlib.suppress(RuntimeError):
            self._result = torch._C._autograd._disable_profiler()
        self._free_bytes = _free_bytes()
        for root in self._roots:
            self._parameters += [_parameter(_plain(name), value) for name, value in root.named_parameters()]
        self._roots.clear()

    def _watch_others(self) -> None:
        """A profiler that the program starts meanwhile ends ours: torch allows one."""
        for name in ("_prepare_profiler", "_enable_profiler"):
            self._replace(profiler, name, self._yielding(getattr(profiler, name)))

    def _yielding(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def yielding(*args: Any, **named: Any) -> Any:
            self._why = "the program started a profiler of its own"
            self.stop()
            return original(*args, **named)

        return yielding

    def _replace(self, owner: Any, name: str, new: object) -> None:
        original = getattr(owner, name)
        setattr(owner, name, new)
        self._undo.append(lambda: setattr(owner, name, original))

    def _watch_sites(self) -> None:
        engine: Any = torch.autograd
        run_backward = engine._engine_run_backward

        def backward(*args: Any, **named: Any) -> Any:
            site = _site(sys._getframe(1))
            begun, began_ns = self._gradients.begins(site, *args, **named), time.time_ns()
            try:
                with profiler.record_function(f"{BACKWARD}{site}"):
                    return run_backward(*args, **named)
            finally:
                self._gradients.ends(begun)
                if args[CREATE_GRAPH_AT : CREATE_GRAPH_AT + 1] == (True,):
                    self._graphs.append((began_ns, time.time_ns()))

        self._replace(torch.autograd, "_engine_run_backward", backward)
        if has_compiled():
            return
        enter, leave = (quiet(each, self._failed) for each in (self._enter, self._leave))
        before = modules.register_module_forward_pre_hook(enter)
        after = modules.register_module_forward_hook(lambda module, args, result: leave(), always_call=True)
        self._undo += [before.remove, after.remove]
        for name in ("to", "cuda", "copy_"):
            self._watch_copies(name)

    def _failed(self, error: Exception) -> None:
        """A hook raised: no more is observed."""
        self._why = f"{type(error).__name__} while it was observed: {error}"
        with contextlib.suppress(Exception):
            self.stop()

    def _watch_copies(self, name: str) -> None:
        """A copy to a device waits where its source is not pinned, which nobody can ask for afterwards."""
        original, is_own = getattr(torch.Tensor, name), name in vars(torch.Tensor)

        @functools.wraps(original)
        def copied(tensor: Any, *args: Any, **named: Any) -> Any:
            result = original(tensor, *args, **named)
            with contextlib.suppress(Exception):  # What a tensor class answers is its own; the copy is made.
                source = (args[0] if args else named["src"]) if name == "copy_" else tensor
                is_to_device = source.device.type == "cpu" and result.device.type not in ("cpu", "meta")
                if is_to_device and not source.is_pinned():
                    self._pageable.add(_site(sys._getframe(1)))
            return result

        setattr(torch.Tensor, name, copied)
        self._undo.append(lambda: setattr(torch.Tensor, name, original) if is_own else delattr(torch.Tensor, name))

    def _enter(self, module: torch.nn.Module, given: tuple[Any, ...]) -> None:
        if torch.compiler.is_compiling():
            return
        spans: list[Any] = []
        if not self._open:
            spans.append(profiler.record_function(f"{AT}{_site(sys._getframe(1))}"))
        if id(module) not in self._names:
            known = [*module.named_modules()]
            self._names.update({id(each): _plain(name) or type(each).__name__ for name, each in known})
            self._roots.append(module)
            self._gradients.watch(module)
        spans.append(profiler.record_function(f"{MODULE}{self._names[id(module)]}"))
        for span in spans:
            span.__enter__()
        self._open.append(spans)
        plain = [each for each in given if type(each) is torch.Tensor]
        if plain:
            # A view says which memory the module is given: what it does from here on needs that.
            with profiler.record_function(GIVEN):
                for each in plain:
                    each.detach()

    def _leave(self) -> None:
        if torch.compiler.is_compiling() or not self._open:
            return
        for span in reversed(self._open.pop()):
            span.__exit__(None, None, None)

    # -- beside it ---------------------------------------------------------------------------------------------------

    def write(self) -> None:
        """Writes what was observed, where anything was. A file that cannot be written is given up."""
        if self._result is None:
            return
        temporary = self._path.with_suffix(".tmp-ops")
        with contextlib.suppress(OSError):
            with temporary.open("w", encoding="utf-8") as file:
                for line in self._lines():
                    file.write(json.dumps(line) + "\n")
            temporary.replace(self._path)
        self._result = None

    def _lines(self) -> Iterator[dict[str, Any]]:
        rows, is_cut = _kept(self._result.events())
        words: dict[str, int] = {}
        yield {
            "form": FORM,
            "bounds_ns": self._bounds,
            "offset_ns": self._offset_ns,
            "free_bytes": self._free_bytes,
            "pageable": sorted(self._pageable),
            "why_short": self._why,
            "is_cut": is_cut,
            "units": UNITS,
            "replicated": REPLICATED,
            **self._head(),
        }
        yield from ({"parameter": each} for each in self._parameters)
        for row in rows:
            numbers = []
            for text in (row.name(), json.dumps([row.shapes(), row.dtypes()])):
                if text not in words:
                    words[text] = len(words)
                    yield {"word": text}
                numbers.append(words[text])
            yield {
                "op": [
                    *numbers,
                    row.start_thread_id(),
                    row.start_ns(),
                    row.duration_ns(),
                    -1 if self._is_of_graph(row) else row.sequence_nr(),
                    row.flops(),
                    int(row.is_async()),
                ]
            }
        if any(row.name().startswith("c10d::") for row in rows):
            yield from accesses_of(self._result)
        yield from self._gradients.lines()
        yield from self._alike.lines()
        yield from self._returns.lines()
        if self._alike.num_calls <= MAX_CALLS:
            yield from self._results.lines()
        yield from self._held.lines()
        yield from self._parts.lines()
        yield from self._looks.lines()
        yield {"end": True}

    def _is_of_graph(self, row: Any) -> bool:
        """Whether an operation of a backward was kept for a backward through it."""
        return bool(_KERNEL.match(row.name())) and any(began <= row.start_ns() <= end for began, end in self._graphs)


def _kept(events: list[Any]) -> tuple[list[Any], bool]:
    """The outermost operations of each thread, spans, collectives, and what is counted; whether more were left out."""
    until: dict[int, int] = {}
    kept: list[Any] = []
    ordered = sorted(events, key=lambda each: (each.start_ns(), -each.duration_ns()))
    for index, event in enumerate(ordered):
        name, thread, start = event.name(), event.start_thread_id(), event.start_ns()
        if name == _MEMORY:
            continue
        if not event.is_async() and _KERNEL.match(name):
            is_inside = start < until.get(thread, 0)
            if is_inside and (not COUNTED.match(name) or _is_broken_off(ordered, index)):
                continue
            until[thread] = max(until.get(thread, 0), event.end_ns())
        if len(kept) == MAX_OPERATIONS:
            return kept, True
        kept.append(event)
    return kept, False


def _is_broken_off(ordered: list[Any], index: int) -> bool:
    """Whether an operation only packed what it saves: checkpointing stops a forward there when it has all of it.

    See ``_StopRecomputationError`` in torch/utils/checkpoint.py (2.13): it is raised by the hook, before the kernel.
    """
    event = ordered[index]
    inside = []
    for other in ordered[index + 1 :]:
        if other.start_ns() >= event.end_ns():
            break
        if other.start_thread_id() == event.start_thread_id():
            inside.append(other.name())
    return bool(inside) and all(name.endswith("detach") for name in inside)


def _site(frame: FrameType | None) -> str:
    """file:line of the program's innermost frame; empty where none is the program's."""
    for _ in range(MAX_FRAMES):
        if frame is None:
            break
        if owner_of(frame.f_code.co_filename, main_package()) is Owner.USER:
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _plain(name: str) -> str:
    """A module's or parameter's name without those that wrappers (DDP, FSDP, checkpointing, a compiler) put into it."""
    return _WRAPPERS.sub("", name).strip(".")


def _parameter(name: str, value: torch.Tensor) -> list[Any]:
    """Name, elements over all shards, elements here, and a number by which replicas are alike and shards are not.

    A DTensor has the whole shape; FSDP1's flat parameter the sizes of those that it holds; DeepSpeed's ``ds_numel``.
    Where none of them says it, ranks that hold other numbers hold other elements. None on a device, which is not asked.
    """
    local = getattr(value, "_local_tensor", value)
    flat = getattr(value, "_numels", None)
    whole = getattr(value, "ds_numel", None) or (sum(flat) if flat else None) or value.numel()
    is_told = whole != local.numel() or local is not value
    mark = None
    if not is_told and local.device.type == "cpu" and local.numel():
        mark = float(local.detach().reshape(-1)[:MAX_HASHED].double().sum())
    return [name, int(whole), int(local.numel()), mark]


def _free_bytes() -> int | None:
    """Memory of the host that could still be had, as the kernel tells; None where it does not, or a device has its own.

    Source: MemAvailable, proc(5).
    """
    if torch.cuda.is_available():
        return None
    with contextlib.suppress(OSError, StopIteration, ValueError), Path("/proc/meminfo").open(encoding="ascii") as file:
        return 1024 * next(int(line.split()[1]) for line in file if line.startswith("MemAvailable:"))
    return None
