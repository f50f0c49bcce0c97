"""Reads the files of one incident into evidence: each is recognised by its content, whatever it is called."""

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from emberward.diagnose import (
    FATAL,
    KNOWN_VERSIONS,
    Evidence,
    LogFactKind,
    ProcessStacks,
    RankFlight,
    file_problem,
    host_of_name,
    rank_of_dump,
    rank_of_log,
    rank_of_name,
    rank_of_path,
)
from emberward.events import RankEnd, TraceFormatError, read_trace
from emberward.findings import Cause, Finding, without_those_over
from emberward.sources.dumps._files import (
    Content,
    UnreadableError,
    read_content,
)
from emberward.sources.dumps._flight import DumpFormatError, FlightReader, is_flight_dump
from emberward.sources.dumps._foreign import foreign_finding, foreign_form, text_of_bytes
from emberward.sources.dumps._forms import FormReader
from emberward.sources.dumps._json_forms import json_form
from emberward.sources.dumps._logs import looks_like_log, read_log
from emberward.sources.dumps._pickle_forms import pickle_form
from emberward.sources.dumps._prefix import Stream, streams
from emberward.sources.dumps._ras import looks_like_ras_json, looks_like_ras_text, read_ras_json, read_ras_text
from emberward.sources.dumps._ring_facts import BUNDLED, RankRing, read_bundled, read_rank_ring
from emberward.sources.dumps._ring_flights import RingReader
from emberward.sources.dumps._runs import choose, newest_stacks, other_run_finding
from emberward.sources.dumps._stack_text import (
    StackDocument,
    looks_like_stacks,
    read_faulthandler,
    read_py_spy_json,
    read_py_spy_text,
    without_refusals,
)
from emberward.sources.dumps._unpickle import load_plain

MAX_PROBLEMS = 64
"""Most findings about single files; a note tells how many more there were."""

RING_MAGIC = b"EMBRING"
"""How a ring begins. See `emberward.sources.ring`."""
_DUMP_WORDS = ("dump", "nccl_trace", "flight", "fr_trace")


@contextmanager
def no_collector() -> Iterator[None]:
    """Keeps the garbage collector out while millions of small objects are made that hold no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Gatherer:
    """Reads files into one `Evidence`. Never raises for what a file holds: a bad file is a finding."""

    def __init__(self, label: str) -> None:
        self.evidence = Evidence(label=label)
        self._reader = FlightReader()
        self._pickles = FormReader(load_plain, pickle_form)
        self._texts = FormReader(json.loads, json_form)
        self._rings = RingReader()
        self._root = Path(label)
        self._num_unnamed = 0
        self._shown: dict[Path, str] = {}
        self._dumps: dict[int, list[RankFlight]] = {}
        self._written_ns: dict[str, int] = {}
        self._rank_of_pid: dict[int, int] = {}

    def add(self, path: Path, *, is_named: bool, shown: str | None = None, since_byte: int = 0) -> None:
        """Reads one file. `is_named`: a person gave this very path, so an unknown content is worth a word.

        `shown`: how people call it, when that is not its path (a member of an archive). `since_byte`: where the part
        begins that is of this incident.
        """
        self.evidence.num_files += 1
        if shown is not None:
            self._shown[path] = shown
        try:
            content = read_content(path, since_byte=since_byte)
        except UnreadableError as error:
            self._problem(path, "cannot be read", str(error), "give the file that holds the dump, stack or log")
            return
        except OSError as error:
            self._problem(path, "cannot be read", str(error), "check its permissions and the disk")
            return
        if not content.data and content.numbers is None:
            if is_named or self._looks_named(path):
                self._problem(path, "is empty", "0 bytes", "the rank may have died while it wrote: dump it again")
            return
        if content.data or not since_byte:
            self._add_content(path, content, is_named=is_named)

    def _add_content(self, path: Path, content: Content, *, is_named: bool) -> None:
        data = content.data
        try:
            is_known = self._content(path, content)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
            self._problem(path, "cannot be read", f"{type(error).__name__}: {error}"[:300], "dump this rank again")
            return
        if is_known:
            return
        form = foreign_form(data)
        if form is not None and (is_named or form.is_stack):
            self.evidence.problems.append(foreign_finding(self._name(path), form))
        elif is_named:
            self._problem(
                path,
                "holds nothing that explain can read",
                _preview(data) if content.numbers is None else "a long text without a line that tells of a hang",
                "give flight-recorder dumps, py-spy or faulthandler stacks, logs, RAS reports or a run's folder",
            )
        elif self._looks_named(path) and path.suffix != ".log":
            self._problem(path, "is named like a dump and is none", _preview(data), "dump this rank again")

    def add_problem(self, path: Path, what: str, found: str) -> None:
        """Tells of a path that could not be looked into."""
        self._problem(path, what, found, "check its permissions and the disk")

    def _name(self, path: Path) -> str:
        if path in self._shown:
            return self._shown[path]
        return path.name if path.parent == self._root else str(path)

    @staticmethod
    def _looks_named(path: Path) -> bool:
        name = path.name.lower()
        return rank_of_name(path.name) is not None and ("rank" in name or any(word in name for word in _DUMP_WORDS))

    def _problem(self, path: Path, what: str, found: str, next_step: str, cause: Cause = Cause.CORRUPT_FILE) -> None:
        rank = rank_of_name(path.name)
        if rank is not None and self._looks_named(path):
            # A rank whose dump is lost belongs to the job all the same.
            self.evidence.absent.add(rank)
        if len(self.evidence.problems) < MAX_PROBLEMS:
            self.evidence.problems.append(
                file_problem(self._name(path), what, found=found, next_step=next_step, cause=cause)
            )
        else:
            self._num_unnamed += 1

    def _content(self, path: Path, content: Content) -> bool:
        data, mtime_ns = content.data, content.mtime_ns
        self._written_ns[self._shown.get(path, str(path))] = mtime_ns
        head = data[:64].lstrip()
        if data.startswith(RING_MAGIC):
            self._ring(path, read_rank_ring(path), mtime_ns)
            return True
        if data[:1] == b"\x80":
            self._plain(path, self._pickles.load(data), mtime_ns)
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
        return self._text(path, text_of_bytes(data), content.numbers)

    def _json(self, data: bytes) -> Any:
        try:
            return self._texts.load(data)
        except (ValueError, RecursionError) as error:
            if b'"entries"' in data or b'"frames"' in data or b'"communicators"' in data:
                raise ValueError(f"cut or damaged JSON: {error}") from error
            return None

    def _plain(self, path: Path, value: Any, mtime_ns: int) -> bool:
        """Takes a value from a pickle or JSON file; says whether it was known."""
        name = self._shown.get(path, str(path))
        rank, host = rank_of_path(path), host_of_name(path.name)
        if is_flight_dump(value):
            self._flight(path, value, mtime_ns)
        elif isinstance(value, dict) and BUNDLED in value:
            self._ring(path, read_bundled(value), mtime_ns)
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
        rank = rank_of_dump(path)
        if rank is None:
            self._problem(
                path,
                "is a flight-recorder dump of nobody knows which rank",
                "its name tells no rank",
                "name it for its rank, such as rank_3, and give it together with those of the other ranks",
            )
            return
        flight = self._reader.read(value, rank=rank, path=str(path), written_ns=mtime_ns)
        world = next((p.ranks for n, p in flight.groups.items() if n[1] == "default_pg" and p.ranks is not None), None)
        if world is not None and rank not in world:
            raise DumpFormatError(f"its name tells rank {rank}, and the job's ranks end at {max(world)}")
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
        self._dumps.setdefault(rank, []).append(flight)

    def _ring(self, path: Path, ring: RankRing, mtime_ns: int) -> None:
        """Takes a rank's ring: its calls, and the exception that ended it."""
        self._rings.note(ring.facts)
        flight = _read_ring(self._rings, ring, str(path), mtime_ns)
        self._dumps.setdefault(ring.rank, []).append(flight)
        if ring.pid is not None:
            self._rank_of_pid[ring.pid] = ring.rank
        for moment in ring.facts.moments:
            if moment.kind == "exception" and moment.text is not None:
                self._end(rank=ring.rank, words=moment.text, source=str(path), site=moment.site, pid=ring.pid)

    def _read_again(self, flight: RankFlight, reader: RingReader) -> RankFlight:
        """The flight of a ring, now that all rings are known. See [Note: rows of two writers]."""
        path = Path(flight.path)
        ring = read_bundled(json.loads(path.read_bytes())) if path.suffix == ".json" else read_rank_ring(path)
        return _read_ring(reader, ring, flight.path, flight.written_ns)

    def _trace(self, path: Path) -> None:
        try:
            self.evidence.traces.append(read_trace(path))
        except TraceFormatError as error:
            raise ValueError(f"half-written trace, {error}") from error

    def _failure(self, path: Path, rank: int, value: dict[str, Any]) -> None:
        words = ": ".join(str(value[key]) for key in ("type", "message") if value.get(key))[:300]
        site = value.get("site")
        self._end(
            rank=rank,
            words=words or "exception: left a failure file",
            source=str(path),
            site=site if isinstance(site, str) else None,
        )

    def _end(self, **facts: Any) -> None:
        self.evidence.ends.append(RankEnd(**facts))

    def _findings(self, path: Path, data: bytes) -> None:
        """Takes what a run's own judges found in its last attempt; earlier ones are another incident's."""
        found: list[tuple[int | None, Finding]] = []
        for line in data.decode("utf-8", errors="replace").splitlines():
            if not line.strip():
                continue
            try:
                values = json.loads(line)
                found.append((values.get("attempt"), Finding.from_json(values)))
            except (ValueError, KeyError, TypeError) as error:
                self._problem(path, "has a line that is no finding", str(error)[:200], "read the line by eye")
        last = max((attempt for attempt, _ in found if isinstance(attempt, int)), default=None)
        of_last = (finding for attempt, finding in found if attempt in (None, last))
        self.evidence.prior += without_those_over(of_last)

    def _stacks(self, document: StackDocument, rank: int | None) -> None:
        if rank is not None and any(process.pid == rank for process in document.processes):
            # The number in the file's name is the process, and no rank.
            document.processes = [replace(p, rank=None) if p.rank == rank else p for p in document.processes]
            rank = None
        roots = [process for process in document.processes if process.parent_pid is None]
        for is_child in (_is_worker, _is_forked):
            alone = [process for process in roots if not is_child(process)]
            if rank is not None and len(alone) == 1 < len(roots):
                # The others are children of the rank, of which py-spy's JSON tells no parent.
                own = alone[0].pid
                document.processes = [
                    replace(p, rank=None, parent_pid=own) if p in roots and p is not alone[0] else p
                    for p in document.processes
                ]
                roots = alone
        if len(roots) > 1 and all(process.rank == rank for process in roots):
            # One number in the name of a file of many processes is not the rank of each.
            document.processes = [replace(process, rank=None) for process in document.processes]
        self.evidence.stacks += document.processes
        if document.num_skipped:
            self.evidence.notes.append(f"{document.num_skipped} threads beyond the limit were not read")
        if document.fatal is not None and document.processes:
            process = document.processes[0]
            self._end(rank=rank, words=f"{FATAL}{document.fatal}", source=process.path, pid=process.pid)

    def _text(self, path: Path, text: str, numbers: tuple[int, ...] | None) -> bool:
        if looks_like_ras_text(text):
            self.evidence.ras.append(read_ras_text(text, path=self._shown.get(path, str(path))))
            return True
        found = [self._stream(path, stream) for stream in streams(text, numbers)]
        return any(found)

    def _stream(self, path: Path, stream: Stream) -> bool:
        """Takes what one writer wrote; says whether it was known."""
        name, text = self._shown.get(path, str(path)), stream.text
        told = rank_of_path(path) if stream.rank is None else stream.rank
        host = host_of_name(path.name)
        is_known = False
        if looks_like_stacks(text):
            if "(most recent call first):" in text:
                for document in read_faulthandler(text, path=name, rank=told, host=host):
                    self._stacks(document, told)
            if "Thread" in text or "Process" in text:
                self._stacks(read_py_spy_text(text, path=name, rank=told, host=host), told)
            is_known = True
            stream = Stream(rank=stream.rank, text=without_refusals(text), numbers=stream.numbers)
        if looks_like_log(stream.text):
            self._log(name, stream, rank_of_log(path) if stream.rank is None else stream.rank)
            is_known = True
        return is_known

    def _log(self, name: str, stream: Stream, rank: int | None) -> None:
        for fact in read_log(stream.text, path=name, rank=rank, numbers=stream.numbers).facts:
            if fact.kind is not LogFactKind.END:
                self.evidence.facts.append(fact)
                continue
            self._end(
                rank=fact.rank,
                exit_code=fact.exit_code,
                words=fact.word,
                source=f"{name}:{fact.line}",
                site=fact.site,
                pid=fact.pid,
            )

    def finish(self) -> Evidence:
        """The evidence: of several dumps of a rank the newest, and each process once."""
        evidence = self.evidence
        if self._num_unnamed:
            evidence.notes.append(f"{self._num_unnamed} more files could not be read")
        if self._rings.mixed:
            reader = self._rings.anew()
            for rank, found in self._dumps.items():
                self._dumps[rank] = [self._read_again(each, reader) if each.is_ring else each for each in found]
        chosen = choose(self._dumps)
        evidence.flights.update(chosen.flights)
        evidence.notes += chosen.notes
        for flight in chosen.set_aside:
            shown = self._name(Path(flight.path))
            evidence.problems.append(other_run_finding(flight, shown=shown, is_judged=flight.rank in chosen.flights))
            evidence.absent.add(flight.rank)
        evidence.stacks = [
            replace(process, rank=self._rank_of_pid[process.pid])
            if process.rank is None and process.pid in self._rank_of_pid
            else process
            for process in evidence.stacks
        ]
        stacks = _once(evidence.stacks)
        evidence.stacks, notes = newest_stacks(stacks, self._written_ns)
        evidence.notes += notes
        return evidence


def _read_ring(reader: RingReader, ring: RankRing, path: str, written_ns: int | None) -> RankFlight:
    """A ring's calls, with the time from its rank's last move to its last heartbeat."""
    flight = reader.read(ring.facts, rank=ring.rank, path=path, written_ns=written_ns)
    moved, beat = ring.facts.moved_age_s, ring.facts.heartbeat_age_s
    flight.still_s = None if moved is None or beat is None else max(0.0, moved - beat)
    return flight


def _is_worker(process: ProcessStacks) -> bool:
    main = process.main
    return main is not None and any(frame.function == "_worker_loop" for frame in main.frames)


def _is_forked(process: ProcessStacks) -> bool:
    main = process.main
    return main is not None and any(
        frame.function.endswith("_bootstrap") and frame.file.endswith("multiprocessing/process.py")
        for frame in main.frames
    )


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
        best = max(
            other, process, key=lambda p: (p.rank is not None, any(t.thread_ident is not None for t in p.threads[:1]))
        )
        kept[key] = replace(best, parent_pid=other.parent_pid or process.parent_pid)
    return list(kept.values())


def _has_frames(value: list[Any]) -> bool:
    first = value[0]
    if isinstance(first, list):
        first = first[0] if first else None
    return isinstance(first, dict) and "frames" in first


def _preview(data: bytes) -> str:
    return repr(data[:40].decode("utf-8", errors="replace"))
