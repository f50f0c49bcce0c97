"""Beside a recorded rank's main thread: the heartbeat, torch's own counters, and copies of its flight recorder.

[Note: what is seen from beside]
The thread needs the interpreter. While the main thread waits inside torch it gets it: counters and copies are fresh.
While a call of C code holds the interpreter, or the process is stopped, nothing is written, and the heartbeat's age
says so. A call that torch makes below Python (DDP's reducer, a compiled graph) raises torch's counter of its group,
which is read five times a second; which call it was is in the copy of the flight recorder. That is made only when
nothing has moved for longer than this job's own pauses. For a full buffer of 2,000 calls it takes 25 ms of processor,
without the interpreter (torch 2.13, measured here on a busy machine). Stacks come only when a silence lasts.

[Note: stacks import the compiler]
To name the frames, torch asks itself for ``torch._inductor`` (torch/csrc/profiler/python/combined_traceback.cpp), which
imports the compiler where nobody has, in this thread: 2 s, and a program that imports it at the same time finds it half
made and dies of an ImportError. So stacks are asked for only when the program has loaded it, to the end.
"""

import sys
import threading
import time
from collections import deque
from typing import Any

from torch.distributed import distributed_c10d

from emberward.sources._ends import dump_function
from emberward.sources._live import LiveRecorder

BEAT_S = 0.2
MAX_END_S = 5.0
"""A thread that comes back from torch into an interpreter that is being taken down would end the process badly."""
MAX_PENDING = 64
"""Calls under way whose works are asked at each beat whether they are done."""
QUIET_S = 1.0
MAX_QUIET_S = 20.0
"""The longest silence that is waited for before a copy is made, however long this job's own pauses are."""
AGAIN_S = (2.0, 5.0, 10.0)
"""After a first copy: when the next are made while nothing moves; the last one goes on."""
KEPT_PAUSES = 64
_COMPILER = ("torch._inductor", "torch._dynamo")
COPIES_WITHOUT_STACKS = 2
"""The first copies of a silence have no stacks. See [Note: what is seen from beside]."""


class Silence:
    """Decides when a copy of the flight recorder is due, from the moments at which something moved. Pure."""

    def __init__(self, now_s: float) -> None:
        self._moved_s = now_s
        self._copied_s: float | None = None
        self.num_copies = 0
        self._pauses: deque[float] = deque(maxlen=KEPT_PAUSES)

    @property
    def limit_s(self) -> float:
        """How long a silence has to be before it means something: twice the third longest of the last pauses.

        A start-up or a compilation is long once or twice; what is long three times is how this job works.
        """
        longest = sorted(self._pauses)[-3:]
        return min(max(QUIET_S, 2 * longest[0] if len(longest) == 3 else 0.0), MAX_QUIET_S)

    def moved(self, now_s: float) -> None:
        """Something moved."""
        self._pauses.append(now_s - self._moved_s)
        self._moved_s = now_s
        self._copied_s = None
        self.num_copies = 0

    def is_due(self, now_s: float) -> bool:
        """Whether a copy is to be made now."""
        if self._copied_s is None:
            return now_s - self._moved_s >= self.limit_s
        return now_s - self._copied_s >= AGAIN_S[min(self.num_copies - 1, len(AGAIN_S) - 1)]

    def copied(self, now_s: float) -> None:
        """A copy was made."""
        self._copied_s = now_s
        self.num_copies += 1


class Heart(threading.Thread):
    """Beats until `stop`. A daemon: it keeps no process alive."""

    def __init__(self, live: LiveRecorder) -> None:
        super().__init__(name="emberward-heart", daemon=True)
        self._live = live
        self._end = threading.Event()
        self._last_numbers = 0, 0

    def stop(self) -> None:
        """Ends the beats; waits for the one under way, at most MAX_END_S."""
        self._end.set()
        if self is not threading.current_thread():
            self.join(timeout=MAX_END_S)

    def run(self) -> None:
        """See [Note: what is seen from beside]."""
        writer = self._live.writer
        silence = Silence(time.monotonic())
        while not self._end.wait(BEAT_S):
            writer.beat()
            try:
                has_moved = self._snapshot()
                now = time.monotonic()
                if has_moved:
                    silence.moved(now)
                elif silence.is_due(now):
                    self._copy(has_stacks=silence.num_copies >= COPIES_WITHOUT_STACKS and is_compiler_loaded())
                    silence.copied(time.monotonic())
            except Exception as error:  # noqa: BLE001 (the beat goes on, whatever torch says)
                self._live.problem("counters not read", error)

    def _snapshot(self) -> bool:
        """Reads counters; whether anything has moved since the last snapshot."""
        live = self._live
        number = live.writer.last_number
        num_stored = 0 if live.store is None else live.store.number
        has_moved = (number, num_stored) != self._last_numbers
        self._last_numbers = number, num_stored
        live.check_pending(MAX_PENDING)
        if live.ends is not None:
            live.ends.ask()
        if not live.quiet.acquire(blocking=False):
            return has_moved
        try:
            return self.count() or has_moved
        finally:
            live.quiet.release()

    def count(self) -> bool:
        """Reads torch's count of each group's calls; whether one has moved. For whoever holds `LiveRecorder.quiet`."""
        live, has_moved = self._live, False
        handle: Any
        for handle in list(distributed_c10d._world.pg_map):
            known = live.by_handle.get(id(handle))
            if known is not None and known.number:
                has_moved |= live.writer.sequence(known.number, handle._get_sequence_number_for_group())
        return has_moved

    def _copy(self, *, has_stacks: bool) -> None:
        known = self._live.by_handle.values()
        dump = dump_function(has_nccl=any(group.is_nccl for group in list(known)))
        if dump is None or not distributed_c10d._world.pg_map:
            return
        writer = self._live.writer
        store = b"" if self._live.store is None else self._live.store.copy()
        if writer.flight(dump(True, has_stacks, False), store):
            return
        if not writer.flight(dump(True, False, True), store):
            writer.problem("flight recorder not copied: it is larger than the ring's room for it")


def is_compiler_loaded() -> bool:
    """Whether torch's compiler was imported to the end. See [Note: stacks import the compiler]."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith(_COMPILER)]
    is_there = "torch._inductor" in sys.modules
    return is_there and not any(getattr(getattr(m, "__spec__", None), "_initializing", False) for m in modules)
