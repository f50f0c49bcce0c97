"""Paths in, evidence out: recognises each file by its content and joins what belongs to one incident."""

import gc
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from emberward.events import TraceFormatError, read_trace
from emberward.findings import Cause, Finding
from emberward.sources.dumps._evidence import Death, Evidence, file_problem
from emberward.sources.dumps._flight import KNOWN_VERSIONS, DumpFormatError, FlightReader, RankFlight, is_flight_dump
from emberward.sources.dumps._frames import ProcessStacks, short_path
from emberward.sources.dumps._logs import LogFactKind, looks_like_log, read_log
from emberward.sources.dumps._names import host_of_name, rank_of_name
from emberward.sources.dumps._ras import looks_like_ras_json, looks_like_ras_text, read_ras_json, read_ras_text
from emberward.sources.dumps._ring import is_echo, ring_flight
from emberward.sources.dumps._stack_text import (
    StackDocument,
    looks_like_stacks,
    read_faulthandler,
    read_py_spy_json,
    read_py_spy_text,
)
from emberward.sources.dumps._unpickle import MAX_BYTES, load_plain
from emberward.sources.ring import MarkKind, read_ring

MAX_FILES = 40_000
"""Most files that are looked at below the given paths."""
MAX_TEXT_BYTES = 256 << 20
"""Largest part of a text file that is read; of a longer one the end counts."""
MAX_PROBLEMS = 64
"""Most findings about single files; a note tells how many more there were."""

# fmt: off
_SKIPPED_SUFFIXES = frozenset(
    {
        ".py", ".pyc", ".pt", ".pth", ".safetensors", ".distcp", ".bin", ".idx", ".npy", ".npz", ".so", ".html",
        ".png", ".jpg", ".gz", ".zip", ".md", ".yaml", ".yml", ".toml",
    }
)
# fmt: on
_SKIPPED_FOLDERS = frozenset({"checkpoints", "__pycache__", ".git", "node_modules"})
_RUN_FILES = frozenset({"metrics.jsonl", "attempts.jsonl", "certificate.json"})
RING_MAGIC = b"EMBRING"
"""How a ring begins. See `emberward.sources.ring`."""
_DUMP_WORDS = ("dump", "nccl_trace", "flight", "fr_trace")


@contextmanager
def _no_collector() -> Iterator[None]:
    """Keeps the garbage collector out while millions of small objects are made that hold no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _files(path: Path) -> Iterator[Path]:
    """The files below a folder, in order of name; hidden ones and state that holds no evidence are passed over."""
    folders = [path]
    while folders:
        folder = folders.pop()
        inside = sorted(folder.iterdir())
        for item in inside:
            if item.name.startswith("."):
                continue
            if item.is_dir() and not item.is_symlink():
                if item.name not in _SKIPPED_FOLDERS:
                    folders.append(item)
            elif item.is_file() and item.suffix.lower() not in _SKIPPED_SUFFIXES and item.name not in _RUN_FILES:
                yield item


class Gatherer:
    """Reads files into one `Evidence`. Never raises for what a file holds: a bad file is a finding."""

    def __init__(self, label: str) -> None:
        self.evidence = Evidence(label=label)
        self._reader = FlightReader()
        self._root = Path(label)
        self._num_unnamed = 0
        self._rank_of_pid: dict[int, int] = {}

    def add(self, path: Path, *, is_named: bool) -> None:
        """Reads one file. `is_named`: a person gave this very path, so an unknown content is worth a word."""
        evidence = self.evidence
        evidence.num_files += 1
        try:
            size = path.stat().st_size
            with path.open("rb") as file:
                if size > MAX_TEXT_BYTES and file.read(1) not in (b"\x80", b"{"):
                    file.seek(size - MAX_TEXT_BYTES)
                else:
                    file.seek(0)
                data = file.read(MAX_BYTES)
            mtime_ns = path.stat().st_mtime_ns
        except OSError as error:
            self._problem(path, "cannot be read", str(error), "check its permissions and the disk")
            return
        if not data:
            if is_named or self._looks_named(path):
                self._problem(path, "is empty", "0 bytes", "the rank may have died while it wrote: dump it again")
            return
        try:
            is_known = self._content(path, data, mtime_ns)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
            self._problem(path, "cannot be read", f"{type(error).__name__}: {error}"[:300], "dump this rank again")
            return
        if not is_known and is_named:
            self._problem(
                path,
                "holds nothing that explain can read",
                _preview(data),
                "give flight-recorder dumps, py-spy or faulthandler stacks, logs, RAS reports or a run's folder",
            )
        elif not is_known and self._looks_named(path):
            self._problem(path, "is named like a dump and is none", _preview(data), "dump this rank again")

    @staticmethod
    def _looks_named(path: Path) -> bool:
        name = path.name.lower()
        return rank_of_name(path.name) is not None and ("rank" in name or any(word in name for word in _DUMP_WORDS))

    def _problem(self, path: Path, what: str, found: str, next_step: str, cause: Cause = Cause.CORRUPT_FILE) -> None:
        if len(self.evidence.problems) < MAX_PROBLEMS:
            shown = path.name if path.parent == self._root else str(path)
            self.evidence.problems.append(file_problem(shown, what, found=found, next_step=next_step, cause=cause))
        else:
            self._num_unnamed += 1

    def _content(self, path: Path, data: bytes, mtime_ns: int) -> bool:
        head = data[:64].lstrip()
        if data.startswith(RING_MAGIC):
            self._ring(path, mtime_ns)
            return True
        if data[:1] == b"\x80":
            self._plain(path, load_plain(data), mtime_ns)
            return True
        if path.name == "findings.jsonl":
            self._findings(path, data)
            return True
        if head[:1] in (b"{", b"["):
            if b'"emberward_trace"' in data[:200]:
                self._trace(path)
                return True
            value = self._json(data)
            if value is not None:
                return self._plain(path, value, mtime_ns)
        return self._text(path, data.decode("utf-8", errors="replace"))

    @staticmethod
    def _json(data: bytes) -> Any:
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            if b'"entries"' in data or b'"frames"' in data or b'"communicators"' in data:
                raise ValueError(f"cut or damaged JSON: {error}") from error
            return None

    def _plain(self, path: Path, value: Any, mtime_ns: int) -> bool:
        """Takes a value from a pickle or JSON file; says whether it was known."""
        name = str(path)
        rank, host = rank_of_name(path.name), host_of_name(path.name)
        if is_flight_dump(value):
            self._flight(path, value, mtime_ns)
        elif looks_like_ras_json(value):
            self.evidence.ras.append(read_ras_json(value, path=name))
        elif isinstance(value, list) and value and _has_frames(value):
            self._stacks(read_py_spy_json(value, path=name, rank=rank, host=host), rank)
        elif isinstance(value, dict) and path.parent.name == "failures" and rank is not None:
            self._failure(path, rank, value)
        elif isinstance(value, dict) and path.parent.name == "ranks" and rank is not None:
            # A run's own note about each of its ranks: whose process is whose.
            if isinstance(value.get("pid"), int):
                self._rank_of_pid[value["pid"]] = rank
        elif path.suffix == ".json" or isinstance(value, dict | list):
            return False
        else:
            raise ValueError(f"a pickled {type(value).__name__}, no flight-recorder dump")
        return True

    def _flight(self, path: Path, value: dict[str, Any], mtime_ns: int) -> None:
        rank = rank_of_name(path.name)
        if rank is None:
            raise DumpFormatError("its name tells no rank: expected a name such as rank_3")
        flight = self._reader.read(value, rank=rank, path=str(path), read_ns=mtime_ns)
        if flight.version[0] != KNOWN_VERSIONS[0][0]:
            number = ".".join(map(str, flight.version))
            found = "no version" if flight.version == (0, 0) else f"format {number}"
            raise DumpFormatError(f"{found}; formats 2.4 to 2.10 are read")
        if not KNOWN_VERSIONS[0] <= flight.version <= KNOWN_VERSIONS[1]:
            self.evidence.notes.append(
                f"{path.name} has format {flight.version[0]}.{flight.version[1]}, tested are 2.4 to 2.10"
            )
        if flight.num_dropped:
            self._problem(
                path,
                f"{flight.num_dropped} entries are no flight-recorder entries",
                f"{flight.num_entries} usable entries",
                "dump this rank again if the verdict names it",
            )
        if flight.read_ns is not None and flight.last_ns is not None and flight.read_ns < flight.last_ns:
            flight.read_ns = None
        other = self.evidence.flights.get(rank)
        self.evidence.flights[rank] = flight if other is None else _better(other, flight, self.evidence.notes)

    def _ring(self, path: Path, mtime_ns: int) -> None:
        """Takes a rank's ring: its calls as a dump, and the exception that ended it."""
        view = read_ring(path)
        if not view.is_readable or view.rank is None:
            raise ValueError("; ".join(view.problems[:2]) or "its process never had a rank")
        flight = self._reader.read(ring_flight(view), rank=view.rank, path=str(path), read_ns=mtime_ns)
        if flight.last_ns is not None and mtime_ns < flight.last_ns:
            flight.read_ns = None
        other = self.evidence.flights.get(view.rank)
        self.evidence.flights[view.rank] = flight if other is None else _better(other, flight, self.evidence.notes)
        if view.pid is not None:
            self._rank_of_pid[view.pid] = view.rank
        for mark in view.marks:
            if mark.kind is MarkKind.EXCEPTION and mark.name is not None and not is_echo(mark.name):
                self.evidence.deaths.append(
                    Death(
                        rank=view.rank,
                        cause=_death_cause(mark.name),
                        text=mark.name,
                        path=str(path),
                        site=None if mark.site is None else f"{short_path(mark.site.file)}:{mark.site.line}",
                        pid=view.pid,
                    )
                )

    def _trace(self, path: Path) -> None:
        try:
            self.evidence.traces.append(read_trace(path))
        except TraceFormatError as error:
            raise ValueError(f"half-written trace, {error}") from error

    def _failure(self, path: Path, rank: int, value: dict[str, Any]) -> None:
        text = " ".join(str(value[key]) for key in ("type", "message") if value.get(key))[:300]
        site = value.get("site")
        self.evidence.deaths.append(
            Death(
                rank=rank,
                cause=_death_cause(text),
                text=text or "left a failure file",
                path=str(path),
                site=site if isinstance(site, str) else None,
            )
        )

    def _findings(self, path: Path, data: bytes) -> None:
        for line in data.decode("utf-8", errors="replace").splitlines():
            if not line.strip():
                continue
            try:
                self.evidence.prior.append(Finding.from_json(json.loads(line)))
            except (ValueError, KeyError, TypeError) as error:
                self._problem(path, "has a line that is no finding", str(error)[:200], "read the line by eye")

    def _stacks(self, document: StackDocument, rank: int | None) -> None:
        roots = [process for process in document.processes if process.parent_pid is None]
        if len(roots) > 1 and all(process.rank == rank for process in roots):
            # One number in the name of a file of many processes is not the rank of each.
            document.processes = [replace(process, rank=None) for process in document.processes]
        self.evidence.stacks += document.processes
        if document.num_skipped:
            self.evidence.notes.append(f"{document.num_skipped} threads beyond the limit were not read")
        if document.fatal is not None and document.processes:
            process = document.processes[0]
            self.evidence.deaths.append(
                Death(
                    rank=rank,
                    cause=_death_cause(document.fatal),
                    text=f"Fatal Python error: {document.fatal}",
                    path=process.path,
                    pid=process.pid,
                )
            )

    def _text(self, path: Path, text: str) -> bool:
        name = str(path)
        rank, host = rank_of_name(path.name), host_of_name(path.name)
        if looks_like_ras_text(text):
            self.evidence.ras.append(read_ras_text(text, path=name))
            return True
        is_known = False
        if looks_like_stacks(text):
            if "(most recent call first):" in text:
                self._stacks(read_faulthandler(text, path=name, rank=rank, host=host), rank)
            if "Thread" in text:
                document = read_py_spy_text(text, path=name, rank=rank, host=host)
                self._stacks(document, rank)
            is_known = True
        if looks_like_log(text):
            self._log(name, text, rank if "rank" in path.name.lower() else None)
            is_known = True
        return is_known

    def _log(self, name: str, text: str, rank: int | None) -> None:
        for fact in read_log(text, path=name, rank=rank).facts:
            if fact.kind is not LogFactKind.DEATH:
                self.evidence.facts.append(fact)
                continue
            self.evidence.deaths.append(
                Death(
                    rank=fact.rank,
                    cause=Cause(fact.word or "unknown"),
                    text=fact.text,
                    path=f"{name}:{fact.line}",
                    site=fact.site,
                    pid=fact.pid,
                )
            )

    def finish(self) -> Evidence:
        """The evidence, with ranks given to stacks by the dumps' thread numbers where names tell none."""
        evidence = self.evidence
        if self._num_unnamed:
            evidence.notes.append(f"{self._num_unnamed} more files could not be read")
        owner: dict[str, set[int]] = {}
        for rank, flight in evidence.flights.items():
            for thread in flight.thread_ids:
                owner.setdefault(thread, set()).add(rank)
        evidence.stacks = [
            replace(process, rank=self._rank_of_pid[process.pid])
            if process.rank is None and process.pid in self._rank_of_pid
            else process
            for process in evidence.stacks
        ]
        evidence.stacks = _once([_ranked(process, owner) for process in evidence.stacks])
        return evidence


def _ranked(process: ProcessStacks, owner: dict[str, set[int]]) -> ProcessStacks:
    if process.rank is not None or process.parent_pid is not None:
        return process
    found = {
        next(iter(ranks))
        for thread in process.threads
        if thread.thread_ident is not None and len(ranks := owner.get(str(thread.thread_ident), set())) == 1
    }
    if len(found) != 1:
        return process
    return replace(process, rank=next(iter(found)))


def _once(processes: list[ProcessStacks]) -> list[ProcessStacks]:
    """Each process once: of two documents that hold it, the one that tells its rank, else its thread numbers.

    What the other one alone tells, its parent, is kept.
    """
    kept: dict[tuple[str | None, int | None, int, int], ProcessStacks] = {}
    for number, process in enumerate(processes):
        key = (process.host, process.pid, process.section, -1 if process.pid is not None else number)
        other = kept.get(key)
        if other is None:
            kept[key] = process
            continue
        best = max(other, process, key=lambda p: (p.rank is not None, p.threads[0].thread_ident is not None))
        kept[key] = replace(best, parent_pid=other.parent_pid or process.parent_pid)
    return list(kept.values())


def _has_frames(value: list[Any]) -> bool:
    first = value[0]
    if isinstance(first, list):
        first = first[0] if first else None
    return isinstance(first, dict) and "frames" in first


def _better(left: RankFlight, right: RankFlight, notes: list[str]) -> RankFlight:
    """The one to believe of two dumps of one rank: the later; of the same moment the one that holds stacks."""
    if (left.last_ns or 0) != (right.last_ns or 0):
        late = left if (left.last_ns or 0) > (right.last_ns or 0) else right
        notes.append(f"rank {left.rank} has two dumps; the later, {Path(late.path).name}, is judged")
        return late
    has_stacks = any(call.frames for call in right.pending) or any(
        "frames" in part.entries[-1] for part in right.groups.values() if part.entries
    )
    return right if has_stacks else left


def _death_cause(text: str) -> Cause:
    lowered = text.lower()
    if "segmentation fault" in lowered or "sigsegv" in lowered:
        return Cause.SEGFAULT
    if "out of memory" in lowered or "memoryerror" in lowered:
        return Cause.OUT_OF_MEMORY
    if "no space left" in lowered:
        return Cause.DISK_FULL
    return Cause.EXCEPTION


def _preview(data: bytes) -> str:
    return repr(data[:40].decode("utf-8", errors="replace"))


def _ranks_below(paths: Sequence[Path]) -> frozenset[int]:
    return frozenset(rank for path in paths if (rank := rank_of_name(path.name)) is not None)


def gather(paths: Sequence[Path]) -> list[Evidence]:
    """The evidence below `paths`: one incident, or one for each folder when folders hold dumps of the same ranks.

    Reads the files, writes nothing, runs nothing that they hold. Raises FileNotFoundError for a path that is not there.
    """
    loose: list[Path] = []
    bundles: list[tuple[str, list[Path]]] = []
    for path in paths:
        if path.is_dir():
            bundles.append((str(path), [file for file, _ in zip(_files(path), range(MAX_FILES), strict=False)]))
        elif path.exists():
            loose.append(path)
        else:
            raise FileNotFoundError(str(path))
    ranks = [_ranks_below(files) for _, files in bundles]
    is_apart = len(bundles) > 1 and all(a & b or not (a or b) for a, b in pairwise(ranks))
    if not is_apart:
        merged = [file for _, files in bundles for file in files]
        label = bundles[0][0] if bundles else str(loose[0])
        bundles = [(label, merged)]
    out = []
    named = set(loose)
    for index, (label, files) in enumerate(bundles):
        gatherer = Gatherer(label)
        with _no_collector():
            for file in [*files, *(loose if index == 0 else ())]:
                gatherer.add(file, is_named=file in named)
        out.append(gatherer.finish())
    return out
