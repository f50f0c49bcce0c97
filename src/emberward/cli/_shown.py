"""A run of ``emberward train`` as a person sees it while it goes: its start, its steps, what happens between them."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.live import Live
from rich.text import Text

from emberward.cli._console import Screen
from emberward.cli._preflight import FirstSteps
from emberward.cli._prove import certified_line
from emberward.recipe import Resolved, StepLine
from emberward.report import (
    LineTail,
    Progress,
    RunFolder,
    duration_text,
    eval_text,
    progress_text,
    step_line,
    step_text,
)

BAR_WIDTH = 20
MAX_CERTIFICATE_READS = 20
"""Times that the ranks' files are read to say that all ran their first step as proved."""
WAITS_FOR_LAUNCHER = "torch's launcher starts"


def start_text(progress: Progress, *, num_up: int, num_ranks: int) -> str:
    """What the start of a run waits for, by what the ranks themselves wrote."""
    what = progress.detail or WAITS_FOR_LAUNCHER
    return f"{what} ({num_up} of {num_ranks} ranks have started)" if 0 < num_up < num_ranks else what


class Shown:
    """Shows a run while it goes: one live line on a terminal, else one plain line each log interval.

    Evaluations are worth a line that stays; on a terminal it stands above the live one.
    """

    def __init__(
        self, resolved: Resolved, folder: RunFolder, screen: Screen, live: Live | None, first_steps: FirstSteps
    ) -> None:
        recipe = resolved.recipe
        self._first_steps = first_steps
        self._folder = folder
        self._evals = LineTail(folder.evals, from_end=True)
        self._began_s = time.monotonic()
        self._interval = recipe.log.interval
        self._steps = recipe.steps or 0
        self._is_long = recipe.log.step_line is StepLine.MEGATRON
        self._screen = screen
        self._live = live
        self._last_phase: str | None = None
        self._last_start: str | None = None
        self._num_ranks = resolved.num_ranks
        self._num_reads = MAX_CERTIFICATE_READS if folder.certificate.exists() else 0

    def __call__(self, progress: Progress, steps: Sequence[Mapping[str, Any]]) -> None:
        """Takes where the run stands, and the steps since the last call."""
        is_starting = progress.phase in (None, "setup")
        starting = self._starting(progress) if is_starting else ""
        if self._live is None:
            self._plain(progress, steps, starting)
        self._first_steps.take(steps)
        if steps and self._num_reads:
            line = certified_line(self._folder, self._num_ranks)
            self._num_reads = 0 if line is not None else self._num_reads - 1
            if line is not None:
                self._screen.say(line)
        for found in self._evals.poll():
            self._screen.say(eval_text(found))
        if self._live is not None:
            width = self._screen.console.width
            self._live.update(Text(starting or live_text(progress, width=width), no_wrap=True))

    def _plain(self, progress: Progress, steps: Sequence[Mapping[str, Any]], starting: str) -> None:
        what = starting.rpartition("  ")[0]
        if starting and what != self._last_start:
            self._screen.say(what)
            self._last_start = what
        for metrics in steps:
            if metrics["step"] % self._interval == 0:
                left_s = progress.eta_s if metrics is steps[-1] else None
                long = step_line(metrics, steps=self._steps)
                self._screen.say(long if self._is_long else step_text(metrics, steps=self._steps, left_s=left_s))
        if progress.phase != self._last_phase and progress.phase in ("save", "sample"):
            self._screen.say(progress_text(progress))
        self._last_phase = progress.phase

    def _starting(self, progress: Progress) -> str:
        num_up = sum(1 for _ in self._folder.ranks.glob("rank*.json"))
        what = start_text(progress, num_up=num_up, num_ranks=self._num_ranks)
        return f"starting: {what}  {duration_text(time.monotonic() - self._began_s)}"


def live_text(progress: Progress, *, width: int) -> str:
    """The live line, never wider than `width` as long as the step and the time left fit: the bar is left out first."""
    text = progress_text(progress, width=width)
    if progress.step is None or not progress.steps or len(text) + BAR_WIDTH + 2 > width:
        return text
    done = BAR_WIDTH * progress.step // progress.steps
    return f"{'━' * done}{'─' * (BAR_WIDTH - done)}  {text}"
