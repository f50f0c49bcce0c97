"""One run that is watched by pages: read twice a second for all of them together, and only while one is open."""

import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from emberward.findings import PROGRAM, Finding
from emberward.report import Glance, Html, RunFolder, read_glance, tag
from emberward.web._columns import Columns
from emberward.web._fragments import fragments
from emberward.web._lag import lag_sentence

POLL_S = 0.5
LAG_PAUSE = 9
"""Times that the sentence on lag took, until it is worked out again."""
MAX_TICK_ROWS = 2000
"""Steps that one event carries; a page that is further behind asks for the series again."""

Facts = Callable[[RunFolder, float], tuple[bool, tuple[Finding, ...]]]
"""Of a run at a moment: whether its launcher is gone, and findings that its folder does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a page gets: parts that changed, steps that are new, or that it must ask for the series again."""

    id: str
    parts: dict[str, Html]
    points: dict[str, Any] | None
    must_reset: bool


class LiveRun:
    """A run's folder read again and again. Every method may be called from any thread."""

    def __init__(
        self, folder: RunFolder, facts: Facts, *, clock: Callable[[], float] = time.time, program: str = PROGRAM
    ) -> None:
        self.folder = folder
        self._program = program
        self._facts = facts
        self._clock = clock
        self._columns = Columns(folder)
        self._lock = threading.Lock()
        self._changed = threading.Condition()
        self._version = 0
        self._parts: dict[str, Html] = {}
        self._here = ""
        self._num_viewers = 0
        self._lag_said, self._lag_due_s = "", 0.0

    def glance(self) -> Glance:
        """The run now. Reads small files and the ends of large ones."""
        now_unix = self._clock()
        is_alone, said = self._facts(self.folder, now_unix)
        return read_glance(
            self.folder,
            now_unix=now_unix,
            is_alone=is_alone,
            said=said,
            program=self._program,
            trained_s=self._trained_s,
        )

    def _trained_s(self, until: int | None) -> float | None:
        with self._lock:
            return self._columns.trained_s(until)

    def series(self, *, low: int | None, high: int | None, points: int) -> dict[str, Any]:
        """The run's metrics reduced. The first call reads the whole file."""
        with self._lock:
            self._columns.poll()
            return {**self._columns.reduced(low=low, high=high, points=points), "id": self._id()}

    def columns(self) -> Columns:
        """The run's metrics, read up to now."""
        with self._lock:
            self._columns.poll()
        return self._columns

    def _id(self) -> str:
        try:
            inode = self.folder.curve.stat().st_ino
        except OSError:
            inode = 0
        return f"{inode:x}.{self._columns.generation}-{len(self._columns)}"

    def refresh(self) -> None:
        """Reads the folder and wakes whoever waits when something changed."""
        self.columns()
        glance = self.glance()
        # The page counts the age on by itself: a part must not change because time passes.
        still = replace(glance, now_unix=glance.last_step_unix or 0.0)
        parts = {**fragments(still), "lag": tag("p", self._lag_words(), class_="note")}
        with self._lock:
            here = self._id()
        if here != self._here or parts != self._parts:
            with self._changed:
                self._parts, self._here = parts, here
                self._version += 1
                self._changed.notify_all()

    def _lag_words(self) -> str:
        """The sentence on who is waited for, worked out a tenth of the time at most: thousands of hosts are dear."""
        began_s = time.monotonic()
        if began_s >= self._lag_due_s:
            self._lag_said = lag_sentence(self.folder)
            ended_s = time.monotonic()
            self._lag_due_s = ended_s + LAG_PAUSE * (ended_s - began_s)
        return self._lag_said

    def __enter__(self) -> "LiveRun":
        """A page looks at the run from here on."""
        with self._changed:
            self._num_viewers += 1
            if self._num_viewers == 1:
                threading.Thread(target=self._go_on, name="live run", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """It does not any more."""
        with self._changed:
            self._num_viewers -= 1
            self._changed.notify_all()

    def _go_on(self) -> None:
        while True:
            self.refresh()
            with self._changed:
                self._changed.wait_for(lambda: self._num_viewers == 0, POLL_S)
                if self._num_viewers == 0:
                    return

    def wait(self, version: int, *, timeout_s: float) -> int:
        """The newest version, at once when it is not `version`, else after at most `timeout_s`. 0: none yet."""
        with self._changed:
            self._changed.wait_for(lambda: self._version != version, timeout_s)
            return self._version

    def change(self, have: str | None, hashes: dict[str, str]) -> Change:
        """What a page lacks that has the steps up to the event id `have` and parts of these `hashes`; updates them."""
        parts = {}
        for name, html in self._parts.items():
            digest = hashlib.blake2b(html.encode(), digest_size=8).hexdigest()
            if hashes.get(name) != digest:
                hashes[name] = digest
                parts[name] = html
        with self._lock:
            here, rows = self._id(), len(self._columns)
            generation, _, offset = (have or "").rpartition("-")
            is_ours = generation == here.rpartition("-")[0] and offset.isdecimal() and int(offset) <= rows
            row = int(offset) if is_ours else rows
            must_reset = not is_ours or rows - row > MAX_TICK_ROWS
            points = self._columns.since(row) if not must_reset and row < rows else None
        return Change(id=here, parts=parts, points=points, must_reset=must_reset and have is not None)
