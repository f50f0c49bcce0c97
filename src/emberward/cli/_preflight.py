"""The pre-flight page at the door: made for `check` and `train`, and held against a run's first steps."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from emberward.cli._console import Screen
from emberward.events import Event, TraceFormatError, read_trace
from emberward.findings import ConfigError
from emberward.match import explain_finding
from emberward.perf import CLUSTERS
from emberward.plan import boxing_csv
from emberward.recipe import Device, Resolved
from emberward.report import (
    PROGRAM_GROUPS,
    Preflight,
    RunFolder,
    boxing_of,
    compare_first_steps,
    compare_traffic,
    first_steps_text,
    measured_bubble,
    preflight,
    preflight_json,
    read_json,
    traffic_finding,
    write_json,
)

HardwareOption = Annotated[
    str | None, typer.Option("--hardware", help="Predict a step's time on a100, h100, h200, ...")
]
MIN_STEPS = 3
"""Steps after which a run is held against its page: the first warms up, and one alone may be off."""
_NVIDIA = Path("/dev/nvidiactl")
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


def page_of(resolved: Resolved, *, hardware: str | None, host: str | None = None) -> Preflight:
    """The page of a resolved recipe on `hardware`, a name of `perf.CLUSTERS`. Raises ConfigError C103 for another name.

    `host` is where all ranks will sit; without it ranks are put on nodes of the hardware, where that is known.
    """
    if hardware is not None and hardware not in CLUSTERS:
        raise ConfigError(
            "no such hardware in the table",
            code="C103",
            where="--hardware",
            expected=f"one of {', '.join(CLUSTERS)}",
            found=hardware,
            next="docs/preflight.md lists what each stands for",
        )
    hosts: Sequence[str] = () if host is None else (host,)
    if host is None and hardware is not None:
        each = CLUSTERS[hardware].devices_per_node
        hosts = [f"node {number}" for number in range(-(-resolved.num_ranks // each))]
    return preflight(resolved, hardware=hardware, hosts=hosts)


def say_notes(resolved: Resolved, page: Preflight, notes: Sequence[str], screen: Screen) -> None:
    """Says the batch sums, what a person should know, and the page's warnings as findings."""
    own = [note for note in resolved.notes if note not in page.warnings]
    for line in (*resolved.batch.explain().splitlines(), *notes, *own):
        screen.say(line)
    for finding in page.findings:
        screen.say(explain_finding(finding))


def keep_page(page: Preflight, resolved: Resolved, folder: RunFolder) -> None:
    """Writes the page and every change of layout into the run's folder."""
    write_json(folder.preflight, preflight_json(page))
    folder.boxing.write_text(boxing_csv(boxing_of(resolved.recipe)), encoding="utf-8")


class FirstSteps:
    """Holds a run's first steps against its page and says the result once, on the screen and in ``preflight.json``."""

    def __init__(self, page: Preflight, resolved: Resolved, folder: RunFolder, screen: Screen) -> None:
        self._page = page
        self._folder = folder
        self._screen = screen
        # With AUTO, ranks take a GPU where there is one; what their processes hold is then not what the page counts.
        has_gpu = resolved.recipe.device is not Device.CPU and _NVIDIA.exists()
        self._is_on_cpu = resolved.recipe.device is not Device.CUDA and not has_gpu
        self._num_recorded = resolved.recipe.log.events
        self._steps: list[Mapping[str, Any]] = []
        self._is_said = False
        self._peaks: dict[int, int] = {}

    def take(self, steps: Sequence[Mapping[str, Any]]) -> None:
        """Takes the steps that were logged since the last look; speaks when there are enough of them. Reads files."""
        if self._is_said:
            return
        self._steps += steps
        if self._is_on_cpu and self._steps:
            self._peaks |= peak_bytes_of(self._folder)
        if len(self._steps) >= max(MIN_STEPS, self._num_recorded + 1):
            self.say()

    def say(self) -> None:
        """Says what is known so far, once; nothing before the first step."""
        if self._is_said or not self._steps:
            return
        self._is_said = True
        events = _recorded(self._folder)
        traffic = compare_traffic(self._page, events, groups=PROGRAM_GROUPS)
        measured = compare_first_steps(
            self._page,
            self._steps,
            held_bytes=held_bytes_of(self._folder),
            peak_bytes=max(self._peaks.values(), default=None),
            bubble=measured_bubble(events),
        )
        finding = traffic_finding(traffic)
        self._screen.say(first_steps_text(measured, traffic))
        if finding is not None:
            self._screen.say(explain_finding(finding))
        rows = {"measured": [asdict(row) for row in measured], "traffic": [asdict(row) for row in traffic]}
        write_json(self._folder.preflight, preflight_json(self._page) | rows)


def _recorded(folder: RunFolder) -> dict[int, tuple[Event, ...]]:
    """The recorded events of each rank that wrote a trace that can be believed."""
    events: dict[int, tuple[Event, ...]] = {}
    for path in sorted(folder.events.glob("rank*.jsonl")):
        try:
            events.update(read_trace(path).events)
        except (OSError, TraceFormatError):
            continue
    return events


def held_bytes_of(folder: RunFolder) -> int | None:
    """The most bytes of weights and moments that a rank of the run holds, by the ranks' word; None without it."""
    said = [(read_json(path) or {}).get("held_bytes") for path in folder.ranks.glob("rank*.json")]
    return max((held for held in said if isinstance(held, int)), default=None)


def peak_bytes_of(folder: RunFolder) -> dict[int, int]:
    """The most resident memory that each living rank of the run has had, from ``/proc``; empty without it."""
    peaks: dict[int, int] = {}
    for path in folder.ranks.glob("rank*.json"):
        said = read_json(path) or {}
        rank, pid = said.get("rank"), said.get("pid")
        if not isinstance(rank, int) or not isinstance(pid, int):
            continue
        try:
            found = _PEAK.search((Path("/proc") / str(pid) / "status").read_text(encoding="utf-8"))
        except OSError:
            continue
        if found is not None:
            peaks[rank] = int(found[1]) * 1024
    return peaks
