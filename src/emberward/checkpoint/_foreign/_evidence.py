"""What the files of a foreign checkpoint prove about themselves, and where they contradict it.

[Note: evidence]
A torch file is a zip: each of its records has a CRC-32. The bytes that a conversion reads are added to their record's
checksum as they pass, in whatever order and by whichever thread; at the end the rest is read, and no record is left
unproved. A contradiction names its file and stops the conversion (K123), unless that file's name was accepted.
"""

import os
import threading
from bisect import bisect
from collections.abc import Callable, Collection
from pathlib import Path

from emberward.checkpoint._crc import combine_crc32, crc32
from emberward.checkpoint._foreign._problems import damaged, not_understood, unreadable
from emberward.findings import Cause, Certainty, Finding, Kind, Severity

_READ_BYTES = 2 << 20

Report = Callable[..., None]
"""`Evidence.contradict`."""


class Record:
    """A range of a file whose CRC-32 the file states. Threads may add what they read of it in any order."""

    def __init__(self, *, path: Path, name: str, begin: int, num_bytes: int, crc: int, report: Report) -> None:
        self.path, self.name, self.begin, self.num_bytes = path, name, begin, num_bytes
        self._crc, self._report = crc, report
        self._lock = threading.Lock()
        self._seen: list[tuple[int, int, int]] = []  # (begin, end, crc), sorted, neither overlapping nor touching

    def add(self, offset: int, data: memoryview) -> None:
        """Takes bytes of the file from `offset` on. Reports a record that is then whole and has another checksum."""
        begin, end = max(offset, self.begin), min(offset + len(data), self.begin + self.num_bytes)
        for low, high in self._gaps(begin, end):
            crc = crc32(data[low - offset : high - offset])
            with self._lock:
                if self._gaps_of(low, high) == [(low, high)]:  # no other thread has added it meanwhile
                    self._join(low, high, crc)

    def read_rest(self, descriptor: int) -> None:
        """Reads what nobody has read."""
        buffer = memoryview(bytearray(min(_READ_BYTES, self.num_bytes)))
        if self.num_bytes == 0:
            self._compare(0)
        for low, high in self._gaps(self.begin, self.begin + self.num_bytes):
            while low < high:
                taken = os.preadv(descriptor, [buffer[: high - low]], low)
                if taken == 0:
                    raise unreadable("a file is cut", where=str(self.path), found=f"record {self.name} is not whole")
                self.add(low, buffer[:taken])
                low += taken

    def disagree(self, other: Path, what: str, expected: str, found: str) -> None:
        """Reports that a file contradicts the one of this record; the acceptance of either counts."""
        self._report(other, what, expected, found, self.path)

    @property
    def is_proved(self) -> bool:
        """Whether every byte has been read and compared."""
        return self._gaps(self.begin, self.begin + self.num_bytes) == [] and self.num_bytes > 0

    def _gaps(self, begin: int, end: int) -> list[tuple[int, int]]:
        with self._lock:
            return self._gaps_of(begin, end)

    def _gaps_of(self, begin: int, end: int) -> list[tuple[int, int]]:
        gaps, at = [], begin
        for low, high, _ in self._seen[max(0, bisect(self._seen, (begin,)) - 1) :]:
            if low >= end:
                break
            if low > at:
                gaps.append((at, low))
            at = max(at, high)
        return [*gaps, (at, end)] if at < end else gaps

    def _join(self, begin: int, end: int, crc: int) -> None:
        """Adds a range that was a gap, and joins it with those that it touches."""
        at = bisect(self._seen, (begin,))
        if at < len(self._seen) and self._seen[at][0] == end:
            _, high, after = self._seen.pop(at)
            crc, end = combine_crc32(crc, after, high - end), high
        if at > 0 and self._seen[at - 1][1] == begin:
            at -= 1
            low, middle, before = self._seen.pop(at)
            crc, begin = combine_crc32(before, crc, end - middle), low
        self._seen.insert(at, (begin, end, crc))
        if end - begin == self.num_bytes:
            self._compare(crc)

    def _compare(self, crc: int) -> None:
        if crc != self._crc:
            what = f"record {self.name} does not have its checksum"
            self._report(self.path, what, f"CRC-32 {self._crc:08x}", f"{crc:08x}")


class Evidence:
    """The records and contradictions of one checkpoint. `accepted` are names of files whose damage is accepted."""

    def __init__(self, accepted: Collection[str] = ()) -> None:
        self._accepted = frozenset(accepted)
        self._records: list[Record] = []
        self._found: dict[tuple[Path, str], Finding] = {}
        self._lock = threading.Lock()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """A warning for each contradiction that was accepted."""
        return tuple(self._found.values())

    def record(self, *, path: Path, name: str, begin: int, num_bytes: int, crc: int) -> Record:
        """A range of a file with its checksum, which is compared by the end."""
        made = Record(path=path, name=name, begin=begin, num_bytes=num_bytes, crc=crc, report=self.contradict)
        self._records.append(made)
        return made

    def contradict(self, path: Path, what: str, expected: str, found: str, beside: Path | None = None) -> None:
        """Raises K123, or keeps a warning when the damage of the file, or of the one beside it, is accepted."""
        if self._accepted.isdisjoint({path.name, None if beside is None else beside.name}):
            raise damaged(what, path=path, expected=expected, found=found)
        with self._lock:
            self._found[path, what] = Finding(
                code="K123",
                severity=Severity.WARNING,
                kind=Kind.RESOURCE,
                cause=Cause.CORRUPT_FILE,
                certainty=Certainty.PROVED,
                message=f"damage of {path.name} was accepted: {what}",
                site=str(path),
                evidence=(f"expected {expected}", f"found {found}"),
                next="emberward checkpoint diff with another copy tells which tensors it reached",
            )

    def require_equal(self, path: Path, what: str, expected: object, found: object) -> None:
        """A contradiction unless the two are equal."""
        if expected != found:
            self.contradict(path, what, str(expected), str(found))

    def require_names(self, files: Collection[Path]) -> None:
        """Raises K110 when an accepted name is none of the files'."""
        unknown = sorted(self._accepted - {path.name for path in files})
        if unknown:
            raise not_understood(
                "no file of the checkpoint has this name",
                where="--accept-damage",
                expected="the name of a file that was refused",
                found=unknown[0],
            )

    def finish(self) -> None:
        """Reads what no one has read of the records, so that each is proved. Raises K123 for the first that is not."""
        rest: dict[Path, list[Record]] = {}
        for record in self._records:
            if not record.is_proved:
                rest.setdefault(record.path, []).append(record)
        for path, records in rest.items():
            with path.open("rb", buffering=0) as file:
                for record in records:
                    record.read_rest(file.fileno())
