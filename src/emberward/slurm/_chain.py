"""The jobs that were submitted for the runs of one name: ``runs/NAME/slurm/jobs.jsonl``, a line a job."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emberward.report import append_line, read_lines

FOLDER = "slurm"
MAX_JOBS = 64
"""Jobs that are asked for, the latest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The runs of one name under `place`, ``runs/NAME``, and the numbers of their jobs, the first one first."""

    place: Path
    jobs: tuple[int, ...]

    @property
    def name(self) -> str:
        """The name of the runs."""
        return self.place.name

    @property
    def folder(self) -> Path:
        """Where scripts, SLURM's output, PULSE lines and what was seen last lie."""
        return self.place / FOLDER

    @property
    def memory(self) -> Path:
        """What was seen at the last pulse."""
        return self.folder / "seen.json"

    @property
    def pulse(self) -> Path:
        """The PULSE lines."""
        return self.folder / "pulse.log"


def chain_of(place: Path) -> Chain:
    """The chain of the runs in `place`, ``runs/NAME``. Reads one file."""
    jobs = [line["job"] for line in read_lines(place / FOLDER / "jobs.jsonl") if isinstance(line.get("job"), int)]
    return Chain(place=place, jobs=tuple(dict.fromkeys(jobs))[-MAX_JOBS:])


def record_job(place: Path, job: int, facts: Mapping[str, Any]) -> None:
    """Writes down a job that was submitted."""
    append_line(place / FOLDER / "jobs.jsonl", {"job": job, **facts})
