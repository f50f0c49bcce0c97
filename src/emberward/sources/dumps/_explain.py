"""Paths in, verdicts out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from emberward.diagnose import (
    Evidence,
    Explanation,
    Frame,
    Groups,
    compare_incidents,
    compare_snapshots,
    is_same_job,
    judge,
    to_trace,
    world_of,
)
from emberward.events import Trace
from emberward.findings import Finding
from emberward.sources.dumps._files import Readable
from emberward.sources.dumps._gather import gather

MAX_SOURCE_BYTES = 4 << 20
"""Largest program file that is read for its lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainResult:
    """One explanation for each incident, and how they compare when there are several."""

    explanations: tuple[Explanation, ...]
    comparisons: tuple[Finding, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, incident by incident, then the comparisons."""
        return (*(f for e in self.explanations for f in e.findings), *self.comparisons)


def source_lines(folders: Sequence[Path]) -> Callable[[Frame], str | None]:
    """A function that gives a frame's source line, from the path it names or a file of that name in `folders`.

    Reads files, and remembers them; never raises. A file that changed since the job began gives another line: the text
    is evidence, and decides only what the stack leaves open.
    """
    known: dict[str, list[str] | None] = {}

    def lines(file: str) -> list[str] | None:
        if file not in known:
            known[file] = None
            name = Path(file).name
            for path in (Path(file), *(folder / name for folder in folders)):
                try:
                    if path.suffix == ".py" and path.is_file() and path.stat().st_size <= MAX_SOURCE_BYTES:
                        known[file] = path.read_text(encoding="utf-8", errors="replace").splitlines()
                        break
                except OSError:
                    continue
        return known[file]

    def line_of(frame: Frame) -> str | None:
        text = None if frame.line is None else lines(frame.file)
        if text is None or frame.line is None or not 0 < frame.line <= len(text):
            return None
        return text[frame.line - 1]

    return line_of


def flight_trace(evidence: Evidence) -> Trace:
    """The flight-recorder dumps as one trace of observer DUMP; calls meet by their group's own count."""
    world = world_of(evidence.flights)
    return to_trace(evidence.flights, Groups(evidence.flights, world), world_size=len(world))


def explain_paths(
    paths: Sequence[Path],
    *,
    source_folders: Sequence[Path] = (),
    piped: Readable | None = None,
    prior: Sequence[Finding] = (),
    told: Callable[[int, int], None] = lambda done, total: None,
) -> ExplainResult:
    """The verdict on the files and folders in `paths`; reads them, writes nothing, needs no torch.

    Folders that hold dumps of the same ranks are looks at one job when they share calls or processes, and incidents to
    compare otherwise. `source_folders`: where the program's files may lie, besides the paths that stacks name. `piped`:
    standard input, when it is to be read too. `prior`: what is concluded already, and not written in the folder yet.
    `told` is called with the bytes that are read and the bytes that there are, after each file.
    Raises FileNotFoundError for a path that is not there, and nothing for what files hold.
    """
    incidents = gather(paths, piped=piped, told=told)
    incidents[0].prior = [*prior, *incidents[0].prior]
    folders = [*source_folders, *(path if path.is_dir() else path.parent for path in paths)]
    line_of = source_lines(folders)
    explained = [judge(evidence, line_of=line_of) for evidence in incidents]
    if len(incidents) == 2 and is_same_job(*incidents):
        (early, _), (late, verdict) = sorted(
            zip(incidents, explained, strict=True), key=lambda item: _progress_key(item[0])
        )
        return ExplainResult(explanations=(compare_snapshots(early, late, verdict),))
    comparisons = [compare_incidents(a, b) for a, b in pairwise(explained)]
    return ExplainResult(explanations=tuple(explained), comparisons=tuple(comparisons))


def _progress_key(evidence: Evidence) -> tuple[int, int]:
    calls = sum(part.enqueued + part.completed for f in evidence.flights.values() for part in f.groups.values())
    reads = [flight.written_ns for flight in evidence.flights.values() if flight.written_ns is not None]
    return calls, min(reads, default=0)
