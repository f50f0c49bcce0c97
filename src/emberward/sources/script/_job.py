"""What the examination of a script is asked and what it answers, as files and values. No torch.

[Note: an examination's folder]
``job.json`` by the caller; by the child ``result.json``, ``refused.jsonl``, ``rank00000.jsonl`` (a trace),
``rank00000.flow.json`` (`_statements.py`) and ``rank00000.log`` for each rank, and ``bin`` (`_programs.py`). It is the
only folder that the examination shares with the machine (`_sandbox.py`).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from emberward.events import Event, TraceFormatError, read_trace
from emberward.match import Executed
from emberward.sources.script._flow import read_flow


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptJob:
    """A script to be examined on `num_ranks` ranks in `folder`; stops after `max_steps` optimizer steps or a time."""

    script: str
    folder: str
    arguments: tuple[str, ...]
    num_ranks: int
    max_steps: int | None
    time_limit_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedAt:
    """Where a rank was when it was stopped that waited for no other rank.

    `site` is the user's innermost line, `loader_site` the user's line that asks the data loader, None outside of one;
    `workers` the lines of its data workers. `idle_s`: since its last call. `is_blocked`: neither it nor a worker ran.
    """

    site: str | None
    loader_site: str | None
    workers: tuple[str, ...]
    idle_s: float
    is_blocked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEnd:
    """How one rank ended; steps are optimizer steps.

    `status` is done, raised, cut (max steps), stopped, died, refused (by a limit of the examination, which `error`
    names) or ours (an error in what stands in for torch). `is_free`: it ran with made-up values by then.
    """

    rank: int
    status: str
    num_steps: int = 0
    error: str | None = None
    site: str | None = None
    traceback: str | None = None
    is_free: bool = False
    place: StoppedAt | None = None
    not_recorded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What an examination saw. `halt`: why the real part ended early, None when every rank came to its own end.

    `no_sandbox`: why the kernel gave no view of its own, None when it did.
    """

    halt: str | None
    ends: tuple[RankEnd, ...]
    waiting: Mapping[int, str]
    """For each rank that waited when the program stopped: the user's line."""
    refused: tuple[str, ...]
    num_sleeps: int
    seconds: float
    events: Mapping[int, tuple[Event, ...]]
    flows: Mapping[int, Executed]
    """What each rank executed; without ranks that executed too much to be kept."""
    no_sandbox: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFolder:
    """The paths of an examination. See [Note: an examination's folder]."""

    path: Path

    @property
    def layers(self) -> Path:
        """What the script writes, beside the folder itself: nothing of it is read or stays."""
        return self.path.with_name(f"{self.path.name}-scratch")

    @property
    def refusals(self) -> Path:
        """One line for each refusal."""
        return self.path / "refused.jsonl"

    def worker(self, pid: int) -> Path:
        """Where a process that a rank forked was when it was asked."""
        return self.path / f"worker{pid}.json"

    @property
    def programs(self) -> Path:
        """Programs that stand in for others."""
        return self.path / "bin"

    @property
    def result(self) -> Path:
        """The child's answer."""
        return self.path / "result.json"

    def trace(self, rank: int) -> Path:
        """The events of `rank`."""
        return self.path / f"rank{rank:05d}.jsonl"

    def statements(self, rank: int) -> Path:
        """What `rank` executed. See `_statements.py`."""
        return self.path / f"rank{rank:05d}.flow.json"

    def log(self, rank: int) -> Path:
        """Output of `rank`."""
        return self.path / f"rank{rank:05d}.log"

    def write_job(self, job: ScriptJob) -> None:
        """Writes the job."""
        (self.path / "job.json").write_text(json.dumps(asdict(job)), encoding="utf-8")

    def read_job(self) -> ScriptJob:
        """The job that `write_job` wrote."""
        data = json.loads((self.path / "job.json").read_text(encoding="utf-8"))
        return ScriptJob(**{**data, "arguments": tuple(data["arguments"])})

    def write_result(self, values: Mapping[str, Any]) -> None:
        """Writes the child's answer."""
        self.result.write_text(json.dumps(values), encoding="utf-8")

    def read_result(self, job: ScriptJob) -> Examined:
        """What the examination saw. Raises OSError when the child left no answer."""
        data = json.loads(self.result.read_text(encoding="utf-8"))
        events: dict[int, tuple[Event, ...]] = {}
        for rank in range(job.num_ranks):
            try:
                events[rank] = read_trace(self.trace(rank)).events[rank]
            except (OSError, TraceFormatError):
                continue
        folders = (Path(job.folder, job.script).resolve().parent, Path(job.folder))
        return Examined(
            halt=data["halt"],
            ends=tuple(map(_end, data["ends"])),
            waiting={int(rank): site for rank, site in data["waiting"].items()},
            refused=tuple(data["refused"]),
            num_sleeps=data["num_sleeps"],
            seconds=data["seconds"],
            events=events,
            flows={rank: flow for rank in events if (flow := read_flow(self.statements(rank), folders)) is not None},
            no_sandbox=data["no_sandbox"],
        )


def _end(data: dict[str, Any]) -> RankEnd:
    place = data.pop("place", None)
    if place is not None:
        place = StoppedAt(**{**place, "workers": tuple(place["workers"])})
    return RankEnd(**{**data, "not_recorded": tuple(data.pop("not_recorded", ()))}, place=place)
