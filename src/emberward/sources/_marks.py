"""Finds the phases of any program: which step, and what it is doing in it. Needs torch.

[Note: how phases are found]
* step: the calls of the first optimizer that steps (its hooks are torch's public ones), counted from 0;
* data: the time inside ``next`` of a DataLoader's iterator, and a moment when it ends;
* backward: ``torch.autograd.backward``, which ``Tensor.backward`` calls;
* evaluation: from ``Module.eval`` or ``train(False)`` of a module in training until ``train`` of that module, the next
  backward or step;
* save, load: ``torch.save``, ``torch.load``, ``torch.distributed.checkpoint``'s;
* compile: torch._dynamo's own callbacks;
* units of sharding: no marks; their lines are kept for the lens (`_units`);
* the end: exceptions that leave the main thread or another one, the main thread's end while others linger, and that
  the calls below Python were counted then; see also [Note: children of multiprocessing].

Whatever a program does otherwise has no phase. Each is a mark in the ring; none changes what is called.
"""

import atexit
import functools
import multiprocessing
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any
from weakref import ref

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import dataloader

from emberward.events import KEPT_BY
from emberward.sources._live import CURRENT, LiveRecorder
from emberward.sources._units import MADE_IN, watch_module, watch_units
from emberward.sources.ring import MarkKind

MAX_TEXT = 300
"""Characters of an exception's text that are kept."""


def mark_everything() -> None:
    """Puts the marks on. Called once in a process, with torch loaded."""
    mark_steps()
    iterator: Any = dataloader._BaseDataLoaderIter
    iterator.__next__ = _wrapped_next(iterator.__next__)
    torch.autograd.backward = _wrapped_backward(torch.autograd.backward)
    module: Any = torch.nn.Module
    module.eval = _wrapped_eval(module.eval)
    module.train = _wrapped_train(module.train)
    parallel: Any = torch.nn.parallel.DistributedDataParallel
    if hasattr(parallel, "_sync_buffers"):
        # Broadcast below Python before a forward, where ranks wait for one that comes late.
        parallel._sync_buffers = _wrapped_file(MarkKind.BUFFERS, parallel._sync_buffers)
    for name, kind in (("save", MarkKind.SAVE), ("load", MarkKind.LOAD)):
        wrapped = _wrapped_file(kind, getattr(torch, name))
        setattr(torch, name, wrapped)
        setattr(torch.serialization, name, wrapped)
    for name in ("torch.distributed.checkpoint.state_dict_saver", "torch.distributed.checkpoint.state_dict_loader"):
        if name in sys.modules:
            loaded(name, sys.modules[name])
    watch_units()
    if "torch._dynamo.callback" in sys.modules:
        loaded("torch._dynamo.callback", sys.modules["torch._dynamo.callback"])
    sys.exit = _wrapped_exit(sys.exit)
    sys.excepthook = _wrapped_hook(sys.excepthook)
    threading.excepthook = _wrapped_thread_hook(threading.excepthook)
    if multiprocessing.parent_process() is not None:
        for name in ("print_exc", "format_exc"):
            setattr(traceback, name, _wrapped_report(getattr(traceback, name)))
    threading._register_atexit(_main_ends)  # type: ignore[attr-defined]
    atexit.register(_process_ends)


@functools.cache
def mark_steps() -> None:
    """Marks the steps of optimizers. Not to be called first while one steps: torch walks over its hooks meanwhile."""
    register_optimizer_step_pre_hook(_before_step)
    register_optimizer_step_post_hook(_after_step)


def loaded(name: str, module: Any) -> None:
    """Marks what a module brings that was loaded later than the recorder."""
    parent = sys.modules.get("torch.distributed.checkpoint")
    if name.endswith("saver"):
        for function in ("save", "async_save"):
            _replace_both(module, parent, function, _wrapped_file(MarkKind.SAVE, getattr(module, function)))
    elif name.endswith("loader"):
        _replace_both(module, parent, "load", _wrapped_file(MarkKind.LOAD, module.load))
    elif name.endswith("callback"):
        module.callback_handler.register_start_callback(_compile_begins)
        module.callback_handler.register_end_callback(_compile_ends)
    elif name in MADE_IN:
        watch_module(name, module)


def _replace_both(module: Any, parent: Any, name: str, value: Any) -> None:
    if parent is not None and getattr(parent, name, None) is getattr(module, name):
        setattr(parent, name, value)
    setattr(module, name, value)


def _begin(live: LiveRecorder | None, kind: MarkKind, name: str | None = None) -> int | None:
    """The number of a mark that begins now, None without a recorder. Never raises."""
    if live is None:
        return None
    try:
        return live.writer.begin(kind, name, site=live.sites.here())
    except Exception as error:  # noqa: BLE001 (a mark is not worth the program)
        live.problem(f"{kind.value} not marked", error)
        return None


def _end(live: LiveRecorder | None, number: int | None) -> None:
    """Ends the mark. Never raises, and writes nothing in a child that was forked since it began."""
    if live is None or number is None or CURRENT.live is not live:
        return
    try:
        live.writer.end(number)
    except Exception as error:  # noqa: BLE001 (a mark is not worth the program)
        live.problem("an end not marked", error)


def _moment(live: LiveRecorder | None, kind: MarkKind, name: str | None = None, *, site: int = 0) -> None:
    """Notes something that happens now. Never raises."""
    if live is None or CURRENT.live is not live:
        return
    try:
        live.writer.moment(kind, name, site=site)
    except Exception as error:  # noqa: BLE001 (a mark is not worth the program)
        live.problem(f"{kind.value} not marked", error)


# -- steps and data ----------------------------------------------------------------------------------------------------


def _before_step(optimizer: Any, args: Any, named: Any) -> None:
    del args, named
    if torch.compiler.is_compiling():
        return
    live = CURRENT.live
    if live is not None and live.is_counted(optimizer):
        _end_evaluation(live)
        live.steps.mark = _begin(live, MarkKind.OPTIMIZER)


def _after_step(optimizer: Any, args: Any, named: Any) -> None:
    del args, named
    if torch.compiler.is_compiling():
        return
    live = CURRENT.live
    if live is None or not live.is_counted(optimizer):
        return
    _end(live, live.steps.mark)
    live.steps.mark = None
    try:
        if not live.steps.is_told:
            live.steps.end(live.writer)
    except Exception as error:  # noqa: BLE001 (a mark is not worth the program)
        live.problem("a step not marked", error)


def _wrapped_next(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(original)
    def __next__(iterator: Any) -> Any:
        live = CURRENT.live
        number = _begin(live, MarkKind.DATA)
        try:
            return original(iterator)
        except StopIteration:
            _moment(live, MarkKind.DATA_END)
            raise
        finally:
            _end(live, number)

    return __next__


# -- backward, evaluation, files, compilation --------------------------------------------------------------------------


def _wrapped_backward(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def backward(*args: Any, **named: Any) -> Any:
        if torch.compiler.is_compiling():
            return original(*args, **named)
        live = CURRENT.live
        if live is None:
            return original(*args, **named)
        _end_evaluation(live)
        outer = live.sites.enclosing
        number = _begin(live, MarkKind.BACKWARD)
        live.sites.enclosing = live.sites.here()
        try:
            return original(*args, **named)
        finally:
            live.sites.enclosing = outer
            _end(live, number)

    return backward


def _wrapped_eval(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(original)
    def eval(module: Any) -> Any:
        if torch.compiler.is_compiling():
            return original(module)
        if CURRENT.live is not None:
            _begin_evaluation(CURRENT.live, module)
        return original(module)

    return eval


def _wrapped_train(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def train(module: Any, mode: bool = True) -> Any:
        if torch.compiler.is_compiling():
            return original(module, mode)
        live = CURRENT.live
        if live is not None and not mode:
            _begin_evaluation(live, module)
        elif live is not None and live.steps.evaluation is not None and _is_main():
            evaluated = live.steps.evaluated
            if evaluated is None or evaluated() in (module, None):
                _end_evaluation(live)
        return original(module, mode)

    return train


def _begin_evaluation(live: LiveRecorder, module: Any) -> None:
    if live.steps.evaluation is None and module.training and _is_main():
        live.steps.evaluated = ref(module)
        live.steps.evaluation = _begin(live, MarkKind.EVAL, type(module).__name__)


def _end_evaluation(live: LiveRecorder) -> None:
    if live.steps.evaluation is not None and _is_main():
        _end(live, live.steps.evaluation)
        live.steps.evaluation = None


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _wrapped_file(kind: MarkKind, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **named: Any) -> Any:
        if torch.compiler.is_compiling():
            return original(*args, **named)
        live = CURRENT.live
        number = _begin(live, kind, original.__name__)
        try:
            return original(*args, **named)
        finally:
            _end(live, number)

    return call


_COMPILES: list[int] = []
"""The marks of compilations that are open. One inside another is part of it."""


def _compile_begins(args: Any) -> None:
    del args
    number = _begin(CURRENT.live, MarkKind.COMPILE)
    if number is not None:
        _COMPILES.append(number)


def _compile_ends(args: Any) -> None:
    del args
    if _COMPILES:
        _end(CURRENT.live, _COMPILES.pop())


# -- the end -----------------------------------------------------------------------------------------------------------


def _wrapped_hook(previous: Callable[..., Any]) -> Callable[..., Any]:
    def hook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        _note_exception(MarkKind.EXCEPTION, kind, value, trace)
        previous(kind, value, trace)

    return hook


def _wrapped_thread_hook(previous: Callable[..., Any]) -> Callable[..., Any]:
    def hook(args: Any) -> None:
        if args.exc_type is not SystemExit:
            _note_exception(MarkKind.THREAD_DIED, args.exc_type, args.exc_value, args.exc_traceback)
        previous(args)

    return hook


def _note_exception(
    kind: MarkKind, type_: type[BaseException], value: BaseException | None, trace: TracebackType | None
) -> None:
    live = CURRENT.live
    if live is None:
        return
    try:
        live.writer.moment(kind, _text_of(type_, value), site=live.sites.raised_at(trace))
    except Exception as error:  # noqa: BLE001 (str() of a user's exception may raise)
        live.problem("an exception not marked", error)


def _text_of(type_: type[BaseException], value: BaseException | None) -> str:
    lines = [line for line in str(value).splitlines() if line.strip()]
    text = f"{type_.__name__}: {lines[0]}" if lines else type_.__name__
    if len(lines) > 1 and lines[0].startswith("Caught ") and lines[0].endswith("."):
        # torch raises anew what a worker raised: its own words stand at the end (torch/_utils.py, ExceptionWrapper).
        text = f"{text.removesuffix('.')}: {lines[-1].partition(': ')[2]}"
    return text[:MAX_TEXT]


_REPORTED: list[tuple[str, int]] = []
"""Text and site of what a child of multiprocessing reported last: no exception, which would keep its frames alive."""


def _wrapped_report(original: Callable[..., Any]) -> Callable[..., Any]:
    """`traceback.print_exc` or `format_exc`, which also remembers what the main thread handles.

    [Note: children of multiprocessing]
    `Process` and torch's `spawn` catch what a child's function raises, write its traceback with one of the two, and end
    with exit code 1: no hook of Python's sees it. The exception counts when the process then ends with an error.
    """

    @functools.wraps(original)
    def report(*args: Any, **named: Any) -> Any:
        kind, value, trace = sys.exc_info()
        live = CURRENT.live
        if live is not None and kind is not None and _is_main():
            try:
                _REPORTED[:] = [(_text_of(kind, value), live.sites.raised_at(trace))]
            except Exception as error:  # noqa: BLE001 (as above)
                live.problem("an exception not marked", error)
        del value, trace
        return original(*args, **named)

    return report


def _ends_badly() -> bool:
    """Whether multiprocessing ends this process with an error, by the frame of its start."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "_bootstrap":
            return frame.f_locals.get("exitcode") not in (None, 0)
        frame = frame.f_back
    return False


_LEFT_AT: list[int] = []
"""The line at which the main thread last called `sys.exit`, or else destroyed its groups."""


def _wrapped_exit(original: Callable[..., Any]) -> Callable[..., Any]:
    """`sys.exit`, which remembers the line: no hook of Python's sees a program leave by it."""

    @functools.wraps(original)
    def leave(*args: Any) -> Any:
        note_exit()
        return original(*args)

    return leave


def forget_exit() -> None:
    """The program goes on after all: it has made a process group again."""
    _LEFT_AT.clear()


def note_exit() -> None:
    """Remembers the line of the program at which the main thread is: it is about to end. Never raises."""
    live = CURRENT.live
    if live is not None and _is_main():
        try:
            _LEFT_AT[:] = [live.sites.here()]
        except Exception as error:  # noqa: BLE001 (as above)
            live.problem("the line of an exit not marked", error)


def _main_ends() -> None:
    """The main thread has run its program; others may linger."""
    live = CURRENT.live
    if live is None:
        return
    if _REPORTED and _ends_badly():
        _moment(live, MarkKind.EXCEPTION, _REPORTED[0][0], site=_REPORTED[0][1])
    # Set by Python before it calls sys.excepthook: there even when a program put a hook of its own over ours.
    error = getattr(sys, "last_value", None)
    name = _kept_by() or (None if error is None else type(error).__name__)
    if error is None and live.quiet.acquire(timeout=MAX_COUNT_S):
        try:
            if live.count_last():
                _moment(live, MarkKind.COUNTED)
        finally:
            live.quiet.release()
    _moment(live, MarkKind.MAIN_EXITED, name, site=_LEFT_AT[0] if _LEFT_AT else 0)


MAX_KEPT_BY = 8
MAX_COUNT_S = 1.0
"""How long an end waits for the heart, before it leaves the last calls below Python uncounted."""


def _kept_by() -> str | None:
    """The threads that Python now waits for, by the system's numbers; None when there are none."""
    main = threading.main_thread()
    kept = [str(each.native_id) for each in threading.enumerate() if not each.daemon and each is not main]
    return KEPT_BY + ", ".join(kept[:MAX_KEPT_BY]) if kept else None


def _process_ends() -> None:
    """All threads have ended: the heart stops before the interpreter is taken down."""
    live = CURRENT.live
    if live is not None and live.heart is not None:
        live.heart.stop()
