"""What a dry run is asked and what it answers, as files: the one who asks needs no torch.

[Note: a dry run's folder]
``job.json`` and ``recipe.yaml`` are written by the caller; the child writes ``rank00004.events``, that rank's events,
pickled (the folder is the caller's own, and a trace takes three times as long to read), and ``rank00004.calls.json``,
its part of the certificate, or ``rank00004.error.json`` ``{"type", "message",
"site", "traceback", "refusal"}``, for each rank it was asked for.
"""

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emberward.events import Event
from emberward.sources._certificate import RoleProgram
from emberward.sources._tape import Transport


@dataclass(frozen=True, slots=True, kw_only=True)
class DryJob:
    """Which ranks of a resolved recipe to run dry. `eval_samples`: samples of each evaluation set by name."""

    ranks: tuple[int, ...]
    eval_samples: Mapping[str, int]
    transport: Transport
    num_workers: int

    def to_json(self) -> dict[str, Any]:
        """The job as a JSON object."""
        return {
            "ranks": list(self.ranks),
            "eval_samples": dict(self.eval_samples),
            "transport": self.transport.value,
            "num_workers": self.num_workers,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RankError:
    """How a rank's program raised; `site` is the user's line. `refusal`: the facts of a ConfigError, by name."""

    rank: int
    type: str
    message: str
    site: str | None
    traceback: str
    refusal: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFolder:
    """The paths of a dry run's folder. See [Note: a dry run's folder]."""

    path: Path

    @property
    def job(self) -> Path:
        """What was asked."""
        return self.path / "job.json"

    @property
    def recipe(self) -> Path:
        """The resolved recipe."""
        return self.path / "recipe.yaml"

    def events(self, rank: int) -> Path:
        """What `rank` does."""
        return self.path / f"rank{rank:05d}.events"

    def calls(self, rank: int) -> Path:
        """What `rank` calls, in the certificate's words."""
        return self.path / f"rank{rank:05d}.calls.json"

    def error(self, rank: int) -> Path:
        """How `rank` raised."""
        return self.path / f"rank{rank:05d}.error.json"

    def write_job(self, job: DryJob) -> None:
        """Writes the job."""
        self.job.write_text(json.dumps(job.to_json()), encoding="utf-8")

    def read_job(self) -> DryJob:
        """The job that `write_job` wrote."""
        data = json.loads(self.job.read_text(encoding="utf-8"))
        return DryJob(
            ranks=tuple(data["ranks"]),
            eval_samples=data["eval_samples"],
            transport=Transport(data["transport"]),
            num_workers=data["num_workers"],
        )

    def write_error(self, error: RankError) -> None:
        """Writes how a rank raised."""
        body = {
            "type": error.type,
            "message": error.message,
            "site": error.site,
            "traceback": error.traceback,
            "refusal": error.refusal,
        }
        self.error(error.rank).write_text(json.dumps(body), encoding="utf-8")

    def write_program(self, program: RoleProgram, *, torch_version: str) -> None:
        """Writes a rank's part of the certificate, and under which torch it was run."""
        text = json.dumps({"torch": torch_version, "program": program.to_json()})
        self.calls(program.rank).write_text(text, encoding="utf-8")

    def read_programs(self, ranks: Sequence[int]) -> tuple[tuple[RoleProgram, ...], str]:
        """What `write_program` wrote for each of `ranks`, and the torch of it. Raises OSError when one is missing."""
        found = [json.loads(self.calls(rank).read_text(encoding="utf-8")) for rank in ranks]
        return tuple(RoleProgram.from_json(each["program"]) for each in found), found[0]["torch"]

    def write_events(self, rank: int, events: tuple[Event, ...]) -> None:
        """Writes what `rank` does, as one file that is whole when it is there."""
        temporary = self.events(rank).with_suffix(".tmp")
        temporary.write_bytes(pickle.dumps(events, pickle.HIGHEST_PROTOCOL))
        temporary.replace(self.events(rank))

    def read_results(self, ranks: Sequence[int]) -> tuple[dict[int, tuple[Event, ...]], list[RankError]]:
        """The events of each rank that ran to its end, and the errors of the others."""
        events: dict[int, tuple[Event, ...]] = {}
        errors = []
        for rank in ranks:
            if self.error(rank).exists():
                errors.append(RankError(rank=rank, **json.loads(self.error(rank).read_text(encoding="utf-8"))))
            elif self.events(rank).exists():
                events[rank] = pickle.loads(self.events(rank).read_bytes())
            else:
                errors.append(RankError(rank=rank, type="process ended", message="no answer", site=None, traceback=""))
        return events, errors
