"""From what the processes of a job captured to the loss curves that they log. See [Note: what is a loss]."""

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emberward.sources.losses._files import MAX_POLL_BYTES, open_file
from emberward.sources.losses._line import Reading, losses_in

MAX_FILES = 256
MAX_STREAMS = 64
_CAPTURED = re.compile(r"captured-(?P<pid>\d+)-(?P<number>\d+)\.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """One value of a curve. `by`: what `step` counts: steps, epochs, or the values themselves where neither is logged.

    `value` is None for one that was not finite. `source`: where the program wrote it.
    """

    name: str
    source: str
    by: str
    step: int
    value: float | None
    is_evaluation: bool

    @property
    def curve(self) -> str:
        """Equal for the values of one curve."""
        return f"{self.name}, {self.source}, by {self.by}"


@dataclass(slots=True)
class _Count:
    """Where one curve stands. `offset`: steps of epochs before this one, where each begins to count anew."""

    num: int = 0
    last: int | None = None
    epoch: int | None = None
    total: int | None = None
    offset: int = 0


@dataclass(slots=True)
class LossReader:
    """Follows what processes of a job note into the ring folder `folder`, and the logs that they opened.

    What several ranks print alike counts once, from the lowest rank that prints it.
    """

    folder: Path
    counted: dict[str, int] = field(default_factory=dict)
    """Values of a curve that came before, in an earlier attempt."""
    _at: dict[Path, int] = field(default_factory=dict)
    _files: dict[str, tuple[Any, str]] = field(default_factory=dict)
    _counts: dict[str, _Count] = field(default_factory=dict)
    _owners: dict[str, tuple[int, int]] = field(default_factory=dict)
    _last_step: int | None = None

    def poll(self) -> list[Logged]:
        """The values since the last call, in order for each curve. May block as long as a disk with a log does."""
        found: list[Logged] = []
        for note, pid in self._notes():
            rank = note.get("rank")
            if isinstance(note.get("file"), str) and isinstance(note.get("at"), int):
                self._follow(note["file"], note["at"])
            elif isinstance(note.get("line"), str):
                who = f"rank {rank}" if isinstance(rank, int) else "the program"
                for reading in losses_in(note["line"]):
                    if self._is_owner(reading.name, rank if isinstance(rank, int) else 1 << 31, pid):
                        found += self._logged([reading], f"printed by {who}")
        for reader, source in list(self._files.values()):
            found += self._logged(reader.poll(), source)
        return found

    def _notes(self) -> Iterable[tuple[dict[str, Any], int]]:
        with suppress(OSError):
            named = [(match, path) for path in self.folder.iterdir() if (match := _CAPTURED.fullmatch(path.name))]
            named.sort(key=lambda each: (int(each[0]["pid"]), int(each[0]["number"])))
            newest = {match["pid"]: int(match["number"]) for match, _ in named}
            for match, path in named:
                with path.open("rb") as file:
                    file.seek(self._at.get(path, 0))
                    data = file.read(MAX_POLL_BYTES)
                whole = data[: data.rfind(b"\n") + 1]
                self._at[path] = self._at.get(path, 0) + len(whole)
                for line in whole.splitlines():
                    with suppress(ValueError):
                        note = json.loads(line)
                        if isinstance(note, dict):
                            yield note, int(match["pid"])
                if int(match["number"]) < newest[match["pid"]]:
                    path.unlink()
                    self._at.pop(path, None)

    def _follow(self, name: str, at: int) -> None:
        path = Path(name)
        if path.parent.name == "logs" and path.name == "debug.log":
            # W&B writes its own file in a process of its own, above the log that it opens in ours.
            self._files.setdefault(name, (_WandbFolder(self, path.parent.parent), name))
            return
        reader = open_file(path, at)
        if reader is not None and name not in self._files and len(self._files) < MAX_FILES:
            self._files[name] = (reader, f"in {path.name}")

    def _is_owner(self, name: str, rank: int, pid: int) -> bool:
        owner = self._owners.setdefault(name, (rank, pid))
        if (rank, pid) < owner and rank != owner[0]:
            owner = self._owners[name] = (rank, pid)
        # A process that was started anew prints on for the one that it replaces.
        return rank == owner[0]

    def _logged(self, readings: Iterable[Reading], source: str) -> list[Logged]:
        found = []
        for reading in readings:
            by = "step" if reading.step is not None else "epoch" if reading.epoch is not None else "value"
            key = f"{reading.name}, {source}, by {by}"
            if key not in self._counts and len(self._counts) >= MAX_STREAMS:
                continue
            step = self._step_of(self._counts.setdefault(key, _Count(num=self.counted.get(key, 0))), reading)
            if reading.is_evaluation and by == "value" and self._last_step is not None:
                step = self._last_step
            elif not reading.is_evaluation:
                self._last_step = step
            value = None if reading.value != reading.value else reading.value
            found.append(
                Logged(
                    name=reading.name,
                    source=source,
                    by=by,
                    step=step,
                    value=value,
                    is_evaluation=reading.is_evaluation,
                )
            )
        return found

    @staticmethod
    def _step_of(count: _Count, reading: Reading) -> int:
        """Steps that begin anew with each epoch go on where the epoch before ended. Without any, values are counted."""
        count.num += 1
        if reading.step is None:
            return count.num if reading.epoch is None else reading.epoch
        goes_back = count.last is not None and reading.step <= count.last - count.offset
        if goes_back and reading.epoch is not None and count.epoch is not None and reading.epoch > count.epoch:
            assert count.last is not None
            count.offset = count.last + 1 - reading.step if count.total is None else count.offset + count.total
        elif goes_back and count.epoch is not None and reading.epoch is not None and reading.epoch < count.epoch:
            # A run that was started anew.
            count.offset = 0
        count.epoch, count.total = reading.epoch, reading.total
        count.last = reading.step + count.offset
        return count.last


class _WandbFolder:
    """A folder of W&B's in which its file may come later."""

    def __init__(self, reader: LossReader, folder: Path) -> None:
        self._reader = reader
        self._folder = folder

    def poll(self) -> list[Reading]:
        """Nothing itself: the file is followed once it is there."""
        for found in self._folder.glob("run-*.wandb"):
            self._reader._follow(str(found), 0)
        return []
