"""What the examination of a script is asked and what it answers, as files and values. No torch.

[Note: an examination's folder]
``job.json`` by the caller; ``work/``, a copy of the script's folder, in which it runs; by the child ``result.json``,
``rank00000.jsonl`` (a trace) and ``rank00000.log`` for each rank.
"""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from emberward.events import Event, TraceFormatError, read_trace

MAX_COPIED_FILE_BYTES = 64 << 20
"""Larger files are linked and not copied; a write through the link is refused."""
_NOT_COPIED = (".git", "__pycache__", ".venv", "node_modules")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptJob:
    """A script to be examined on `num_ranks` ranks; stops after `max_steps` optimizer steps or `time_limit_s`."""

    script: str
    arguments: tuple[str, ...]
    num_ranks: int
    max_steps: int | None
    time_limit_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEnd:
    """How one rank ended: `status` is done, raised, cut (max steps), stopped or died; steps are optimizer steps."""

    rank: int
    status: str
    num_steps: int = 0
    error: str | None = None
    site: str | None = None
    traceback: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What an examination saw. `halt`: why the real part ended early, None when every rank came to its own end."""

    halt: str | None
    ends: tuple[RankEnd, ...]
    waiting: Mapping[int, str]
    """For each rank that waited when the program stopped: the user's line."""
    refused: tuple[str, ...]
    num_sleeps: int
    seconds: float
    events: Mapping[int, tuple[Event, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFolder:
    """The paths of an examination. See [Note: an examination's folder]."""

    path: Path

    @property
    def work(self) -> Path:
        """Where the script runs."""
        return self.path / "work"

    @property
    def result(self) -> Path:
        """The child's answer."""
        return self.path / "result.json"

    def trace(self, rank: int) -> Path:
        """The events of `rank`."""
        return self.path / f"rank{rank:05d}.jsonl"

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

    def copy_script(self, script: Path) -> str:
        """Copies the script's folder to `work` and gives the script's path relative to it. Raises OSError."""
        shutil.copytree(
            script.parent, self.work, copy_function=_copy, ignore=shutil.ignore_patterns(*_NOT_COPIED), symlinks=True
        )
        return script.name

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
        return Examined(
            halt=data["halt"],
            ends=tuple(RankEnd(**end) for end in data["ends"]),
            waiting={int(rank): site for rank, site in data["waiting"].items()},
            refused=tuple(data["refused"]),
            num_sleeps=data["num_sleeps"],
            seconds=data["seconds"],
            events=events,
        )


def _copy(source: str, target: str) -> str:
    if os.path.getsize(source) > MAX_COPIED_FILE_BYTES:  # noqa: PTH202 (shutil gives texts)
        os.symlink(os.path.abspath(source), target)  # noqa: PTH100, PTH211
        return target
    return shutil.copy2(source, target)
