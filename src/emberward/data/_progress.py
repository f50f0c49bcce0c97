"""How far a long piece of work is, told at most ten times a second."""

import time
from collections.abc import Callable

# progress(label, fraction in [0, 1]); called from the thread that prepares.
Progress = Callable[[str, float], None]
_REPORT_EVERY_S = 0.1


class Reporter:
    """Calls `progress(label, fraction)` as bytes are done, and with 1.0 at the end. None tells nobody."""

    def __init__(self, progress: Progress | None, label: str, total_bytes: int) -> None:
        self._progress, self._label, self._total_bytes = progress, label, max(total_bytes, 1)
        self._done_bytes, self._last_s = 0, time.monotonic()

    def add(self, num_bytes: int) -> None:
        """Count bytes as done."""
        self._done_bytes += num_bytes
        now_s = time.monotonic()
        if self._progress is not None and now_s - self._last_s >= _REPORT_EVERY_S:
            self._last_s = now_s
            self._progress(self._label, min(self._done_bytes / self._total_bytes, 1.0))

    def end(self) -> None:
        """Say that all is done."""
        if self._progress is not None:
            self._progress(self._label, 1.0)
