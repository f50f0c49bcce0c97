"""Notes what this process prints about a loss, and which logs it opens. Loaded by `attach`'s start-up file with torch.

The standard library only. What is printed passes unchanged, and so do the program's stdout and stderr: only their
``write`` is called through here. Lines without the word "loss" are not kept. Notes go into ``captured-PID-N.jsonl`` of
the ring folder, SEGMENT_BYTES each; whoever reads a segment removes it, and MAX_SEGMENTS that nobody read end the
capture. See `emberward.sources.losses`.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

SEGMENT_BYTES = 256 << 10
MAX_SEGMENTS = 64
MAX_LINE = 2000
MAX_FILES = 64
"""Logs of one process that are followed."""
RANK_NAMES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
SUFFIXES = (".csv", ".jsonl", ".ndjson", ".log", ".txt", ".out", ".wandb")

_ON: "list[Capture]" = []


class Capture:
    """The one of this process. Nothing here raises into the program."""

    def __init__(self, folder: Path, rank: int | None) -> None:
        self._folder = folder
        self._rank = rank
        self._pid = os.getpid()
        self._number = 0
        self._descriptor: int | None = None
        self._written = 0
        self._rest: dict[int, str] = {}
        self._files: set[str] = set()
        self.is_off = False

    def wrap(self, name: str, stream: TextIO) -> None:
        """Has `stream`, called `name`, written through here."""
        original: Callable[[str], int] = stream.write

        def write(text: str) -> int:
            written = original(text)
            if not self.is_off:
                self._printed(name, text)
            return written

        # The stream itself stays what it is, with its descriptor and its isatty.
        stream.write = write  # type: ignore[method-assign]

    def _printed(self, name: str, text: object) -> None:
        try:
            if not isinstance(text, str) or os.getpid() != self._pid:
                return
            whole = self._rest.pop(hash(name), "") + text
            # A progress bar ends its lines with a carriage return.
            lines = whole.replace("\r", "\n").split("\n")
            self._rest[hash(name)] = lines.pop()[-MAX_LINE:]
            for line in lines:
                if "loss" in line.lower() and len(line) <= MAX_LINE:
                    self._note({"line": line, "from": name})
        except Exception:  # noqa: BLE001 (what a program prints must not fail for us)
            self.is_off = True

    def opened(self, event: str, args: tuple[Any, ...]) -> None:
        """An audit hook: a file is about to be opened."""
        if event != "open" or self.is_off:
            return
        try:
            self._opened(args[0], args[1])
        except Exception:  # noqa: BLE001 (see above)
            self.is_off = True

    def _opened(self, path: object, mode: object) -> None:
        if not isinstance(path, str | bytes | os.PathLike) or not isinstance(mode, str) or not set(mode) & set("wax+"):
            return
        name = os.fsdecode(path)
        if not name.endswith(SUFFIXES) and ".tfevents." not in name:
            return
        whole = str(Path(name).absolute())
        if whole in self._files or os.getpid() != self._pid or len(self._files) >= MAX_FILES:
            return
        self._files.add(whole)
        size = Path(whole).stat().st_size if "w" not in mode and Path(whole).exists() else 0
        self._note({"file": whole, "at": size})

    def _note(self, note: Mapping[str, object]) -> None:
        data = json.dumps({**note, "rank": self._known_rank(), "time_unix": round(time.time(), 2)}).encode() + b"\n"
        if self._descriptor is None or self._written > SEGMENT_BYTES:
            if self._path(self._number + 1 - MAX_SEGMENTS).exists():
                return
            if self._descriptor is not None:
                os.close(self._descriptor)
            self._number += 1
            self._written = 0
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(self._path(self._number), flags, 0o600)
        self._written += os.write(self._descriptor, data)

    def _path(self, number: int) -> Path:
        return self._folder / f"captured-{self._pid}-{number}.jsonl"

    def _known_rank(self) -> int | None:
        if self._rank is None:
            dist = sys.modules.get("torch.distributed")
            if dist is not None and dist.is_available() and dist.is_initialized():
                self._rank = dist.get_rank()
        return self._rank


def start(folder: str, environment: Mapping[str, str]) -> None:
    """Captures from here on, once a process. A forked child does not."""
    if _ON:
        return
    text = next((environment[name] for name in RANK_NAMES if environment.get(name, "").isdecimal()), None)
    capture = Capture(Path(folder), None if text is None else int(text))
    _ON.append(capture)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None:
            capture.wrap(name, stream)
    sys.addaudithook(capture.opened)
