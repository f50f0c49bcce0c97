"""Where the training thread of this process spends its steps, by looking at it from beside. Standard library only.

[Note: how a step is sampled]
A thread looks at the training thread's frames at one moment of each period of `PERIOD_S`, later of longer ones
(`MANY_LOOKS`), anywhere in it, whatever the program does: so each instant is as likely to be seen as any other, what is
always short behind something long too. A look stands for a period at the stack that it sees, however long it waited to
see it. What the thread spent on a processor and for want of one is known between looks: half of a look's period has
the shares of the time before it, half those of the time after. Of each stack and step it keeps that time, the part of
it on a processor and the part for want of one, and the mean of when it was. No call of the program is replaced for it,
no tensor is kept, no device is asked.
While the training thread waits without the interpreter the snapshots cost it nothing. While it computes in Python, a
snapshot waits for the interpreter's switch interval, and one that comes late sees what followed: where the training
thread gives the interpreter away for a long call of C, that call has the time of the Python before it. Of 1.5 ms of
Python before each product of 4 ms a quarter was lost so with an interval of 0.2 ms, a twentieth with `ASK_S`. So short
it is while the sampling thread waits for its moment alone, and its timer is as exact as the kernel's. Where other
threads of the program compute in Python, it is `SWITCH_S`, for these give the interpreter to each other as often; and
where the training thread lacked a processor for that long since the last look, for each time that the interpreter is
asked for, a processor is taken from the program or another of its ranks, and its answer is as late as before. A
call of C code that keeps the interpreter is seen when it returns, at its own line, and all moments that passed
meanwhile are its. A thread that reads a file in small parts gives the interpreter away at each of them, some 0.4 ms
from the last for text of 8 KiB, and has it back before the one that waits: that begins to wait anew each time (CPython
3.11, ceval_gil.h, ``take_gil``), and with a longer interval would see what follows the file.

The sampling thread gives the interpreter away in its waits and in writing its file alone: what it reads of the kernel,
it reads without. Else it would get it back after a long call of C code, give it away again before it looks, and see
what followed. So a moment that passed during its last wait is seen as that wait's end was.

Processor time of the thread, and the time in which it was ready and no processor was free, tell work from waiting.
While it waits, the stacks of the other threads that stand in the program's own functions are kept with its own: one of
them does what it waits for.
Garbage collections are timed by Python's own callback; moments inside them are theirs and no stack's.
"""

import contextlib
import ctypes
import gc
import json
import opcode
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from emberward.events import Owner, main_package, owner_of
from emberward.sources._frames import current_frames

PERIOD_S = 0.006
MANY_LOOKS = 1000
"""From then on a period is that part of all the time before: n looks tell a share to 1 / sqrt(n) of itself, and what
has been seen so often can be looked at less often, at less cost for the program."""
ASK_S, SWITCH_S = 0.00002, 0.0002
_SET_TIMER_SLACK, _SLACK_NS = 29, 1
"""``PR_SET_TIMERSLACK`` of prctl(2): a timer may be 50 us late by its default."""
MAX_FRAMES = 200
MAX_STACKS = 20_000
"""Different stacks that are told apart; the time of others goes to the last one."""
MAX_PLACES = 50_000
MAX_BESIDE = 4
"""Other threads whose stacks are kept with one of the training thread."""
MAX_SNAPSHOTS = 3
"""A stack is read frame by frame, and the thread may go on meanwhile: then it is read again."""
FIRST_WRITE_S = 2.0
"""When the file is written first, then after twice as long each time: what there is survives a death."""
MAX_WRITE_S = 60.0
"""What a program's end waits for the files: that of a step of 60,000 operations took 15 s of a busy processor."""
MIN_GC_NS = 100_000
"""Shorter collections stay in the line that they happened in."""
FORM = 1
"""Version of the file."""

Stack = tuple[int, ...]
Seen = tuple[Stack, str, tuple[Stack, ...]]
"""The training thread's stack, what the program was in, and the stacks of the threads beside it while it waits."""
_Look = tuple[Seen, int, int, int]
"""What was seen in which step, the nanoseconds that it stands for, and when it was."""


class Sampler:
    """Samples the thread that ends steps. `stepped` is called by that thread, the rest goes on beside it."""

    def __init__(
        self,
        path: Path,
        *,
        warmup: int,
        num_steps: int,
        head: Callable[[], dict[str, Any]],
        flag: Callable[[], str],
        at_end: Callable[[], None] = lambda: None,
        after: Callable[[], None] = lambda: None,
        retries: Callable[[], int] = lambda: 0,
    ) -> None:
        """`head` gives what else belongs into the file's first line, `flag` a word for what the program is in.

        `retries` is asked by the training thread at the end of each step: how often an allocator has tried again.

        Beside the program `at_end` is called when the last step was sampled, `after` when the file was written.
        """
        self._path = path
        self._warmup = warmup
        self._num_steps = num_steps
        self._head = head
        self._flag = flag
        self._at_end = at_end
        self._after = after
        self._retries = retries
        self._retried: list[int] = []
        self._ident = 0
        self._native = 0
        self._clock: int | None = None
        self._step = 0
        self._bounds: list[int] = []
        self._codes: dict[int, tuple[CodeType, int]] = {}
        self._stacks: dict[Seen, dict[int, list[int]]] = {}
        self._loop: tuple[CodeType, ...] | None = None
        self._queued: list[int] = []
        self._schedule: int | None = None
        self._other_ns = 0
        self._outputs: set[tuple[str, int]] = set()
        self._gc_began_ns = self._gc_busy_ns = 0
        self._collections: list[tuple[int, int, int]] = []
        """When each began and ended, and what of it was on a processor."""
        self._is_over = False
        self._over = threading.Lock()
        """Held until the sampling is over: to wait for it is one call of C."""
        self._interval_s = SWITCH_S
        self._period_ns = int(PERIOD_S * 1e9)
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self._switch_s = 0.0
        self._lock = threading.Lock()

    # -- the training thread -----------------------------------------------------------------------------------------

    def stepped(self) -> None:
        """A step has ended, in the thread that calls."""
        now = time.monotonic_ns()
        if self._is_over or os.getpid() != self._pid:
            return
        ended, self._step = self._step, self._step + 1
        if self._thread is None:
            if ended + 1 >= self._warmup:
                self._begin()
                self._retried.append(self._retries())
                self._bounds.append(time.monotonic_ns())
            return
        if threading.get_ident() != self._ident:
            return
        self._retried.append(self._retries())
        self._bounds.append(now)
        self._note_loop()
        if len(self._bounds) > self._num_steps:
            self._finish()

    def _begin(self) -> None:
        self._ident, self._native = threading.get_ident(), threading.get_native_id()
        if hasattr(time, "pthread_getcpuclockid"):
            self._clock = time.pthread_getcpuclockid(self._ident)
        self._note_loop()
        with contextlib.suppress(OSError):
            self._schedule = os.open(f"/proc/self/task/{self._native}/schedstat", os.O_RDONLY)
        self._queued = [self._queue_ns()]
        self._switch_s = sys.getswitchinterval()
        gc.callbacks.append(self._collects)
        self._over.acquire()
        self._thread = threading.Thread(target=self._run, name="emberward-lens", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Ends the sampling and writes what there is; blocks for that. Never raises."""
        thread = self._thread
        if thread is not None and os.getpid() == self._pid:
            self._finish()
            thread.join(timeout=MAX_WRITE_S)

    def _finish(self) -> None:
        self._is_over = True
        with contextlib.suppress(RuntimeError):
            self._over.release()

    def output(self, frame: FrameType | None) -> None:
        """The program prints or logs something at `frame`: its lines do so too."""
        for _ in range(MAX_FRAMES):
            if frame is None:
                return
            self._outputs.add((frame.f_code.co_filename, frame.f_lineno))
            frame = frame.f_back

    def _note_loop(self) -> None:
        """Keeps of the functions that end a step those that are the same each time, outermost first."""
        frame: FrameType | None = sys._getframe(1)
        codes: list[CodeType] = []
        while frame is not None:
            codes.append(frame.f_code)
            frame = frame.f_back
        codes.reverse()
        owners = [owner_of(code.co_filename, main_package()) for code in codes] if self._loop is None else []
        last = max((i for i, owner in enumerate(owners) if owner is Owner.USER), default=len(codes) - 1)
        known = tuple(codes[: last + 1]) if self._loop is None else self._loop
        size = next((i for i, (a, b) in enumerate(zip(known, codes, strict=False)) if a is not b), len(known))
        self._loop = known[:size]

    def _collects(self, phase: str, info: dict[str, int]) -> None:
        if threading.get_ident() != self._ident:
            return
        now = time.monotonic_ns()
        if phase == "start":
            self._gc_began_ns, self._gc_busy_ns = now, self._busy_ns()
        elif self._gc_began_ns:
            spent, self._gc_began_ns = now - self._gc_began_ns, 0
            frame = sys._getframe().f_back
            if spent >= MIN_GC_NS and frame is not None:
                key = self._stack_of(frame), "gc", ()
                used = min(self._busy_ns() - self._gc_busy_ns, spent)
                self._collections.append((now - spent, now, used))
                # A collection waits for nothing: what it did not spend on a processor it lacked one for.
                self._add(key, self._step, (spent, used, spent - used), now - spent // 2)

    # -- the sampling thread -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        began_ns = last_ns = time.monotonic_ns()
        last_busy, last_queue = self._busy_ns(), self._queue_ns()
        before: _Look | None = None
        used = queued = 0.0
        write_ns = int(FIRST_WRITE_S * 1e9)
        with contextlib.suppress(AttributeError):
            _HOLDING.prctl(_SET_TIMER_SLACK, _SLACK_NS)
        others_ns = self._others_ns()
        moments = _moments(began_ns)
        due_ns, period_ns = next(moments)
        while (look := self._look(due_ns)) is not None:
            stack, now_ns = look
            step, stands_for_ns, (collections, self._collections) = self._step, 0, (self._collections, [])
            if self._gc_began_ns:
                collections.append((self._gc_began_ns, now_ns, now_ns - self._gc_began_ns))
            while due_ns <= now_ns:
                is_collected = any(began <= due_ns <= ended for began, ended, _ in collections)
                stands_for_ns += 0 if is_collected else period_ns
                due_ns, period_ns = next(moments)
            self._period_ns = period_ns
            if stack is None:
                continue
            busy, queue = self._busy_ns(), self._queue_ns()
            collected = sum(min(ended, now_ns) - began for began, ended, _ in collections)
            collecting = sum(used_ns for _, _, used_ns in collections)
            spent = max(now_ns - last_ns - collected, 1)
            used = min(max(busy - last_busy - collecting, 0) / spent, 1.0)
            queued = min(max(queue - last_queue - (collected - collecting), 0) / spent, 1.0)
            others = self._others()
            key = (stack, self._flag(), self._stacks_of(others) if used <= 1 / 2 else ())
            self._interval_s = _ask_s(has_others=bool(others), lacked_ns=queue - last_queue)
            del others  # Frames keep what their functions hold.
            if before is not None:
                self._add(*_half(before, used, queued))
            before = key, step, stands_for_ns, now_ns
            self._add(*_half(before, used, queued))
            last_ns, last_busy, last_queue = now_ns, busy, queue
            if now_ns - began_ns > write_ns:
                self._other_ns = self._others_ns() - others_ns
                self._write(is_last=False)
                write_ns *= 2
        if before is not None:
            self._add(*_half(before, used, queued))
        self._other_ns = self._others_ns() - others_ns
        gc.callbacks.remove(self._collects)
        sys.setswitchinterval(self._switch_s)
        self._queued.append(self._queue_ns())
        self._at_end()
        self._write(is_last=True)
        if self._schedule is not None:
            os.close(self._schedule)
        self._after()

    def _look(self, due_ns: int) -> tuple[Stack | None, int] | None:
        """The stack at a moment or right after, and when that was. None when the sampling is over."""
        if self._is_over or (due_ns > time.monotonic_ns() and self._wait(due_ns)):
            return None
        return self._snapshot(), time.monotonic_ns()

    def _wait(self, until_ns: int) -> bool:
        """Waits until then and for the interpreter, which it keeps then. Whether the sampling is over."""
        sys.setswitchinterval(min(self._interval_s, self._switch_s))
        is_over = self._over.acquire(timeout=max(until_ns - time.monotonic_ns(), 0) / 1e9)
        # What it has to do, the training thread need not wait for.
        sys.setswitchinterval(min(SWITCH_S, self._switch_s))
        return is_over

    def _snapshot(self) -> Stack | None:
        """The training thread's stack now; None when it went on each time while it was read, or is gone."""
        for _ in range(MAX_SNAPSHOTS):
            frame = current_frames().get(self._ident)
            if frame is None:
                return None
            at = frame.f_lasti
            # What waits for the interpreter through a call of C may get it in the callback of a collection.
            found = self._stack_of(frame.f_back if frame.f_code is Sampler._collects.__code__ else frame)
            if current_frames().get(self._ident) is frame and frame.f_lasti == at:
                return found
        return None

    def _others(self) -> list[FrameType]:
        """Where the other threads stand that do something of the program's."""
        program, own = main_package(), (self._ident, threading.get_ident())
        return [frame for ident, frame in current_frames().items() if ident not in own and _is_at_work(frame, program)]

    def _stacks_of(self, frames: list[FrameType]) -> tuple[Stack, ...]:
        return tuple(map(self._stack_of, frames[:MAX_BESIDE]))

    def _add(self, key: Seen, step: int, spent: tuple[int, int, int], at_ns: int) -> None:
        """Adds what was spent by the clock, on a processor, and for want of one."""
        wall_ns, cpu_ns, queue_ns = spent
        if not wall_ns:
            return
        with self._lock:
            cells = self._stacks.get(key)
            if cells is None:
                if len(self._stacks) >= MAX_STACKS:
                    return
                cells = self._stacks[key] = {}
            cell = cells.setdefault(step, [0, 0, at_ns, 0])
            cell[2] += (at_ns - cell[2]) * wall_ns // (cell[0] + wall_ns)
            cell[0] += wall_ns
            cell[1] += cpu_ns
            cell[3] += queue_ns

    def _stack_of(self, frame: FrameType | None) -> Stack:
        """The frame's stack, innermost first: addresses of instructions, as `SiteNumbers` has them."""
        codes = self._codes
        found: list[int] = []
        while frame is not None and len(found) < MAX_FRAMES:
            at = id(frame.f_code) + frame.f_lasti
            if at not in codes and len(codes) < MAX_PLACES:
                codes[at] = frame.f_code, frame.f_lasti
            found.append(at)
            frame = frame.f_back
        return tuple(found)

    def _busy_ns(self) -> int:
        """Processor time of the training thread."""
        return time.monotonic_ns() if self._clock is None else time.clock_gettime_ns(self._clock)

    def _others_ns(self) -> int:
        """Processor time of the process's other threads than the training one and this."""
        return time.process_time_ns() - self._busy_ns() - time.thread_time_ns() if self._clock is not None else 0

    def _queue_ns(self) -> int:
        """How long the training thread was ready and no processor was free."""
        return _queue_ns(self._schedule)

    # -- the file ----------------------------------------------------------------------------------------------------

    def _write(self, *, is_last: bool) -> None:
        """Writes what there is beside and puts it in place. A file that cannot be written is given up."""
        temporary = self._path.with_suffix(".tmp")
        try:
            with temporary.open("w", encoding="utf-8") as file:
                for line in self._lines(is_last=is_last):
                    file.write(json.dumps(line) + "\n")
            temporary.replace(self._path)
        except OSError:
            self._finish()

    def _waited_ns(self, *, is_last: bool) -> int:
        return (self._queued[-1] if is_last else self._queue_ns()) - self._queued[0]

    def _lines(self, *, is_last: bool) -> Iterator[dict[str, Any]]:
        """One small object a line, so that the interpreter is never held for long."""
        bounds, loop = list(self._bounds), self._loop or ()
        yield {
            "form": FORM,
            "pid": self._pid,
            "warmup": self._warmup,
            "is_last": is_last,
            "period_ns": self._period_ns,
            "bounds_ns": bounds,
            "retries": self._retried[: len(bounds)],
            "first_step": self._step - len(bounds) + 1,
            "queue_ns": self._waited_ns(is_last=is_last),
            "others_ns": self._other_ns,
            "has_cpu_time": self._clock is not None,
            "loop": [[code.co_filename, code.co_name, code.co_firstlineno] for code in loop],
            "outputs": sorted(self._outputs),
            **self._head(),
        }
        program = main_package()
        names: dict[int, int] = {}
        for at, (code, lasti) in list(self._codes.items()):
            names[at] = len(names)
            yield {"place": _place_of(code, lasti, owner_of(code.co_filename, program).value)}
        for key in list(self._stacks):
            with self._lock:
                cells = {step: list(cell) for step, cell in self._stacks[key].items()}
            stack, flag, beside = ([names[at] for at in key[0] if at in names], key[1], key[2])
            others = [[names[at] for at in each if at in names] for each in beside]
            yield {"stack": stack, "flag": flag, "steps": cells, "beside": others}
        yield {"end": True}


def _is_at_work(frame: FrameType | None, program: str | None) -> bool:
    """Whether a thread is in a function of the program or does what a pool was given, and does not wait for more."""
    while frame is not None:
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        if name == "get" and file.endswith("/queue.py"):
            return False
        if owner_of(file, program) is Owner.USER or (name == "run" and file.endswith("/concurrent/futures/thread.py")):
            return True
        frame = frame.f_back
    return False


def _ask_s(*, has_others: bool, lacked_ns: int) -> float:
    """After how long the interpreter is asked for, beside other threads at work and after that want of a processor."""
    return SWITCH_S if has_others or lacked_ns > SWITCH_S * 1e9 else ASK_S


def _moments(began_ns: int) -> Iterator[tuple[int, int]]:
    """A moment in each period, anywhere in it, and how long that is; drawn without the program's generators."""
    draw, begin_ns = 0x2545F491, began_ns
    while True:
        period_ns = max(int(PERIOD_S * 1e9), (begin_ns - began_ns) // MANY_LOOKS)
        draw = (draw * 1664525 + 1013904223) & 0xFFFFFFFF
        yield begin_ns + draw * period_ns // 0x100000000, period_ns
        begin_ns += period_ns


def _half(look: _Look, used: float, queued: float) -> tuple[Seen, int, tuple[int, int, int], int]:
    """Half of what a look stands for, of which shares were on a processor and for want of one."""
    key, step, spent_ns, at_ns = look
    half_ns = spent_ns // 2
    return key, step, (half_ns, int(used * half_ns), int(queued * half_ns)), at_ns


def _queue_ns(schedule: int | None) -> int:
    """How long a thread was ready and no processor was free; 0 where the kernel does not say. Keeps the interpreter."""
    if schedule is None:
        return 0
    text = ctypes.create_string_buffer(100)
    try:
        _HOLDING.pread(schedule, text, ctypes.c_size_t(len(text) - 1), ctypes.c_long(0))
        return int(text.value.split()[1])
    except (AttributeError, ValueError, IndexError):
        return 0


_HOLDING = ctypes.PyDLL(None)
"""The C library, called without giving the interpreter away."""


def _place_of(code: CodeType, lasti: int, owner: str) -> list[Any]:
    """file, function, its first line, owner, line, last line, column, last column, operation of an instruction."""
    index = max(lasti, 0) // 2
    position = next(islice(code.co_positions(), index, None), (None, None, None, None))
    line, last_line, column, last_column = position
    operation = opcode.opname[code.co_code[lasti]] if 0 <= lasti < len(code.co_code) else ""
    first = code.co_firstlineno
    return [
        code.co_filename,
        code.co_name,
        first,
        owner,
        line or first,
        last_line or line or first,
        column,
        last_column,
        operation,
    ]
